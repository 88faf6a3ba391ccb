"""Designs: their operating characteristics as JSON, and the report to print."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ...designs import operating_characteristics
from ...designs.reporting import beside_equal, study_design
from ...figures.design_report import study_page
from ...policies import check_policies
from ...problem import Design, Problem
from ...problem.problem_files import format_problem
from ..auth import Caller, allow
from ..long_work import refusals
from ..middleware.security_headers import INLINE_STYLES
from . import responses as out
from . import schemas as sent
from .api_router import router
from .problems import check_work, checked_design, in_body
from .record_models import Out

FILE = "trial.json"  # as the report calls what was sent


def _designed(request: Request, body: sent.DesignIn) -> tuple[Problem, Design]:
    limits = request.app.state.limits
    problem, design = checked_design(body.problem, limits)
    if design is None:
        raise ValueError(f"{in_body(('design',))}: required key is missing")
    check_policies(design.policies, places=False)
    check_work(problem, design, limits, in_body)
    return problem, design


@router.post("/design", response_model=out.DesignOut, response_model_exclude_unset=True)
@allow("admin", "viewer")
async def design_make(request: Request, _: Caller, body: sent.DesignIn) -> Out:
    """What each policy of a design does in each scenario, as `deco design --json` prints it."""
    with refusals():
        problem, design = await run_in_threadpool(_designed, request, body)
        found = await request.app.state.long_work.run(
            request, "plan", operating_characteristics, problem, design, **body.settings()
        )
        return out.DesignOut.model_validate(found.to_dict())


@router.post("/design/report", response_class=HTMLResponse)
@allow("admin", "viewer")
async def design_report(request: Request, _: Caller, body: sent.DesignIn) -> HTMLResponse:
    """The report of a design: one page that needs no other, to save and to print."""
    with refusals():
        problem, design = await run_in_threadpool(_designed, request, body)
        check_work(problem, beside_equal(design), request.app.state.limits, in_body)
        study = await request.app.state.long_work.run(
            request, "plan", study_design, problem, design, **body.settings()
        )
        text = format_problem(problem, design, format="json")
        page = await run_in_threadpool(study_page, study, FILE, text)
    return HTMLResponse(page, headers={"Content-Security-Policy": INLINE_STYLES})
