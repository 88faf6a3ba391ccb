"""How a page of a list is asked for, and how its answer says where the next one begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import Depends, Query

from ...trials.allocations import Allocation, AllocationState
from ...trials.lists import MAX_PAGE, Page, page_of_allocations

_KEY = r"^[^\x00-\x1f\x7f]{1,100}$"
_AFTER = "The list begins after this one: `next` of the page before."

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Entries at most.")]
AfterTrial = Annotated[str | None, Query(pattern=_KEY, description=_AFTER)]
AfterAllocation = Annotated[str | None, Query(pattern=_KEY, description=_AFTER)]
AfterEvent = Annotated[int, Query(ge=-1, lt=2**31, description=_AFTER)]
State = Annotated[AllocationState | None, Query(description="Only those in this state.")]


class AskedPage(NamedTuple):
    """Which allocations of a trial are asked for."""

    limit: int
    after: str | None
    state: AllocationState | None

    def of(self, made: Mapping[str, Allocation]) -> Page[Allocation]:
        """Those of them that were made in this trial."""
        return page_of_allocations(made, limit=self.limit, after=self.after, state=self.state)


def _asked_page(
    limit: Limit = MAX_PAGE, after: AfterAllocation = None, state: State = None
) -> AskedPage:
    return AskedPage(limit, after, state)


PageOfMade = Annotated[AskedPage, Depends(_asked_page)]


def next_key(page: Page[object]) -> dict[str, str]:
    """The key `next`, where there is a next page."""
    return {} if page.next is None else {"next": page.next}
