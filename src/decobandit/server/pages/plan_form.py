"""The form that plans a trial: what was typed, the problem it stands for, what is wrong and where.

Fields are called as the form calls them: `name`, `horizon`, `pulls`, `repeat`, `unit`, `deploy`,
`policy`, `file`, and for the arm of row 2 `arm-2`, `good-2`, `bad-2`, `reward_good-2`,
`reward_bad-2`. Rows are counted from 1. Rules and scenarios: `design_form.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ...designs.reporting import beside_equal
from ...policies import DEFAULT_POLICY, check_policies, policy_names
from ...problem import Design, DesignedTable, InvalidProblem, Problem, RandomHorizon, Rules
from ...problem.problem_files import Format, format_problem, parse_tree
from ...support import Place, dotted, one_line
from ...trials import TrialError
from ...trials.trial import trial_name
from ..api.planning import check_size, check_work
from ..api.schemas import DesignedIn
from ..errors import ApiError
from ..middleware.limits import Limits
from .design_form import BY_NAME, DesignDraft, label_of, number
from .rendering import MAX_FIELDS, Form

NAME = "Name of the trial"
MOST_ARMS = 12  # with scenarios, that the form has fields for
# what the form calls the fields of a problem
LABELS = {
    "horizon": "Horizon (stages)",
    "pulls_per_stage": "Pulls per stage",
    "repeat": "Stage",
    "unit": "Unit (pulls)",
    "arms": "Arms",
    "terminal": "Deployment, in pulls",
}
_FIELDS = {
    "horizon": "horizon",
    "pulls_per_stage": "pulls",
    "repeat": "repeat",
    "unit": "unit",
    "arms": "arms",
    "terminal": "deploy",
}
_COLUMNS: dict[tuple[int | str, ...], str] = {
    ("name",): "arm",
    ("prior", "good"): "good",
    ("prior", "bad"): "bad",
    ("reward", "good"): "reward_good",
    ("reward", "bad"): "reward_bad",
}


class FormError(ValueError):
    """Errors of a form: one line, and a text for each field."""

    def __init__(self, line: str, fields: Mapping[str, str]) -> None:
        super().__init__(line)
        self.fields = dict(fields)


@dataclass(frozen=True)
class Row:
    """An arm as it was typed."""

    name: str = ""
    good: str = "1"
    bad: str = "1"
    reward_good: str = "1"
    reward_bad: str = "0"


@dataclass(frozen=True)
class Draft:
    """The form as it was filled in: shown again, errors included."""

    name: str
    horizon: str
    pulls: str
    policy: str
    deploy: str
    file: str
    rows: tuple[Row, ...]
    design: DesignDraft
    repeat: str = ""  # not empty: a stage is a batch
    unit: str = "1"

    @classmethod
    def fresh(cls) -> Draft:
        rows = (Row("A"), Row("B"), Row())
        design = DesignDraft().padded(len(rows))
        return cls(_new_name(), "50", "1", DEFAULT_POLICY, "0", "", rows, design)

    @classmethod
    def of(cls, form: Form) -> Draft:
        """From a form that was sent; rewards and deployment may be left out."""
        names, good, bad = (form.all(name) for name in ("arm", "good", "bad"))
        number = min(map(len, (names, good, bad)))
        padded = [
            (form.all(name) + [default] * number)[:number]
            for name, default in (("reward_good", "1"), ("reward_bad", "0"))
        ]
        rows = tuple(Row(*fields) for fields in zip(names, good, bad, *padded, strict=False))
        if len(rows) * len(form.all("scenario")) > MAX_FIELDS:  # the page has a field for each pair
            raise ApiError(422, "invalid", "the form has too many scenarios for so many arms")
        more = (Row(),) * 2 if form.one("add") or not rows else ()
        return cls(
            name=form.one("name").strip() or _new_name(),
            horizon=form.one("horizon"),
            pulls=form.one("pulls"),
            policy=form.one("policy"),
            deploy=form.one("deploy", "0"),
            file=form.one("file").strip(),
            rows=rows + more,
            design=DesignDraft.of(form, len(rows)).padded(len(rows + more)),
            repeat=form.one("repeat"),
            unit=form.one("unit").strip() or "1",
        )

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields, for a hidden form."""
        typed = {field.name: getattr(self, field.name) for field in fields(self)}
        single = [(key, value) for key, value in typed.items() if isinstance(value, str)]
        called = {"name": "arm"}
        arms = [
            (called.get(key, key), value) for row in self.rows for key, value in asdict(row).items()
        ]
        return single + arms + self.design.fields()

    @property
    def format(self) -> Format:
        """Format of the file: JSON or TOML."""
        return "json" if self.file.startswith("{") else "toml"

    def loaded(self, limits: Limits) -> Draft:
        """Fill in the form from its file, which stays if the form cannot express it."""
        if not self.file:
            return self
        table = self._table_of_file()
        try:
            check_size(table, limits)
            problem, design = table.designed()
        except ValueError as error:
            raise _bad_file(error) from None
        if not problem.is_binary:  # outcomes that the form has no fields for
            return self
        rows = tuple(
            Row(
                arm.name,
                *(f"{x:.15g}" for x in (arm.beta.good, arm.beta.bad)),
                *(_typed(x) for x in (arm.outcome_reward.good, arm.outcome_reward.bad)),
            )
            for arm in problem.arms
        )
        deploy = "0" if problem.terminal is None else f"{problem.terminal.deploy:.15g}"
        first, *rest = _policies(design, self.policy)
        typed = DesignDraft() if design is None else DesignDraft.from_design(design, rest)
        if len(rows) * len(typed.scenarios) > MAX_FIELDS:
            return self
        filled = replace(
            self,
            horizon=str(problem.random_horizon or problem.horizon),
            pulls=str(problem.pulls_per_stage),
            deploy=deploy,
            rows=rows,
            file="",
            policy=first,
            design=typed.padded(len(rows)),
            repeat="1" if problem.repeat else "",
            unit=str(problem.unit),
        )
        try:
            again, own_design = filled._table().designed()
        except ValueError:  # rewards by stage, tables
            return self
        if again != problem:
            return self
        full_design = None if design is None else _with_policies(design, [first, *rest])
        few = len(rows) <= MOST_ARMS or design is None or not design.scenarios
        return filled if few and own_design == full_design else replace(filled, file=self.file)

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
        chosen = dict.fromkeys([self.policy, *typed_design.policies])
        design = beside_equal(_with_policies(typed_design, list(chosen)))
        try:
            field = "compare"
            check_policies(design.policies, places=False)
            field = "draws"
            check_work(problem, design, limits, self._named_place)
        except ValueError as error:
            if self.file:
                raise _bad_file(error) from None
            message = str(error).removeprefix(f"{label_of(field)}: ")
            raise FormError(f"{label_of(field)}: {message}", {field: message}) from None
        return problem, design

    def design_file(self, problem: Problem, design: Design) -> str:
        """Return a problem file with the design; the uploaded one if it has these policies."""
        try:
            _, file_design = self._table_of_file().designed() if self.file else (problem, None)
        except InvalidProblem:
            file_design = None
        if file_design is not None and beside_equal(file_design).policies == design.policies:
            return "".join(f"{line}\n" for line in self.file.splitlines())  # forms send CRLF
        return format_problem(problem, design, format=self.format)

    def _named_place(self, place: Place) -> str:
        return dotted(place) if self.file else self._label(place)

    def _designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        table = self._table_of_file() if self.file else self._table()
        try:
            trial_name(self.name)
        except TrialError as error:
            message = str(error).removeprefix("name: ")
            raise FormError(f"{NAME}: {message}", {"name": message}) from None
        if self.policy not in policy_names():
            message = "there is no policy of this name"
            raise FormError(f"Policy: {message}", {"policy": message})
        try:
            check_size(table, limits)
            return table.designed()
        except InvalidProblem as error:
            if self.file:
                raise _bad_file(error) from None
            raise self._refused(error) from None
        except ValueError as error:  # too large
            large = "horizon" if table.most_stages > limits.max_horizon else "arms"
            raise FormError(str(error), {"file" if self.file else large: str(error)}) from None

    def _table_of_file(self) -> DesignedTable:
        try:
            return DesignedIn.from_tree(parse_tree(self.file, self.format))
        except ValueError as error:
            raise _bad_file(error) from None

    def _table(self) -> DesignedTable:
        wrong: dict[str, str] = {}
        arms = [
            {
                "name": row.name.strip(),
                "prior": {
                    "good": number(f"good-{i}", row.good, wrong),
                    "bad": number(f"bad-{i}", row.bad, wrong),
                },
                "reward": {
                    "good": number(f"reward_good-{i}", row.reward_good, wrong),
                    "bad": number(f"reward_bad-{i}", row.reward_bad, wrong),
                },
            }
            for i, row in self._named()
        ]
        design = self.design.tree(self.policy, self._arm_rows(), wrong)
        tree: dict[str, Any] = {
            "horizon": self._horizon(wrong),
            "pulls_per_stage": number("pulls", self.pulls, wrong, whole=True),
            "repeat": bool(self.repeat),
            "unit": number("unit", self.unit, wrong, whole=True),
            "arms": arms,
            "terminal": {"deploy": number("deploy", self.deploy, wrong)},
            **({"design": design} if design else {}),
        }
        if wrong:
            key = next(iter(sorted(wrong, key=lambda name: "-" in name)))
            raise FormError(f"{_label_of(key)}: {wrong[key]}", wrong)
        try:
            return DesignedTable.from_tree(tree)
        except InvalidProblem as error:
            raise self._refused(error) from None

    def _horizon(self, wrong: dict[str, str]) -> object:
        """Return a number of stages, or the law of a random one."""
        if ":" not in self.horizon and "," not in self.horizon:
            return number("horizon", self.horizon, wrong, whole=True)
        try:
            return RandomHorizon.parse(self.horizon)
        except ValueError as error:
            wrong["horizon"] = str(error).removeprefix("horizon: ")
            return None

    def _named(self) -> list[tuple[int, Row]]:
        return [(i, row) for i, row in enumerate(self.rows, 1) if row.name.strip()]

    def _arm_rows(self) -> list[int]:
        return [i for i, _ in self._named()]

    def _refused(self, error: InvalidProblem) -> FormError:
        messages: dict[str, str] = {}
        for detail in error.errors():
            text = _in_words(one_line([detail], where=lambda _: ""))
            messages.setdefault(self._field(detail["loc"]), text)
        return FormError(_in_words(error.line(self._label)), messages)

    def _label(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                return ", ".join([f"Arm {self._named()[position][0]}", *map(str, keys)])
            case ("design", *keys):
                return label_of(self.design.field_of(tuple(keys), self._arm_rows()))
        return LABELS[str(place[0])]

    def _field(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                return f"{_COLUMNS.get(tuple(keys), 'arm')}-{self._named()[position][0]}"
            case ("design", *keys):
                return self.design.field_of(tuple(keys), self._arm_rows())
        return _FIELDS[str(place[0])]


def _in_words(line: str) -> str:
    """Translate keys into labels of the form."""
    return line.replace("required key is missing", "required: fill it in")


def _bad_file(error: ValueError) -> FormError:
    line = " ".join(str(error).removeprefix("<text>: ").split())
    return FormError(f"Problem file: {line}", {"file": line})


def _label_of(field: str) -> str:
    """Return the label of a field in a sentence."""
    column, _, row = field.partition("-")
    if column in BY_NAME or column in ("scenario", "truth"):
        return label_of(field)
    if row:
        keys = next(keys for keys, name in _COLUMNS.items() if name == column)
        return ", ".join([f"Arm {row}", *map(str, keys)])
    return next(LABELS[key] for key, name in _FIELDS.items() if name == column)


def _policies(design: Design | None, chosen: str) -> list[str]:
    """Names of a design's policies, one that the form can choose first."""
    names = [] if design is None else list(design.policies)
    return names if names and names[0] in policy_names() else [chosen, *names]


def _with_policies(design: Design, names: Sequence[str]) -> Design:
    return design.model_copy(update={"policies": tuple(names)})


def _typed(reward: float | tuple[float, ...]) -> str:
    """Return a reward as text; rewards by stage do not fit into the form."""
    return "" if isinstance(reward, tuple) else f"{reward:.15g}"


def _new_name() -> str:
    """Return a new name, which identifies a form that is sent twice."""
    return f"trial-{secrets.token_hex(3)}"
