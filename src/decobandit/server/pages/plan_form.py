"""The form that plans a trial: what was typed, the problem it stands for, what is wrong and where.

Fields are called as the form calls them: `horizon`, `pulls`, `deploy`, `policy`, `file`, and for
the arm of row 2 `arm-2`, `good-2`, `bad-2`, `reward_good-2`, `reward_bad-2`. Rows are counted from
1.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...designs.reporting import beside_equal
from ...policies import DEFAULT_POLICY, canonical_name, policy_names
from ...problem import Design, DesignedTable, InvalidProblem, Problem, Rules
from ...problem.problem_files import Format, parse_tree
from ...support import Place, dotted, one_line
from ..api.problems import check_size, check_work
from ..middleware.limits import Limits
from .rendering import Form

# what the form calls the fields of a problem
LABELS = {
    "horizon": "Horizon (stages)",
    "pulls_per_stage": "Pulls per stage",
    "arms": "Arms",
    "terminal": "Deployment, in pulls",
}
_FIELDS = {"horizon": "horizon", "pulls_per_stage": "pulls", "arms": "arms", "terminal": "deploy"}
_COLUMNS: dict[tuple[int | str, ...], str] = {
    ("name",): "arm",
    ("prior", "good"): "good",
    ("prior", "bad"): "bad",
    ("reward", "good"): "reward_good",
    ("reward", "bad"): "reward_bad",
}


class FormError(ValueError):
    """What is wrong with a form: one line, and what to say beside each field."""

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

    @classmethod
    def fresh(cls) -> Draft:
        rows = (Row("A"), Row("B"), Row())
        return cls(_new_name(), "50", "1", DEFAULT_POLICY, "0", "", rows)

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
        more = (Row(),) * 2 if form.one("add") or not rows else ()
        return cls(
            name=form.one("name").strip() or _new_name(),
            horizon=form.one("horizon"),
            pulls=form.one("pulls"),
            policy=form.one("policy"),
            deploy=form.one("deploy", "0"),
            file=form.one("file").strip(),
            rows=rows + more,
        )

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields, for a hidden form."""
        single = [(key, str(value)) for key, value in asdict(self).items() if key != "rows"]
        called = {"name": "arm"}
        arms = [
            (called.get(key, key), value) for row in self.rows for key, value in asdict(row).items()
        ]
        return single + arms

    @property
    def format(self) -> Format:
        """Of the file."""
        return "json" if self.file.startswith("{") else "toml"

    def loaded(self) -> Draft:
        """The form filled in from its file; the file stays where the form cannot say it all."""
        if not self.file:
            return self
        try:
            problem, design = self._table_of_file().designed()
        except InvalidProblem as error:
            raise _bad_file(error) from None
        if not problem.is_binary:  # outcomes that the form has no fields for
            return self
        rows = tuple(
            Row(
                arm.name, *(f"{x:.15g}" for x in (arm.beta.good, arm.beta.bad)),
                *(_typed(x) for x in (arm.outcome_reward.good, arm.outcome_reward.bad)),
            )
            for arm in problem.arms
        )  # fmt: skip
        deploy = "0" if problem.terminal is None else f"{problem.terminal.deploy:.15g}"
        filled = replace(
            self, horizon=str(problem.horizon), pulls=str(problem.pulls_per_stage), deploy=deploy,
            rows=rows, file="",
        )  # fmt: skip
        try:
            if filled._table().problem() != problem:
                return self
            return filled if design is None else replace(filled, file=self.file)
        except ValueError:  # rewards by stage, tables, batches
            return self

    def ruled(self, limits: Limits) -> tuple[Problem, Rules | None]:
        """The problem, and the rules of a trial where the file has a design.

        A `FormError` says what is wrong, with the labels of the form.
        """
        problem, design = self._designed(limits)
        return problem, None if design is None else design.rules

    def designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        """The problem, and where a file has one, its design with equal allocation."""
        problem, given = self._designed(limits)
        design = None if given is None else beside_equal(given)
        if design is not None:
            try:
                check_work(problem, design, limits, dotted)
            except ValueError as error:
                raise _bad_file(error) from None
        return problem, design

    def _designed(self, limits: Limits) -> tuple[Problem, Design | None]:
        table = self._table_of_file() if self.file else self._table()
        if canonical_name(self.policy) not in policy_names():
            said = "there is no policy of this name"
            raise FormError(f"Policy: {said}", {"policy": said})
        try:
            check_size(table, limits)
            return table.designed()
        except InvalidProblem as error:
            if self.file:
                raise _bad_file(error) from None
            raise self._refused(error) from None
        except ValueError as error:  # too large
            large = "horizon" if table.horizon > limits.max_horizon else "arms"
            raise FormError(str(error), {"file" if self.file else large: str(error)}) from None

    def _table_of_file(self) -> DesignedTable:
        try:
            return DesignedTable.from_tree(parse_tree(self.file, self.format))
        except ValueError as error:
            raise _bad_file(error) from None

    def _table(self) -> DesignedTable:
        wrong: dict[str, str] = {}

        def number(key: str, text: str, *, whole: bool = False) -> float:
            try:
                value = int(text.strip()) if whole else float(text.strip())
                return int(value) if value == int(value) else value  # messages show 2, not 2.0
            except (ValueError, OverflowError):
                wrong[key] = f"{text[:40]!r} is not a {'whole number' if whole else 'number'}"
                return 0

        arms = [
            {
                "name": row.name.strip(),
                "prior": {
                    "good": number(f"good-{i}", row.good),
                    "bad": number(f"bad-{i}", row.bad),
                },
                "reward": {
                    "good": number(f"reward_good-{i}", row.reward_good),
                    "bad": number(f"reward_bad-{i}", row.reward_bad),
                },
            }
            for i, row in self._named()
        ]
        tree: dict[str, Any] = {
            "horizon": number("horizon", self.horizon, whole=True),
            "pulls_per_stage": number("pulls", self.pulls, whole=True),
            "arms": arms,
            "terminal": {"deploy": number("deploy", self.deploy)},
        }
        if wrong:
            key = next(iter(sorted(wrong, key=lambda each: "-" in each)))
            raise FormError(f"{_label_of(key)}: {wrong[key]}", wrong)
        try:
            return DesignedTable.from_tree(tree)
        except InvalidProblem as error:
            raise self._refused(error) from None

    def _named(self) -> list[tuple[int, Row]]:
        return [(i, row) for i, row in enumerate(self.rows, 1) if row.name.strip()]

    def _refused(self, error: InvalidProblem) -> FormError:
        said: dict[str, str] = {}
        for detail in error.errors():
            field = self._field(detail["loc"])
            said.setdefault(field, one_line([detail], where=lambda place: ""))
        return FormError(error.line(self._label), said)

    def _label(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                return ", ".join([f"Arm {self._named()[position][0]}", *map(str, keys)])
        return LABELS[str(place[0])]

    def _field(self, place: Place) -> str:
        match place:
            case ("arms", int(position), *keys):
                return f"{_COLUMNS.get(tuple(keys), 'arm')}-{self._named()[position][0]}"
        return _FIELDS[str(place[0])]


def _bad_file(error: ValueError) -> FormError:
    line = " ".join(str(error).removeprefix("<text>: ").split())
    return FormError(f"Problem file: {line}", {"file": line})


def _label_of(field: str) -> str:
    """What the form calls a field in a sentence."""
    column, _, row = field.partition("-")
    if row:
        keys = next(keys for keys, name in _COLUMNS.items() if name == column)
        return ", ".join([f"Arm {row}", *map(str, keys)])
    return next(LABELS[key] for key, name in _FIELDS.items() if name == column)


def _typed(reward: float | tuple[float, ...]) -> str:
    """A reward as it is typed; one per stage has no place in the form."""
    return "" if isinstance(reward, tuple) else f"{reward:.15g}"


def _new_name() -> str:
    """A new name; a form that is sent twice is recognised by it."""
    return f"trial-{secrets.token_hex(3)}"
