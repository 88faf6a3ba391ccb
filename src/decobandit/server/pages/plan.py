"""The page that plans a trial and starts it, and its form.

Fields have the names that the form uses: `name`, `policy`, `file`, those of `PROBLEM` and `DESIGN`,
for the arm of row 2 `arm-2`, `good-2`, `bad-2`, `reward_good-2`, `reward_bad-2`, for scenario 2
`scenario-2`, and `truth-2-3` for the success probability of the arm in row 3. Rows are counted
from 1. A field of the design that is left empty is left out. If the form has the text of a problem
file, that text gives the problem and its design.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ... import designs
from ...bounds import MEANINGS
from ...designs.reporting import beside_equal, study_design
from ...figures.design_report import characteristics, study_page
from ...policies import (
    COMPARED_POLICIES,
    DEFAULT_POLICY,
    Context,
    check_policies,
    picked_name,
    policy_names,
)
from ...policies.names import POLICIES
from ...problem import (
    FINAL_TESTS,
    Design,
    DesignedTable,
    InvalidProblem,
    Problem,
    RandomHorizon,
    Rules,
)
from ...problem.problem_files import Format, format_problem, parse_tree
from ...support import Place, dotted, float_from, int_from, one_line
from ...trials import Conflict, Store, Trial, TrialError, open_trial
from ...trials.trial import trial_name
from ..api.planning import check_size, check_work, start_trial
from ..api.schemas import DesignedIn
from ..auth import INLINE_STYLES, allow
from ..errors import ApiError, trial_error
from ..limits import Limits
from ..long_work import refusals
from .rendering import MAX_FIELDS, Form, PageRoute, Sent, go, page

DRAWS = "2000"  # simulated trials, unless another number is typed

# -- fields -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One field: its name in the form, in sentences, and its place in the problem or design."""

    name: str
    label: str
    place: tuple[str, ...]
    kind: Literal["horizon", "whole", "number", "flag", "text", "names", "test"] = "number"
    hint: str = ""


PROBLEM = (
    Field("horizon", "Horizon (stages)", ("horizon",), "horizon"),
    Field("pulls", "Pulls per stage", ("pulls_per_stage",), "whole"),
    Field("repeat", "Stage", ("repeat",), "flag"),
    Field("unit", "Unit (pulls)", ("unit",), "whole"),
    Field("deploy", "Deployment, in pulls", ("terminal", "deploy")),
)
ALLOCATION = (
    Field("control", "Control arm", ("control",), "text", "name of an arm"),
    Field("burn_in", "Burn-in, pulls of every arm", ("burn_in",), "whole", "0"),
    Field("block", "Permuted blocks of", ("block",), "whole", "none"),
    Field("floor", "Least probability of an arm", ("floor",), hint="0"),
    Field("floor_kind", "Kind of this floor", ("floor_kind",), "text", "additive, or clip"),
    Field("control_share", "Share of control", ("control_share",), hint="none"),
    Field("max_probability", "Largest probability of an arm", ("max_probability",), hint="1"),
    Field("delay", "Delay of outcomes (stages)", ("delay",), "whole", "0"),
)
STOPPING = (
    Field("looks_first", "First look (outcomes)", ("looks", "first"), "whole", "1"),
    Field("looks_every", "Then every (outcomes)", ("looks", "every"), "whole", "1"),
    Field("superiority", "Superiority, at least", ("stop", "superiority"), hint="never"),
    Field("inferiority", "Inferiority, at most", ("stop", "inferiority"), hint="never"),
    Field("futility", "Futility, at most", ("stop", "futility"), hint="never"),
    Field("equivalence", "Equivalence, at least", ("stop", "equivalence"), hint="never"),
    Field("margin", "Margin", ("margin",), hint="0"),
    Field("compare_by", "Compare arms by", ("compare",), "text", "reward, or outcome"),
    Field("test", "Final test", ("test", "kind"), "test"),
    Field("level", "Threshold or alpha", ("test", "threshold"), hint="0.975, or 0.025"),
    Field("controls", "Controls of the test", ("controls",), "text", "all, or concurrent"),
)
PLANNING = (
    Field("compare", "Other policies to compare", ("policies",), "names", "equal"),
    Field("draws", "Simulated trials", ("draws",), "whole", DRAWS),
    Field("question", "Question, for the report", ("question",), "text"),
)
DESIGN = ALLOCATION + STOPPING + PLANNING
LABELS = {"name": "Name of the trial", "policy": "Policy", "arms": "Arms", "file": "Problem file"}
LABELS |= {field.name: field.label for field in PROBLEM + DESIGN}
# numbers of an arm, as a new row has them, and their places in its table
NUMBERS = {
    "good": ("1", ("prior", "good")),
    "bad": ("1", ("prior", "bad")),
    "reward_good": ("1", ("reward", "good")),
    "reward_bad": ("0", ("reward", "bad")),
}
FRESH = {"arm": "", **{name: text for name, (text, _) in NUMBERS.items()}}
Row = Mapping[str, str]  # an arm as it was typed


def label_of(name: str) -> str:
    """Return the label of a field in a sentence."""
    match name.split("-"):
        case ["truth", row, arm]:
            return f"Scenario {row}, arm {arm}"
        case ["scenario", row]:
            return f"Scenario {row}, name"
        case ["arm", row]:
            return f"Arm {row}, name"
        case [column, row]:
            return ", ".join([f"Arm {row}", *NUMBERS[column][1]])
    return LABELS[name]


class FormError(Exception):
    """Errors of a form: one line, and a text for each field."""

    def __init__(self, line: str, fields: Mapping[str, str]) -> None:
        super().__init__(line)
        self.fields = dict(fields)

    @classmethod
    def at(cls, field: str, error: object) -> FormError:
        message = str(error).removeprefix(f"{field}: ").removeprefix(f"{label_of(field)}: ")
        return cls(f"{label_of(field)}: {message}", {field: message})


def _bad_file(error: ValueError) -> FormError:
    return FormError.at("file", " ".join(str(error).removeprefix("<text>: ").split()))


# -- what was typed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """A scenario as it was typed: its name, and a probability for every row of arms."""

    name: str
    truth: tuple[str, ...]


@dataclass(frozen=True)
class Draft:
    """The form as it was filled in: shown again, errors included."""

    values: Mapping[str, str]  # by the name of the field
    rows: tuple[Row, ...]
    scenarios: tuple[Scenario, ...]

    def __getitem__(self, field: str) -> str:
        return self.values.get(field, "")

    @classmethod
    def fresh(cls) -> Draft:
        values = {"name": _new_name(), "horizon": "50", "pulls": "1", "deploy": "0", "unit": "1"}
        rows = tuple(FRESH | {"arm": name} for name in ("A", "B", ""))
        return cls(values | {"policy": DEFAULT_POLICY}, rows, (Scenario("", ("",) * 3),))

    @classmethod
    def of(cls, form: Form) -> Draft:
        """From a form that was sent; rewards and deployment may be left out."""
        columns = {name: form.all(name) for name in FRESH}
        number = min(len(columns[name]) for name in ("arm", "good", "bad"))
        rows = [
            {name: texts[i] if i < len(texts) else FRESH[name] for name, texts in columns.items()}
            for i in range(number)
        ]
        if form.one("add") or not rows:
            rows += [FRESH, FRESH]
        names, truths = form.all("scenario"), form.all("truth")
        if number * len(names) > MAX_FIELDS:  # the page has a field for each pair
            raise ApiError(422, "invalid", "the form has too many scenarios for so many arms")
        parts = [truths[i * number : (i + 1) * number] for i in range(len(names))]
        if form.one("add_scenario") or not names:
            names, parts = [*names, ""], [*parts, []]
        empty = [""] * len(rows)
        scenarios = [
            Scenario(name, tuple([*truth, *empty][: len(rows)]))
            for name, truth in zip(names, parts, strict=True)
        ]
        values = {name: form.one(name).strip() for name in LABELS if name != "arms"}
        missing = {"name": _new_name(), "unit": "1", "deploy": form.one("deploy", "0")}
        values |= {name: text for name, text in missing.items() if not values[name]}
        return cls(values, tuple(rows), tuple(scenarios))

    def fields(self) -> list[tuple[str, str]]:
        pairs = [*self.values.items(), *(pair for row in self.rows for pair in row.items())]
        pairs += [("scenario", one.name) for one in self.scenarios]
        return pairs + [("truth", text) for one in self.scenarios for text in one.truth]

    @property
    def format(self) -> Format:
        return "json" if self["file"].startswith("{") else "toml"

    @property
    def has_rules(self) -> bool:
        return any(self[field.name] for field in ALLOCATION + STOPPING)

    @property
    def has_scenarios(self) -> bool:
        return any(one.name.strip() for one in self.scenarios)

    # -- the problem and its design ---------------------------------------------------------------

    def designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        """Return the problem, and its design if there is one.

        A `FormError` says what is wrong, with the labels of the form.
        """
        typed = None if self["file"] else _Typed(self)
        table = self._table_of_file() if typed is None else typed.table()
        try:
            trial_name(self["name"])
        except TrialError as error:
            raise FormError.at("name", error) from None
        if self["policy"] not in policy_names():
            raise FormError.at("policy", "there is no policy of this name")
        try:
            check_size(table, limits)
            return table.designed()
        except InvalidProblem as error:
            raise _bad_file(error) if typed is None else typed.refused(error) from None
        except ValueError as error:  # too large
            large = "horizon" if table.most_stages > limits.max_horizon else "arms"
            raise FormError(str(error), {"file" if typed is None else large: str(error)}) from None

    def compared(self, limits: Limits) -> tuple[Problem, Design | None]:
        """Return the problem and its design, if any, with the chosen policy and equal."""
        problem, design = self.designed(limits)
        if design is None:
            return problem, None
        names = tuple(dict.fromkeys([self["policy"], *design.policies]))
        design = beside_equal(design.model_copy(update={"policies": names}))
        field = "compare"
        try:
            check_policies(design.policies, places=False)
            field = "draws"
            check_work(problem, design, limits, dotted if self["file"] else lambda _: LABELS[field])
        except ValueError as error:
            raise _bad_file(error) if self["file"] else FormError.at(field, error) from None
        return problem, design

    def design_file(self, problem: Problem, design: Design | None) -> str:
        """Return a problem file with the design; the uploaded one if it has these policies."""
        if design is not None and self["file"]:
            _, own_design = self._table_of_file().designed()
            if own_design is not None and beside_equal(own_design).policies == design.policies:
                return "".join(f"{line}\n" for line in self["file"].splitlines())  # sent as CRLF
        return format_problem(problem, design, format=self.format)

    def _table_of_file(self) -> DesignedTable:
        try:
            return DesignedIn.from_tree(parse_tree(self["file"], self.format))
        except ValueError as error:
            raise _bad_file(error) from None


class _Typed:
    """The problem file that was typed into the fields; it knows where each of them went."""

    def __init__(self, draft: Draft) -> None:
        self.tree: dict[str, Any] = {}
        self.fields: dict[Place, str] = {("arms",): "arms"}
        self.wrong: dict[str, str] = {}
        for field in PROBLEM:
            self._put(field.place, field.name, self._read(field, draft[field.name]))
        rows = [(i, row) for i, row in enumerate(draft.rows, 1) if row["arm"].strip()]
        for at, (i, row) in enumerate(rows):
            self._put(("arms", at, "name"), f"arm-{i}", row["arm"].strip())
            for name, (_, place) in NUMBERS.items():
                value = self._number(f"{name}-{i}", row[name])
                self._put(("arms", at, *place), f"{name}-{i}", value)
        self.tree["arms"] = list(self.tree.get("arms", {}).values())
        if draft.has_rules or draft.has_scenarios:
            self._put_design(draft, [i for i, _ in rows])

    def _put_design(self, draft: Draft, arms: list[int]) -> None:
        for field in DESIGN:
            place: Place = ("design", *field.place)
            if field.name == "level" and draft["test"] in FINAL_TESTS[1:]:
                place = ("design", "test", "alpha")
            if text := draft[field.name]:
                self._put(place, field.name, self._read(field, text))
            else:
                self.fields[place] = field.name
        if draft["level"] and not draft["test"]:
            self.wrong["level"] = "choose a final test that it belongs to"
        design = self.tree.setdefault("design", {})
        design.setdefault("draws", int(DRAWS))
        design["policies"] = [draft["policy"], *design.get("policies", ())]
        named = [(i, one) for i, one in enumerate(draft.scenarios, 1) if one.name.strip()]
        for at, (i, one) in enumerate(named):
            place = ("design", "scenarios", at)
            self._put((*place, "name"), f"scenario-{i}", one.name.strip())
            for number, arm in enumerate(arms):
                name = f"truth-{i}-{arm}"
                self._put((*place, "truth", number), name, self._number(name, one.truth[arm - 1]))
        scenarios = design.get("scenarios", {}).values()
        design["scenarios"] = [
            {"name": one["name"], "truth": list(one.get("truth", {}).values())} for one in scenarios
        ]

    def _put(self, place: Place, name: str, value: Any) -> None:
        self.fields[place] = name
        tree: dict[Any, Any] = self.tree
        for key in place[:-1]:
            tree = tree.setdefault(key, {})
        tree[place[-1]] = value

    def _read(self, field: Field, text: str) -> Any:
        match field.kind:
            case "flag":
                return bool(text)
            case "text" | "test":
                return text
            case "names":
                return [name.strip() for name in text.split(",") if name.strip()]
            case "horizon" if ":" in text or "," in text:
                try:
                    return RandomHorizon.parse(text)
                except ValueError as error:
                    self.wrong[field.name] = str(error).removeprefix("horizon: ")
                    return None
        return self._number(field.name, text, is_whole=field.kind != "number")

    def _number(self, name: str, text: str, *, is_whole: bool = False) -> float:
        """Return the number in a field; if there is none, `wrong` says so."""
        try:
            value = int_from(text.strip()) if is_whole else float_from(text.strip())
            return int(value) if value == int(value) else value  # messages show 2, not 2.0
        except (ValueError, OverflowError):
            kind = "whole number" if is_whole else "number"
            self.wrong[name] = (
                f"{text[:40]!r} is not a {kind}" if text.strip() else f"give a {kind}"
            )
            return 0

    def table(self) -> DesignedTable:
        if self.wrong:
            first = min(self.wrong, key=lambda name: "-" in name)
            raise FormError(f"{label_of(first)}: {self.wrong[first]}", self.wrong)
        try:
            return DesignedTable.from_tree(self.tree)
        except InvalidProblem as error:
            raise self.refused(error) from None

    def refused(self, error: InvalidProblem) -> FormError:
        """Return the errors of a problem, with the labels of the form."""

        def in_words(line: str) -> str:
            return line.replace("required key is missing", "required: fill it in")

        messages: dict[str, str] = {}
        for detail in error.errors():
            text = in_words(one_line([detail], where=lambda _: ""))
            messages.setdefault(self._field(detail["loc"]), text)
        return FormError(in_words(error.line(lambda place: label_of(self._field(place)))), messages)

    def _field(self, place: Place) -> str:
        """Return the first field at or below a place of the problem, or else above it."""
        below = (name for known, name in self.fields.items() if known[: len(place)] == place)
        return next(below, None) or self._field(place[:-1])


def _new_name() -> str:
    """Return a new name, which identifies a form that is sent twice."""
    return f"trial-{secrets.token_hex(3)}"


# -- the page -----------------------------------------------------------------------------------

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
    problem, design = await run_in_threadpool(draft.compared, state.limits)
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
    problem, design = await run_in_threadpool(draft.compared, state.limits)
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
    problem, design = await run_in_threadpool(draft.designed, state.limits)
    rules = None if design is None or design.rules == Rules() else design.rules
    # the forecast has promised the bound
    settings: dict[str, Any] = {"policy": draft["policy"], "name": draft["name"], "bound": True}
    try:
        trial = await start_trial(request, problem, design=rules, **settings)
    except Conflict:
        trial = await run_in_threadpool(_same, draft, problem, rules, state.store)
    return go(f"/trials/{trial.id}")


def _same(draft: Draft, problem: Problem, rules: Rules | None, store: Store) -> Trial:
    """Return the trial of that name if it is the one of the form and has no allocations yet."""
    trial = open_trial(draft["name"], db=store)
    same = (trial.problem, trial.settings.rules) == (problem, rules) and not trial.allocations()
    context = Context(problem, under_rules=rules is not None)
    if not same or trial.policy != picked_name(context, draft["policy"]):
        raise Conflict("a trial of this name exists; choose another name")
    return trial


def _page(
    request: Request,
    draft: Draft,
    plan: designs.Forecast | None = None,
    design: Design | None = None,
    result: designs.DesignResult | None = None,
    *,
    wrong: str = "",
    fields: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {}
    if plan is not None:
        best = plan.best_bound
        values = {
            "at": _scale(plan),
            "best_kind": None if best is None else MEANINGS[best.kind],
            "missing": plan.chosen not in [one.policy for one in plan.policies],
            "fields": draft.fields(),
            "ruled": design is not None and design.rules != Rules(),
            "file": draft.design_file(plan.problem, design),
        }
    return page(
        request,
        "plan.html.j2",
        status,
        draft=draft,
        policies=policy_groups(),
        plan=plan,
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


def _scale(plan: designs.Forecast) -> Callable[[float], str]:
    """Return the position of a value in the figure of the forecast, in percent of the width."""
    bound = 0.0 if plan.best_bound is None else plan.best_bound.value
    high = max([bound, *(one.value + 2 * one.value_se for one in plan.policies)])
    scale = 99.0 / high if high > 0 else 0.0
    return lambda value: f"{min(max(scale * value, 0.0), 100.0):.2f}"
