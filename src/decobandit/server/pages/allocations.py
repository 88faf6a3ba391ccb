"""The page of a trial's allocations: all of them, or those of one state, page by page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ...trials.allocations import AllocationState
from ...trials.lists import ledger_of, matching, numbers_of, page_of_allocations, stale_ids
from ..auth import allow
from .rendering import PageRoute, page
from .trial import Opened, models_of_slots, saw

ALLOCATIONS_PER_PAGE = 100

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/trials/{trial}/allocations")
@allow("admin", "viewer")
def allocations(
    request: Request,
    trial: Opened,
    after: Annotated[str | None, Query(max_length=100)] = None,
    state: AllocationState | None = None,
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Allocations in the order in which they were made; administrators correct outcomes here."""
    settings = request.app.state
    saw(request, trial)
    ledger = ledger_of(trial.store, trial.id)
    numbers = numbers_of(ledger)
    listed = {slot.id: slot for slot in matching(ledger.allocations.values(), numbers, find)}
    listing = page_of_allocations(listed, after=after, limit=ALLOCATIONS_PER_PAGE, state=state)
    return page(
        request,
        "allocations.html.j2",
        trial=trial,
        allocations=listing.items,
        next=listing.next,
        first=after is None,
        state=state or "",
        find=find,
        numbers=numbers,
        kinds=models_of_slots(ledger),
        models=ledger.kinds,
        since=ledger.since,
        stale=set(stale_ids(ledger.since, settings.limits.stale_after)),
    )
