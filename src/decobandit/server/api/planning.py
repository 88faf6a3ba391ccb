"""Plans, designs and new trials: problems that are sent, within the limits of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ... import problem as problems
from ...designs import forecast, operating_characteristics
from ...designs.designing import POLICIES
from ...designs.reporting import beside_equal, study_design
from ...figures.design_report import study_page
from ...policies import IndexPolicy, check_policies, policy_class
from ...problem.problem_files import format_problem
from ...support import Naming, Place, dotted
from ...support.errors import InvalidArgument
from ...trials import Trial
from ...trials.settings import make_settings
from ...trials.trial import NewTrial
from ..auth import INLINE_STYLES, Caller, allow
from ..limits import Limits
from ..long_work import LongWork, refusals
from . import responses as out
from . import schemas as sent
from .routing import answer, router

T = TypeVar("T")
FILE = "trial.json"  # as the report calls what was sent


# -- problems -----------------------------------------------------------------------------------


def in_body(place: Place) -> str:
    """Return a place of the problem in a request body."""
    return dotted(("body", "problem", *place))


def check_size(sent: problems.ProblemTable, limits: Limits, most_stages: int | None = None) -> None:
    """Refuse a problem that is too large, before counts are expanded.

    A small request must not allocate much memory.
    """
    most = most_stages or limits.max_horizon
    if sent.n_arms > limits.max_arms or sent.most_stages > most:
        field = in_body(("arms" if sent.n_arms > limits.max_arms else "horizon",))
        message = f"this server takes at most {limits.max_arms} arms and {most} stages"
        raise InvalidArgument(message, field=field)


def most_stages(policy: str, limits: Limits, *, bound: bool | None) -> int:
    """Stages of a trial: more where its policy needs neither prices nor tables."""
    kind = policy_class(policy, places=False)
    by_index = issubclass(kind, IndexPolicy) and kind.index is not IndexPolicy.index
    tabulates = by_index or kind.cost != "light"
    return limits.max_horizon if tabulates or bound else limits.max_light_horizon


def checked(
    sent: problems.ProblemTable, limits: Limits, make: Callable[[], T], most: int | None = None
) -> T:
    """Return what is made of the problem in a request; refuse it if invalid or too large."""
    check_size(sent, limits, most)
    try:
        return make()
    except problems.InvalidProblem as error:
        field = f"body.problem.{error.field}"
        raise problems.ProblemError(error.line(in_body), field=field) from None


def check_work(
    problem: problems.Problem, design: problems.Design, limits: Limits, where: Naming
) -> None:
    """Refuse a design whose simulation would be too slow, before it begins."""
    pulls = problem.horizon * problem.pulls_per_stage
    pulls_per_draw = pulls * len(design.policies or POLICIES) * max(len(design.scenarios), 1)
    most = limits.design_pulls // pulls_per_draw
    if design.draws > most:
        raise InvalidArgument(
            f"{where(('design', 'draws'))}: {design.draws} is not allowed; must be at most {most} "
            "on this server, so that it does not take too long; deco design takes more",
            field=where(("design", "draws")),
        )


# -- routes -------------------------------------------------------------------------------------


@router.post("/trials", status_code=201, response_model=out.StatusOut)
@allow("admin", all_trials=True)
async def trial_create(request: Request, _: Caller, body: sent.CreateIn) -> Response:
    """Solve a problem and start a trial of it."""
    with refusals():
        check_policies([body.policy], places=False)
        limits, sent_problem = request.app.state.limits, body.problem
        most = most_stages(body.policy, limits, bound=body.bound)
        problem, design = await run_in_threadpool(
            checked, sent_problem, limits, sent_problem.designed, most
        )
        settings = dict(body)
        del settings["problem"]
        trial = await start_trial(request, problem, design=design, **settings)
        status = await run_in_threadpool(trial.status)
        return answer(status.to_dict() | {"stale": []}, 201)


@router.post("/plan", response_model=out.PlanOut)
@allow("admin", "viewer")
async def plan_make(request: Request, _: Caller, body: sent.PlanIn) -> Response:
    """Forecast the rewards of several policies, with an upper bound for all policies."""
    state = request.app.state
    with refusals():
        table = body.problem
        problem = await run_in_threadpool(checked, table, state.limits, table.problem)
        check_policies(body.policies, places=False)
        return answer(await state.long_work.run(request, "plan", forecast, problem, body.policies))


def _designed(request: Request, body: sent.DesignIn) -> tuple[problems.Problem, problems.Design]:
    limits = request.app.state.limits
    problem, design = checked(body.problem, limits, body.problem.designed)
    if design is None:
        place = in_body(("design",))
        raise InvalidArgument(f"{place}: required key is missing", field=place)
    check_policies(design.policies, places=False)
    check_work(problem, design, limits, in_body)
    return problem, design


@router.post("/design", response_model=out.DesignOut)
@allow("admin", "viewer")
async def design_make(request: Request, _: Caller, body: sent.DesignIn) -> Response:
    """Compute the operating characteristics of a design, as `deco design --json` prints them."""
    with refusals():
        problem, design = await run_in_threadpool(_designed, request, body)
        long_work: LongWork = request.app.state.long_work
        return answer(
            await long_work.run(
                request, "plan", operating_characteristics, problem, design, **body.settings()
            )
        )


@router.post("/design/report", response_class=HTMLResponse)
@allow("admin", "viewer")
async def design_report(request: Request, _: Caller, body: sent.DesignIn) -> HTMLResponse:
    """Return the report of a design as one self-contained page."""
    with refusals():
        problem, design = await run_in_threadpool(_designed, request, body)
        check_work(problem, beside_equal(design), request.app.state.limits, in_body)
        study = await request.app.state.long_work.run(
            request, "plan", study_design, problem, design, **body.settings()
        )
        text = format_problem(problem, design, format="json")
        page = await run_in_threadpool(study_page, study, FILE, text)
    return HTMLResponse(page, headers={"Content-Security-Policy": INLINE_STYLES})


# -- new trials ---------------------------------------------------------------------------------


async def start_trial(
    request: Request,
    problem: problems.Problem,
    *,
    name: str | None,
    seed: int | None = None,
    max_open: int | None = None,
    max_cancelled: int | None = None,
    design: problems.Rules | None = None,
    design_report: str | None = None,
    **settings: Any,
) -> Trial:
    """As `create_trial`, by the sender of a request; settings: of `make_settings`."""
    store, long_work = request.app.state.store, request.app.state.long_work
    assert isinstance(long_work, LongWork)
    about: dict[str, Any] = {"name": name, "seed": seed, "by": request.state.principal.name}
    about |= {"design": design, "design_report": design_report}
    about |= {"max_open": max_open, "max_cancelled": max_cancelled}
    new = await run_in_threadpool(NewTrial, problem, store, **about)
    rules = None if design is None else design.rules
    solved = await long_work.run(
        request, "trial", make_settings, problem, seed=new.seed, rules=rules, **settings
    )
    return await run_in_threadpool(new.create, solved)
