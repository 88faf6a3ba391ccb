"""The form that plans a trial: what was typed, the problem it stands for, what is wrong and where.

Fields are called as the form calls them: `name`, `policy`, `file`, those of `PROBLEM` and `DESIGN`,
for the arm of row 2 `arm-2`, `good-2`, `bad-2`, `reward_good-2`, `reward_bad-2`, for scenario 2
`scenario-2`, and `truth-2-3` for the success probability of the arm in row 3. Rows are counted
from 1. A field of the design that is left empty is left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...designs.reporting import beside_equal
from ...policies import DEFAULT_POLICY, check_policies, policy_names
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
from ...trials import TrialError
from ...trials.trial import trial_name
from ..api.planning import check_size, check_work
from ..api.schemas import DesignedIn
from ..errors import ApiError
from ..limits import Limits
from .rendering import MAX_FIELDS, Form

MOST_ARMS = 12  # with scenarios, that the form has fields for
DRAWS = "2000"  # simulated trials, unless another number is typed


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
# fields of an arm, as a new row has them, and their places in the table of the arm
ARM = {"arm": "", "good": "1", "bad": "1", "reward_good": "1", "reward_bad": "0"}
PLACES = {
    "arm": ("name",),
    "good": ("prior", "good"),
    "bad": ("prior", "bad"),
    "reward_good": ("reward", "good"),
    "reward_bad": ("reward", "bad"),
}
Row = Mapping[str, str]  # an arm as it was typed


class FormError(Exception):
    """Errors of a form: one line, and a text for each field."""

    def __init__(self, line: str, fields: Mapping[str, str]) -> None:
        super().__init__(line)
        self.fields = dict(fields)

    @classmethod
    def at(cls, field: str, message: str) -> FormError:
        return cls(f"{label_of(field)}: {message}", {field: message})


@dataclass(frozen=True)
class ScenarioRow:
    """A scenario as it was typed: its name, and a probability for every row of arms."""

    name: str = ""
    truth: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """The form as it was filled in: shown again, errors included."""

    values: Mapping[str, str]  # by the name of the field
    rows: tuple[Row, ...]
    scenarios: tuple[ScenarioRow, ...] = (ScenarioRow(),)

    def __post_init__(self) -> None:
        most = len(self.rows)
        padded = [replace(one, truth=(*one.truth, *[""] * most)[:most]) for one in self.scenarios]
        object.__setattr__(self, "scenarios", tuple(padded))

    def __getitem__(self, field: str) -> str:
        return self.values.get(field, "")

    @classmethod
    def fresh(cls) -> Draft:
        values = {"name": _new_name(), "horizon": "50", "pulls": "1", "deploy": "0", "unit": "1"}
        rows = tuple(ARM | {"arm": name} for name in ("A", "B", ""))
        return cls(values | {"policy": DEFAULT_POLICY}, rows)

    @classmethod
    def of(cls, form: Form) -> Draft:
        """From a form that was sent; rewards and deployment may be left out."""
        columns = {name: form.all(name) for name in ARM}
        number = min(len(columns[name]) for name in ("arm", "good", "bad"))
        rows = [
            {name: texts[i] if i < len(texts) else ARM[name] for name, texts in columns.items()}
            for i in range(number)
        ]
        names, truths = form.all("scenario"), form.all("truth")
        if number * len(names) > MAX_FIELDS:  # the page has a field for each pair
            raise ApiError(422, "invalid", "the form has too many scenarios for so many arms")
        scenarios = [
            ScenarioRow(name, tuple(truths[i * number : (i + 1) * number]))
            for i, name in enumerate(names)
        ]
        if form.one("add_scenario") or not names:
            scenarios.append(ScenarioRow())
        if form.one("add") or not rows:
            rows += [ARM, ARM]
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

    def named_arms(self) -> list[tuple[int, Row]]:
        """Rows of arms that have a name, with their numbers."""
        return [(i, row) for i, row in enumerate(self.rows, 1) if row["arm"].strip()]

    def named_scenarios(self) -> list[tuple[int, ScenarioRow]]:
        """Rows of scenarios that have a name, with their numbers."""
        return [(i, one) for i, one in enumerate(self.scenarios, 1) if one.name.strip()]

    # -- problems and designs ---------------------------------------------------------------------

    def loaded(self, limits: Limits) -> Draft:
        """Fill in the form from its file, which stays if the form cannot express it."""
        if not self["file"]:
            return self
        table = self._table_of_file()
        try:
            check_size(table, limits)
            problem, design = table.designed()
        except ValueError as error:
            raise _bad_file(error) from None
        scenarios = () if design is None else design.scenarios
        # outcomes that the form has no fields for, or too many fields
        if not problem.is_binary or problem.n_arms * max(len(scenarios), 1) > MAX_FIELDS:
            return self
        policies = [] if design is None else list(design.policies)
        if not policies or policies[0] not in policy_names():  # one that the form can choose first
            policies.insert(0, self["policy"])
        filled = self._filled(problem, design, policies)
        try:
            again, own_design = filled._table().designed()
        except (FormError, ValueError):  # rewards by stage, tables
            return self
        if again != problem:
            return self
        full_design = None if design is None else _with_policies(design, policies)
        many = problem.n_arms > MOST_ARMS and scenarios
        if own_design == full_design and not many:
            return filled
        return replace(filled, values={**filled.values, "file": self["file"]})

    def _filled(self, problem: Problem, design: Design | None, policies: Sequence[str]) -> Draft:
        terminal = problem.terminal
        values = {
            "horizon": str(problem.random_horizon or problem.horizon),
            "pulls": str(problem.pulls_per_stage),
            "repeat": "1" if problem.repeat else "",
            "unit": str(problem.unit),
            "deploy": "0" if terminal is None else f"{terminal.deploy:.15g}",
            "policy": policies[0],
            "name": self["name"],
        }
        rows = [
            {
                "arm": arm.name,
                "good": _typed(arm.beta.good),
                "bad": _typed(arm.beta.bad),
                "reward_good": _typed(arm.outcome_reward.good),
                "reward_bad": _typed(arm.outcome_reward.bad),
            }
            for arm in problem.arms
        ]
        filled = Draft(values, tuple(rows))
        return filled if design is None else filled.with_design(design, policies[1:])

    def with_design(self, design: Design, policies: Sequence[str]) -> Draft:
        """Fill in a design; `policies`: policies other than the one of the trial."""
        tree = design.model_dump(mode="json", exclude_defaults=True)
        values = {field.name: _typed(_at(tree, field.place)) for field in DESIGN}
        if (test := design.test) is not None:
            level = test.alpha if test.threshold is None else test.threshold
            values |= {"test": test.kind, "level": _typed(level)}
        values |= {"compare": ", ".join(policies), "draws": str(design.draws)}
        scenarios = [
            ScenarioRow(one.name, tuple(f"{p:.15g}" for p in one.truth)) for one in design.scenarios
        ]
        typed = {**self.values, **values}
        return Draft(typed, self.rows, tuple(scenarios) or (ScenarioRow(),))

    def ruled(self, limits: Limits) -> tuple[Problem, Rules | None]:
        """Return the problem, and the rules of a trial if there are any.

        A `FormError` says what is wrong, with the labels of the form.
        """
        problem, design = self._designed(limits)
        rules = None if design is None else design.rules
        return problem, None if rules == Rules() else rules

    def designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        """Return the problem and its design, if any, with the chosen policy and equal."""
        problem, typed_design = self._designed(limits)
        if typed_design is None:
            return problem, None
        chosen = dict.fromkeys([self["policy"], *typed_design.policies])
        design = beside_equal(_with_policies(typed_design, chosen))
        field = "compare"
        try:
            check_policies(design.policies, places=False)
            field = "draws"
            check_work(problem, design, limits, dotted if self["file"] else self._label)
        except ValueError as error:
            if self["file"]:
                raise _bad_file(error) from None
            message = str(error).removeprefix(f"{label_of(field)}: ")
            raise FormError.at(field, message) from None
        return problem, design

    def design_file(self, problem: Problem, design: Design) -> str:
        """Return a problem file with the design; the uploaded one if it has these policies."""
        try:
            _, file_design = self._table_of_file().designed() if self["file"] else (problem, None)
        except InvalidProblem:
            file_design = None
        if file_design is not None and beside_equal(file_design).policies == design.policies:
            return "".join(f"{line}\n" for line in self["file"].splitlines())  # forms send CRLF
        return format_problem(problem, design, format=self.format)

    def _designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        table = self._table_of_file() if self["file"] else self._table()
        try:
            trial_name(self["name"])
        except TrialError as error:
            raise FormError.at("name", str(error).removeprefix("name: ")) from None
        if self["policy"] not in policy_names():
            raise FormError.at("policy", "there is no policy of this name")
        try:
            check_size(table, limits)
            return table.designed()
        except InvalidProblem as error:
            raise _bad_file(error) if self["file"] else self._refused(error) from None
        except ValueError as error:  # too large
            large = "horizon" if table.most_stages > limits.max_horizon else "arms"
            field = "file" if self["file"] else large
            raise FormError(str(error), {field: str(error)}) from None

    # -- tables -----------------------------------------------------------------------------------

    def _table_of_file(self) -> DesignedTable:
        try:
            return DesignedIn.from_tree(parse_tree(self["file"], self.format))
        except ValueError as error:
            raise _bad_file(error) from None

    def _table(self) -> DesignedTable:
        wrong: dict[str, str] = {}
        tree: dict[str, Any] = {"arms": []}
        for field in PROBLEM:
            _put(tree, field.place, _read(field, self[field.name], wrong))
        for i, row in self.named_arms():
            arm: dict[str, Any] = {"name": row["arm"].strip()}
            for name in list(ARM)[1:]:
                _put(arm, PLACES[name], number(f"{name}-{i}", row[name], wrong))
            tree["arms"].append(arm)
        if design := self.design_tree(wrong):
            tree["design"] = design
        if wrong:
            field_name = min(wrong, key=lambda name: "-" in name)
            raise FormError(f"{label_of(field_name)}: {wrong[field_name]}", wrong)
        try:
            return DesignedTable.from_tree(tree)
        except InvalidProblem as error:
            raise self._refused(error) from None

    def design_tree(self, wrong: dict[str, str]) -> dict[str, Any]:
        """Return the table `design`, empty without rules and scenarios.

        Entries that are not numbers are listed in `wrong`, by field.
        """
        if not self.has_rules and not self.named_scenarios():
            return {}
        tree: dict[str, Any] = {"draws": int(DRAWS)}
        for field in DESIGN:
            if text := self[field.name]:
                is_alpha = field.name == "level" and self["test"] in FINAL_TESTS[1:]
                place = ("test", "alpha") if is_alpha else field.place
                _put(tree, place, _read(field, text, wrong))
        if self["level"] and not self["test"]:
            wrong["level"] = "choose a final test that it belongs to"
        tree["policies"] = [self["policy"], *tree.get("policies", ())]
        arms = [i for i, _ in self.named_arms()]
        tree["scenarios"] = [
            {
                "name": one.name.strip(),
                "truth": [number(f"truth-{i}-{arm}", one.truth[arm - 1], wrong) for arm in arms],
            }
            for i, one in self.named_scenarios()
        ]
        return tree

    # -- places of errors -------------------------------------------------------------------------

    def _refused(self, error: InvalidProblem) -> FormError:
        messages: dict[str, str] = {}
        for detail in error.errors():
            text = _in_words(one_line([detail], where=lambda _: ""))
            messages.setdefault(self._field(detail["loc"]), text)
        return FormError(_in_words(error.line(self._label)), messages)

    def _label(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                return ", ".join([f"Arm {self.named_arms()[position][0]}", *map(str, keys)])
        return label_of(self._field(place))

    def _field(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                names = (name for name, keys_of in PLACES.items() if keys_of == tuple(keys))
                return f"{next(names, 'arm')}-{self.named_arms()[position][0]}"
            case ("design", "scenarios", int(i), "truth", int(arm)):
                return f"truth-{self.named_scenarios()[i][0]}-{self.named_arms()[arm][0]}"
            case ("design", "scenarios", int(i), *_):
                return f"scenario-{self.named_scenarios()[i][0]}"
            case ("design", "test", "alpha"):
                return "level"
            case ("design", *keys):
                return _field_at(DESIGN, tuple(keys)) or "control"
        return _field_at(PROBLEM, tuple(place)) or "arms"


def label_of(name: str) -> str:
    """Return the label of a field in a sentence."""
    match name.split("-"):
        case ["truth", row, arm]:
            return f"Scenario {row}, arm {arm}"
        case ["scenario", row]:
            return f"Scenario {row}, name"
        case [column, row]:
            return ", ".join([f"Arm {row}", *PLACES[column]])
    return LABELS[name]


def _field_at(fields: Iterable[Field], place: tuple[object, ...]) -> str | None:
    fitting = (one for one in fields if one.place[: len(place)] == place[: len(one.place)])
    return next((one.name for one in fitting), None)


def _in_words(line: str) -> str:
    """Translate keys into labels of the form."""
    return line.replace("required key is missing", "required: fill it in")


def _bad_file(error: ValueError) -> FormError:
    return FormError.at("file", " ".join(str(error).removeprefix("<text>: ").split()))


def _with_policies(design: Design, names: Iterable[str]) -> Design:
    return design.model_copy(update={"policies": tuple(names)})


def _new_name() -> str:
    """Return a new name, which identifies a form that is sent twice."""
    return f"trial-{secrets.token_hex(3)}"


# -- texts of fields and their values -------------------------------------------------------------


def _read(field: Field, text: str, wrong: dict[str, str]) -> Any:
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
                wrong[field.name] = str(error).removeprefix("horizon: ")
                return None
    return number(field.name, text, wrong, is_whole=field.kind != "number")


def number(name: str, text: str, wrong: dict[str, str], *, is_whole: bool = False) -> float:
    """Return the number in a field; if there is none, `wrong` says so."""
    try:
        value = int_from(text.strip()) if is_whole else float_from(text.strip())
        return int(value) if value == int(value) else value  # messages show 2, not 2.0
    except (ValueError, OverflowError):
        kind = "whole number" if is_whole else "number"
        wrong[name] = f"{text[:40]!r} is not a {kind}" if text.strip() else f"give a {kind}"
        return 0


def _typed(value: Any) -> str:
    """Return a value as text; rewards by stage do not fit into the form."""
    if value is None or isinstance(value, tuple):
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _put(tree: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for key in place[:-1]:
        tree = tree.setdefault(key, {})
    tree[place[-1]] = value


def _at(tree: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
