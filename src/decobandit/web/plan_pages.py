"""The page on which a trial is planned, and the button that starts it."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from ..planning import DEFAULT_POLICIES, Plan, as_python, as_toml, plan
from ..problem import Problem
from ..problem_files import problem_from_dict
from ..registry import POLICIES
from ..trials import Conflict, Trial, TrialError, create_trial, open_trial
from .auth import allow
from .errors import ApiError
from .limits import Limits
from .rendering import Form, PageRoute, Sent, go, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)
BOUNDS = {
    "lagrangian": "the bound from prices",
    "trivial": "what the best arm would earn if it were known",
    "information": "the bound of a clairvoyant who pays for what he foresees, three errors on top",
}


@dataclass(frozen=True)
class Row:
    """An arm as it was typed."""

    name: str = ""
    good: str = "1"
    bad: str = "1"


@dataclass(frozen=True)
class Draft:
    """A plan as it was typed: shown again, whatever is wrong with it."""

    name: str
    horizon: str
    pulls: str
    policy: str
    rows: tuple[Row, ...]

    @classmethod
    def fresh(cls) -> Draft:
        return cls(_new_name(), "50", "1", "deco", (Row("A"), Row("B"), Row()))

    @classmethod
    def of(cls, form: Form) -> Draft:
        """What a form holds."""
        columns = (form.all(name) for name in ("arm", "good", "bad"))
        rows = tuple(Row(*fields) for fields in zip(*columns, strict=False))
        more = (Row(),) * 2 if form.one("add") or not rows else ()
        name = form.one("name").strip() or _new_name()
        return cls(
            name, form.one("horizon"), form.one("pulls"), form.one("policy"), rows + more
        )  # fmt: skip

    def fields(self) -> list[tuple[str, str]]:
        """The same form again."""
        single = [(key, str(value)) for key, value in asdict(self).items() if key != "rows"]
        arms = [
            pair
            for row in self.rows
            for pair in (("arm", row.name), ("good", row.good), ("bad", row.bad))
        ]
        return single + arms

    def problem(self, limits: Limits) -> Problem:
        """The problem; a ValueError says what is wrong with it."""
        named = [row for row in self.rows if row.name.strip()]
        horizon = _whole(self.horizon, "horizon")
        if len(named) > limits.max_arms or horizon > limits.max_horizon:
            raise ValueError(
                f"this server takes at most {limits.max_arms} arms and {limits.max_horizon} stages"
            )
        if self.policy not in POLICIES:
            raise ValueError("policy: there is none of this name")
        arms = [
            {
                "name": row.name.strip(),
                "prior": {
                    "good": _number(row.good, f"prior of {row.name.strip()}, good"),
                    "bad": _number(row.bad, f"prior of {row.name.strip()}, bad"),
                },
            }
            for row in named
        ]
        pulls = _whole(self.pulls, "pulls per stage")
        tree = {"horizon": horizon, "pulls_per_stage": pulls, "arms": arms}
        return problem_from_dict(tree, source="plan")


def _new_name() -> str:
    """So that a trial that is started twice is recognised."""
    return f"trial-{secrets.token_hex(3)}"


def _whole(text: str, what: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError(f"{what}: {text[:40]!r} is not a whole number") from None


def _number(text: str, what: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise ValueError(f"{what}: {text[:40]!r} is not a number") from None


@router.get("/plan")
@allow("admin", "viewer")
def show(request: Request) -> Response:
    """An empty plan."""
    return _page(request, Draft.fresh())


@router.post("/plan")
@allow("admin", "viewer")
def expect(request: Request, form: Sent) -> Response:
    """What the plan would earn."""
    draft = Draft.of(form)
    if form.one("add"):
        return _page(request, draft)
    try:
        with request.app.state.heavy.solving():
            problem = draft.problem(request.app.state.limits)
            names = dict.fromkeys([draft.policy, *DEFAULT_POLICIES])
            return _page(request, draft, plan(problem, list(names)))
    except ApiError as error:
        return _page(request, draft, wrong=error.detail, status=error.status_code)


@router.post("/trials")
@allow("admin")
def start(request: Request, form: Sent) -> Response:
    """Begin the trial; a form that is sent again leads to the same one."""
    draft = Draft.of(form)
    store, by = request.app.state.store, request.state.principal.name
    try:
        with request.app.state.heavy.solving():
            problem = draft.problem(request.app.state.limits)
            try:
                trial = create_trial(problem, policy=draft.policy, name=draft.name, db=store, by=by)
            except Conflict:
                trial = _same(open_trial(draft.name, db=store), problem, draft.policy)
    except (ApiError, TrialError) as error:
        status = error.status_code if isinstance(error, ApiError) else error.status
        detail = error.detail if isinstance(error, ApiError) else str(error)
        return _page(request, draft, wrong=detail, status=status)
    return go(f"/trials/{trial.id}")


def _same(trial: Trial, problem: Problem, policy: str) -> Trial:
    """The trial of that name, if it is the one that the form describes and has just begun."""
    if trial.problem != problem or trial.policy != policy or trial.allocations():
        raise Conflict("a trial of this name exists; choose another name")
    return trial


def _page(
    request: Request, draft: Draft, found: Plan | None = None, *, wrong: str = "", status: int = 200
) -> Response:
    values: dict[str, Any] = {}
    if found is not None:
        toml = as_toml(found.problem)
        code = as_python(found.problem, draft.policy, draft.name)
        values = {
            "bars": _bars(found),
            "bound_kind": BOUNDS[found.bound_kind],
            "fields": draft.fields(),
            "copies": [("Problem file (TOML)", "toml", toml), ("Python", "python", code)],
        }
    return page(
        request, "plan.html.j2", status, draft=draft, policies=list(POLICIES), plan=found,
        wrong=wrong, **values,
    )  # fmt: skip


def _bars(found: Plan) -> list[dict[str, Any]]:
    """Every policy with the places of its bar, in percent of the width."""
    high = max([found.upper_bound, *(each.value + 2 * each.value_se for each in found.policies)])
    scale = 99.0 / high if high > 0 else 0.0

    def at(value: float) -> str:
        return f"{min(max(scale * value, 0.0), 100.0):.2f}"

    equal = found.policies[-1].value
    return [
        asdict(each)
        | {
            "width": at(each.value),
            "low": at(each.value - 2 * each.value_se),
            "high": at(each.value + 2 * each.value_se),
            "equal": at(equal),
            "bound": at(found.upper_bound),
        }
        for each in found.policies
    ]
