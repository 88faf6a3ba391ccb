"""The results of a trial: a page of the site, and the report, a page of its own to print."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from ...trials.report_text import trial_page
from ..auth import allow
from ..middleware.security_headers import INLINE_STYLES
from .rendering import PageRoute, page
from .result_cards import report_for, result_cards
from .trial import Opened, saw

Control = Annotated[str, Query(max_length=100)]

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)


@router.get("/results")
@allow("admin", "viewer")
def results(request: Request, trial: Opened, control: Control = "") -> Response:
    """Rates, intervals, chances of being best, shares over time."""
    saw(request, trial)
    cards = result_cards(report_for(request, trial, control))
    return page(request, "results.html.j2", trial=trial, **cards)


@router.get("/report")
@allow("admin", "viewer")
def report(request: Request, trial: Opened, control: Control = "") -> Response:
    """The report as one page that needs no other file, to save and to print."""
    saw(request, trial)
    text = trial_page(report_for(request, trial, control))
    # its styles are in its text, so that it can be saved
    return HTMLResponse(text, headers={"Content-Security-Policy": INLINE_STYLES})
