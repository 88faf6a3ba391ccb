"""The page that plans a trial and starts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ... import designs
from ...bounds import MEANINGS
from ...designs.reporting import study_design
from ...figures.design_report import characteristics, study_page
from ...policies import COMPARED_POLICIES, policy_names
from ...policies.names import POLICIES
from ...problem import FINAL_TESTS, Design, Problem, Rules, format_problem
from ...trials import Conflict, Store, Trial, TrialError, open_trial
from ..api.planning import start_trial
from ..auth import allow
from ..browsers import INLINE_STYLES
from ..errors import ApiError, trial_error
from ..long_work import refusals
from .plan_form import ALLOCATION, LABELS, PLANNING, STOPPING, Draft, FormError
from .rendering import Form, PageRoute, Sent, go, page

AUTO = "picks one of the others for the problem, by a rule that was measured"
GROUPS = {  # of the form; policies that are in none come last
    "picked for the problem": ("auto",),
    "indices with prices": ("deco", "deco-calibrated", "deco-repriced", "deco-rolling"),
    "other indices": ("fh-gittins", "whittle", "ogi", "flgi", "knowledge-gradient"),
    "randomised": ("thompson", "thompson-shares", "top-two", "ids", "v-ids", "rho"),
    "upper confidence bounds": ("ucb1", "ucb-tuned", "moss", "kl-ucb", "bayes-ucb"),
    "exact": ("optimal",),
    "simple": ("equal", "greedy", "explore-then-commit"),
}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/plan")
@allow("admin", "viewer")
def show(request: Request) -> Response:
    """Show an empty form."""
    return _page(request, Draft.fresh())


def _drafted(act: Callable[[Request, Form, Draft], Awaitable[Response]]) -> Any:
    """Return the endpoint of a form that is shown again with its errors; threads do all work."""

    async def endpoint(request: Request, form: Sent) -> Response:
        draft = await run_in_threadpool(Draft.of, form)
        try:
            with refusals():
                return await act(request, form, draft)
        except (FormError, TrialError, ApiError) as error:
            return await run_in_threadpool(_refused, request, draft, error)

    endpoint.__name__, endpoint.__doc__ = act.__name__, act.__doc__
    return endpoint


def _refused(request: Request, draft: Draft, error: FormError | TrialError | ApiError) -> Response:
    if isinstance(error, FormError):
        return _page(request, draft, wrong=str(error), fields=error.fields, status=422)
    is_taken = isinstance(error, Conflict)
    if isinstance(error, TrialError):
        error = trial_error(error, blinded=request.state.principal.blinded)
    fields = {"name": error.detail} if is_taken else {}
    answer = _page(request, draft, wrong=error.detail, fields=fields, status=error.status_code)
    answer.headers.update(error.headers or {})
    return answer


@router.post("/plan")
@allow("admin", "viewer")
@_drafted
async def expect(request: Request, form: Form, draft: Draft) -> Response:
    """Show the forecast of a form."""
    state = request.app.state
    if form.one("add") or form.one("add_scenario"):
        return await run_in_threadpool(_page, request, draft)
    if form.one("load"):
        return await run_in_threadpool(lambda: _page(request, draft.loaded(state.limits)))
    problem, design = await run_in_threadpool(draft.designed, state.limits)
    settings = {"chosen": draft["policy"], "rules": None if design is None else design.rules}
    forecast_result = await state.long_work.run(
        request, "plan", designs.forecast, problem, COMPARED_POLICIES, **settings
    )
    result = None
    if design is not None and design.scenarios:
        result = await state.long_work.run(
            request, "plan", designs.operating_characteristics, problem, design
        )
    return await run_in_threadpool(_page, request, draft, forecast_result, design, result)


@router.post("/plan/report")
@allow("admin", "viewer")
@_drafted
async def report(request: Request, form: Form, draft: Draft) -> Response:
    """Return the report of the design in a file as one self-contained page."""
    state = request.app.state
    problem, design = await run_in_threadpool(draft.designed, state.limits)
    if design is None:
        raise ValueError("a report needs rules or scenarios, here or in a problem file")
    study = await state.long_work.run(request, "plan", study_design, problem, design)
    file = await run_in_threadpool(draft.design_file, problem, design)
    text = await run_in_threadpool(study_page, study, f"trial.{draft.format}", file)
    return HTMLResponse(text, headers={"Content-Security-Policy": INLINE_STYLES})


@router.post("/trials")
@allow("admin", all_trials=True)
@_drafted
async def start(request: Request, form: Form, draft: Draft) -> Response:
    """Start the trial; a form that is sent twice starts one."""
    state = request.app.state
    problem, rules = await run_in_threadpool(draft.ruled, state.limits)
    # the forecast has promised the bound
    settings: dict[str, Any] = {"policy": draft["policy"], "name": draft["name"], "bound": True}
    try:
        trial = await start_trial(request, problem, design=rules, **settings)
    except Conflict:
        trial = await run_in_threadpool(_same, draft, problem, rules, state.store)
    return go(f"/trials/{trial.id}")


def _same(draft: Draft, problem: Problem, rules: Rules | None, store: Store) -> Trial:
    """Return the trial of that name if it is the one of the form and has no allocations yet."""
    trial, policy = open_trial(draft["name"], db=store), draft["policy"]
    wanted = (problem, rules, policy)
    existing = (trial.problem, trial.settings.rules, trial.policy)
    if existing != wanted or trial.allocations():
        raise Conflict("a trial of this name exists; choose another name")
    return trial


def _page(
    request: Request,
    draft: Draft,
    forecast_result: designs.Forecast | None = None,
    design: Design | None = None,
    result: designs.DesignResult | None = None,
    *,
    wrong: str = "",
    fields: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {}
    if forecast_result is not None:
        best = forecast_result.best_bound
        values = {
            "bars": _bars(forecast_result),
            "best_kind": None if best is None else MEANINGS[best.kind],
            "missing": draft["policy"] not in [one.policy for one in forecast_result.policies],
            "fields": draft.fields(),
            "ruled": design is not None and design.rules != Rules(),
            "designed": design is not None,
            "copies": _copies(forecast_result.problem, draft, design),
        }
    return page(
        request,
        "plan.html.j2",
        status,
        draft=draft,
        policies=policy_groups(),
        plan=forecast_result,
        wrong=wrong,
        labels=LABELS,
        wrong_fields=fields or {},
        characteristics=None if result is None else characteristics(result),
        allocation=ALLOCATION,
        stopping=STOPPING,
        planning=PLANNING,
        tests=FINAL_TESTS,
        **values,
    )


def policy_groups() -> dict[str, dict[str, str]]:
    """Return what every policy does, by group and name."""
    texts = {
        name: POLICIES[name][1] if name in POLICIES else AUTO if name == "auto" else ""
        for name in policy_names()
    }
    groups = {
        group: {name: texts.pop(name) for name in names if name in texts}
        for group, names in GROUPS.items()
    }
    return groups | ({"more": texts} if texts else {})


def _copies(problem: Problem, draft: Draft, design: Design | None) -> list[tuple[str, str, str]]:
    """Texts that say the same: title, id, text. Rules are in the file alone."""
    if design is not None:
        text = draft.design_file(problem, design)
        return [(f"Problem file ({draft.format.upper()})", draft.format, text)]
    code = designs.as_python(problem, draft["policy"], draft["name"])
    text = format_problem(problem, format="toml")
    return [("Problem file (TOML)", "toml", text), ("Python", "python", code)]


def _bars(forecast_result: designs.Forecast) -> list[dict[str, Any]]:
    """Every policy with the positions of its bar, in percent of the width."""
    results, best = forecast_result.policies, forecast_result.best_bound
    bound = 0.0 if best is None else best.value
    high = max([bound, *(one.value + 2 * one.value_se for one in results)])
    scale = 99.0 / high if high > 0 else 0.0

    def at(value: float) -> str:
        return f"{min(max(scale * value, 0.0), 100.0):.2f}"

    shared = {
        "equal": at(results[-1].value),  # the baseline comes last
        "bound": None if best is None else at(bound),
    }
    return [
        asdict(one)
        | {
            "width": at(one.value),
            "low": at(one.value - 2 * one.value_se),
            "high": at(one.value + 2 * one.value_se),
        }
        | shared
        for one in results
    ]
