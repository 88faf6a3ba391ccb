"""Buttons that close, reopen and archive a trial, and that unmask an allocation."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from ...trials import Trial
from ..auth import allow
from .rendering import Form, PageRoute, Sent, go, page
from .trial import AllocationId, Opened

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)


def _changed(
    request: Request, trial: Trial, change: Callable[..., object], form: Form, reason: str | None
) -> Response:
    change(reason=reason, key=form.key, by=request.state.principal.name)
    return go(f"/trials/{trial.id}")


@router.post("/close")
@allow("admin")
def close(request: Request, trial: Opened, form: Sent) -> Response:
    """Make no more allocations."""
    return _changed(request, trial, trial.close, form, form.text("reason"))


@router.post("/reopen")
@allow("admin")
def reopen(request: Request, trial: Opened, form: Sent) -> Response:
    """Make allocations again."""
    return _changed(request, trial, trial.reopen, form, form.reason)


@router.post("/archive")
@allow("admin")
def archive(request: Request, trial: Opened, form: Sent) -> Response:
    """Close the trial and hide it from lists."""
    return _changed(request, trial, trial.archive, form, form.text("reason"))


@router.post("/allocations/{allocation}/unmask")
@allow("admin", "operator")
def unmask(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """The name of the arm of one allocation, on this page only."""
    by = request.state.principal.name
    slot = trial.unmask(allocation, reason=form.reason, key=form.key, by=by)
    return page(
        request, "unmasked.html.j2", trial=trial, slot=slot, code=trial.codes[str(slot.arm)]
    )
