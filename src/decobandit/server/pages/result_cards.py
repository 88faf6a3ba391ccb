"""The results of a trial as they are shown within pages of the site."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from ...trials import Trial, TrialReport
from ...trials.report_text import declared, results, shares, state_of


def report_for(request: Request, trial: Trial, control: str = "") -> TrialReport:
    """The report; few requests at a time read a whole log."""
    state = request.app.state
    with state.record_readers.one(request.state.principal.name):
        return trial.report(control=control or None, late_after=state.limits.stale_after)


def result_cards(report: TrialReport) -> dict[str, Any]:
    """What the template `result_cards.html.j2` needs."""
    return {
        "report": report,
        "summary": " ".join(filter(None, [state_of(report), declared(report)])),
        "results": results(report),
        "shares": shares(report),
    }
