"""The records of a study: the cell that is asked for, its result, and both together when finished.

All are frozen and typed. `cell_files.py` defines their form in a file; fields have the same names
there, except `problem_name`, which is `name`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from re import fullmatch
from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)

from ..problem import (
    Beta,
    Design,
    Problem,
    ProblemError,
    Rules,
    Scenario,
    TieRule,
    problem_from_dict,
    problem_to_dict,
)
from ..support import refuse

FILE_NAME_RULE = (
    "must be 1 to 80 letters, digits and . _ -, with a letter or digit first: it names files"
)
LATER = ("design", "scenario", "characteristics")
SHARED_PROBLEMS = 8  # cells of a study come problem by problem


def names_a_file(value: object) -> bool:
    """Whether `value` may be part of the name of a file: see FILE_NAME_RULE."""
    return (
        isinstance(value, str) and fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", value) is not None
    )


def _file_name(value: object) -> str:
    return str(value) if names_a_file(value) else refuse(FILE_NAME_RULE, found=value)


def _problem(value: object) -> Problem:
    if isinstance(value, Problem):
        return value
    try:
        return _shared_problem(json.dumps(value, sort_keys=True))
    except ProblemError as error:
        refuse(str(error).removeprefix("problem: "), found=value)


@lru_cache(maxsize=SHARED_PROBLEMS)
def _shared_problem(text: str) -> Problem:
    """One object for all cells that have the same problem: it may have 100,000 arms."""
    return problem_from_dict(json.loads(text), source="problem")


def rules_and_test(design: Design) -> dict[str, JsonValue]:
    """What a cell keeps of a design: policy, scenario, draws and seed are the cell's own."""
    kept = {*Rules.model_fields, "test"}
    return design.model_dump(mode="json", include=kept, exclude_defaults=True)


FileName = Annotated[str, PlainValidator(_file_name)]
Whole = Annotated[int, Field(strict=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
CellProblem = Annotated[Problem, PlainValidator(_problem), PlainSerializer(problem_to_dict)]
CellDesign = Annotated[Design, PlainSerializer(rules_and_test)]
_IN_FILE = Field(validation_alias="name", serialization_alias="name")


@dataclass(frozen=True)
class Record:
    """Base of what stands in a file: unknown keys are refused, no number is made of a text.

    Keys of designs, LATER, are left out where there is no design: files of others are as ever.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    @model_serializer(mode="wrap")
    def _without_later_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        tree: dict[str, object] = handler(self)
        return {key: tree[key] for key in tree if key not in LATER or tree[key] is not None}


@dataclass(frozen=True)
class CellScenario(Record):
    """A scenario of a design; its random numbers depend on its place among the others."""

    name: str
    truth: tuple[Finite | tuple[Finite, ...], ...]  # of classes, the chances of each
    number: Whole

    @property
    def scenario(self) -> Scenario:
        return Scenario(name=self.name, truth=self.truth)


@dataclass(frozen=True)
class Cell(Record):
    """One policy on one problem with one seed: all that the result depends on.

    With a design, in one of its scenarios: `draws` are trials, of which `per_draw` is 1.
    """

    problem_name: Annotated[FileName, _IN_FILE]
    problem: CellProblem
    policy: str
    seed: Whole
    draws: Whole
    per_draw: Whole
    ties: TieRule
    tol: Finite
    truth_prior: Beta | None
    true_horizon: Whole | None
    design: CellDesign | None = None
    scenario: CellScenario | None = None

    @property
    def name(self) -> str:
        """Unique in a study: no policy has two dashes in a row in its name."""
        policy = self.policy.replace(":", ".")  # of package.module:Class: it names a file
        place = "" if self.scenario is None else f"scenario-{self.scenario.number + 1}--"
        return f"{self.problem_name}--{place}{policy}--seed-{self.seed}"

    @property
    def file(self) -> str:
        return f"{self.name}.json"

    def __reduce__(self) -> tuple[Callable[[bytes], Cell], tuple[bytes]]:
        # to workers it goes as in its file: equal arms are one entry there, and all cells of a
        # problem come to share one object again
        return _cell_from_json, (CELL.dump_json(self, by_alias=True),)


@dataclass(frozen=True)
class ValueEstimate(Record):
    """The value of a policy by one of the estimators."""

    value: Finite
    value_se: Finite


@dataclass(frozen=True)
class RegretCurve(Record):
    """Cumulative regret after each stage, and its standard error."""

    regret: tuple[Finite, ...]
    regret_se: tuple[Finite, ...]


@dataclass(frozen=True)
class CellResult(Record):
    """What came of a cell; regrets are None where they are not defined."""

    value: Finite
    value_se: Finite
    regret: Finite | None
    regret_se: Finite | None
    upper_bound: Finite | None  # on what any policy earns; None where beliefs are wrong
    method: str  # the estimator of value and regret
    estimates: dict[str, ValueEstimate]  # by all estimators
    curve: RegretCurve | None
    # of a design: keys and values of `deco design --json`, without the seconds
    characteristics: dict[str, JsonValue] | None = None


CELL = TypeAdapter(Cell)


def _cell_from_json(text: bytes) -> Cell:
    return CELL.validate_json(text)


@dataclass(frozen=True)
class CellFailure:
    """Why a cell has no result: too large, or a problem that does not suit the policy."""

    reason: str


@dataclass(frozen=True)
class FinishedCell:
    """What the file of a cell holds."""

    cell: Cell
    result: CellResult
    version: str  # of the program that computed it


@dataclass(frozen=True)
class Study:
    """A study that has been read: its cells, problem by problem."""

    name: str
    cells: tuple[Cell, ...]
