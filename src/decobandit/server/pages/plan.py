"""The page that plans a trial and starts it."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from ...bounds import MEANINGS
from ...designs import Forecast, as_python, as_toml, forecast
from ...policies import COMPARED_POLICIES, DEFAULT_POLICY, canonical_name, policy_names
from ...problem import InvalidProblem, Problem, ProblemTable
from ...support import Place
from ...trials import Conflict, Store, Trial, TrialError, open_trial
from ..api.problems import checked_problem
from ..auth import allow
from ..errors import ApiError, trial_error
from ..long_work import refusals
from ..middleware.limits import Limits
from ..new_trials import start_trial
from .rendering import Form, PageRoute, Sent, go, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)
# what the form calls the fields of a problem
LABELS = {"horizon": "Horizon (stages)", "pulls_per_stage": "Pulls per stage", "arms": "Arms"}


@dataclass(frozen=True)
class Row:
    """An arm as it was typed."""

    name: str = ""
    good: str = "1"
    bad: str = "1"


@dataclass(frozen=True)
class Draft:
    """The form as it was filled in: shown again, errors included."""

    name: str
    horizon: str
    pulls: str
    policy: str
    rows: tuple[Row, ...]

    @classmethod
    def fresh(cls) -> Draft:
        return cls(_new_name(), "50", "1", DEFAULT_POLICY, (Row("A"), Row("B"), Row()))

    @classmethod
    def of(cls, form: Form) -> Draft:
        """From a form that was sent."""
        columns = (form.all(name) for name in ("arm", "good", "bad"))
        rows = tuple(Row(*fields) for fields in zip(*columns, strict=False))
        more = (Row(),) * 2 if form.one("add") or not rows else ()
        name = form.one("name").strip() or _new_name()
        return cls(
            name, form.one("horizon"), form.one("pulls"), form.one("policy"), rows + more
        )  # fmt: skip

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields, for a hidden form."""
        single = [(key, str(value)) for key, value in asdict(self).items() if key != "rows"]
        arms = [
            pair
            for row in self.rows
            for pair in (("arm", row.name), ("good", row.good), ("bad", row.bad))
        ]
        return single + arms

    def problem(self, limits: Limits) -> Problem:
        """The problem; a ValueError says what is wrong, with the labels of the form."""
        rows = [(number, row) for number, row in enumerate(self.rows, 1) if row.name.strip()]
        arms = [
            {
                "name": row.name.strip(),
                "prior": {
                    "good": _number(row.good, _arm_label(number, "prior", "good")),
                    "bad": _number(row.bad, _arm_label(number, "prior", "bad")),
                },
            }
            for number, row in rows
        ]
        tree = {
            "horizon": _whole(self.horizon, LABELS["horizon"]),
            "pulls_per_stage": _whole(self.pulls, LABELS["pulls_per_stage"]),
            "arms": arms,
        }

        def where(place: Place) -> str:
            match place:
                case ("arms", int(position), *keys):
                    return _arm_label(rows[position][0], *keys)
            return LABELS[str(place[0])]

        if canonical_name(self.policy) not in policy_names():
            raise ValueError("Policy: there is no policy of this name")
        try:
            return checked_problem(ProblemTable.from_tree(tree), limits, where)
        except InvalidProblem as error:
            raise ValueError(error.line(where)) from None


def _arm_label(row: int, *keys: int | str) -> str:
    """Arm 2, name: rows are counted from 1."""
    return ", ".join([f"Arm {row}", *map(str, keys)])


def _new_name() -> str:
    """A new name; a form that is sent twice is recognised by it."""
    return f"trial-{secrets.token_hex(3)}"


def _whole(text: str, what: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError(f"{what}: {text[:40]!r} is not a whole number") from None


def _number(text: str, what: str) -> float:
    try:
        number = float(text.strip())
        return int(number) if number.is_integer() else number  # messages show 2, not 2.0
    except ValueError:
        raise ValueError(f"{what}: {text[:40]!r} is not a number") from None


@router.get("/plan")
@allow("admin", "viewer")
def show(request: Request) -> Response:
    """An empty form."""
    return _page(request, Draft.fresh())


@router.post("/plan")
@allow("admin", "viewer")
async def expect(request: Request, form: Sent) -> Response:
    """The forecast of a form."""
    draft, state = Draft.of(form), request.app.state
    if form.one("add"):
        return _page(request, draft)
    try:
        with refusals():
            problem = await run_in_threadpool(draft.problem, state.limits)
            names = list(dict.fromkeys([draft.policy, *COMPARED_POLICIES]))
            found = await state.long_work.run(request, "plan", forecast, problem, names)
            return await run_in_threadpool(_page, request, draft, found)
    except ApiError as error:
        return _refused(request, draft, error)


@router.post("/trials")
@allow("admin", all_trials=True)
async def start(request: Request, form: Sent) -> Response:
    """Start the trial; a form that is sent twice starts one."""
    draft, state = Draft.of(form), request.app.state
    try:
        with refusals():
            problem = await run_in_threadpool(draft.problem, state.limits)
            try:
                trial = await start_trial(request, problem, policy=draft.policy, name=draft.name)
            except Conflict:
                trial = await run_in_threadpool(_same, draft, problem, state.store)
    except TrialError as error:
        refused = trial_error(error, blinded=request.state.principal.blinded)
        return _refused(request, draft, refused)
    except ApiError as error:
        return _refused(request, draft, error)
    return go(f"/trials/{trial.id}")


def _refused(request: Request, draft: Draft, error: ApiError) -> Response:
    answer = _page(request, draft, wrong=error.detail, status=error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def _same(draft: Draft, problem: Problem, store: Store) -> Trial:
    """The trial of that name, if it is the one of the form and has no allocations yet."""
    trial, policy = open_trial(draft.name, db=store), draft.policy
    if trial.problem != problem or trial.policy != policy or trial.allocations():
        raise Conflict("a trial of this name exists; choose another name")
    return trial


def _page(
    request: Request,
    draft: Draft,
    found: Forecast | None = None,
    *,
    wrong: str = "",
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {}
    if found is not None:
        toml = as_toml(found.problem)
        code = as_python(found.problem, draft.policy, draft.name)
        values = {
            "bars": _bars(found),
            "bound_kind": MEANINGS[found.bound_kind],
            "fields": draft.fields(),
            "copies": [("Problem file (TOML)", "toml", toml), ("Python", "python", code)],
        }
    return page(
        request, "plan.html.j2", status, draft=draft, policies=policy_names(), plan=found,
        wrong=wrong, labels=LABELS, **values,
    )  # fmt: skip


def _bars(found: Forecast) -> list[dict[str, Any]]:
    """Every policy with the positions of its bar, in percent of the width."""
    high = max([found.upper_bound, *(each.value + 2 * each.value_se for each in found.policies)])
    scale = 99.0 / high if high > 0 else 0.0

    def at(value: float) -> str:
        return f"{min(max(scale * value, 0.0), 100.0):.2f}"

    equal = found.policies[-1].value  # the baseline comes last
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
