"""The results of a trial: a page of the site, and the report, a page of its own to print."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from ...trials import Trial, TrialReport
from ...trials.report_text import results as result_parts
from ...trials.report_text import shares, state_of, trial_page
from ..auth import allow
from ..middleware.security_headers import INLINE_STYLES
from .rendering import PageRoute, page
from .trial import Opened, saw

Control = Annotated[str, Query(max_length=100)]

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)


def report_of(request: Request, trial: Trial, control: str = "") -> TrialReport:
    """The report; few requests at a time read a whole log."""
    state = request.app.state
    with state.record_readers.one():
        return trial.report(control=control or None, late_after=state.limits.stale_after)


@router.get("/results")
@allow("admin", "viewer")
def results(request: Request, trial: Opened, control: Control = "") -> Response:
    """Rates, intervals, chances of being best, shares over time."""
    saw(request, trial)
    found = report_of(request, trial, control)
    return page(
        request,
        "results.html.j2",
        trial=trial,
        report=found,
        summary=state_of(found),
        results=result_parts(found),
        shares=shares(found),
    )


@router.get("/report")
@allow("admin", "viewer")
def report(request: Request, trial: Opened, control: Control = "") -> Response:
    """The report as one page that needs no other file, to save and to print."""
    saw(request, trial)
    found = report_of(request, trial, control)
    # its styles are in its text, so that it can be saved
    return HTMLResponse(trial_page(found), headers={"Content-Security-Policy": INLINE_STYLES})
