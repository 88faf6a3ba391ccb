"""The report of a trial."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from ..auth import Caller, allow
from . import responses as out
from .api_router import router
from .arguments import Seen
from .record_models import Out

ControlArm = Annotated[
    str | None,
    Query(
        max_length=100,
        description="The arm that others are compared with; the first where none is named.",
    ),
]


@router.get("/trials/{trial}/report", response_model=out.ReportOut)
@allow("admin", "viewer")
def trial_report(request: Request, caller: Caller, trial: Seen, control: ControlArm = None) -> Out:
    """Rates with intervals, chances of being best, shares over time, deviations, the log."""
    with request.app.state.record_readers.one(caller.name):
        found = trial.report(control=control, late_after=request.app.state.limits.stale_after)
    return out.ReportOut.model_validate(found.to_dict())
