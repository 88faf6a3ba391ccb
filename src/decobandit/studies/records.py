"""The records of a study: cells and their results, in files and as rows of one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from .._version import __version__
from ..problem import (
    Design,
    Prior,
    Problem,
    ProblemError,
    Rules,
    Scenario,
    TieRule,
    problem_from_dict,
    problem_to_dict,
    read_tree,
)
from ..simulation import policy_grid
from ..support import (
    DecoError,
    Tables,
    Tabular,
    columns_of,
    csv_of,
    dotted,
    one_line,
    refuse,
    write_parquet,
    write_whole,
)
from ..support.frames import Shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FILE_NAME_RULE = (
    "must be 1 to 80 letters, digits and . _ -, with a letter or digit first: it names files"
)
LATER = ("design", "scenario", "characteristics")
SHARED_PROBLEMS = 8  # cells of a study come problem by problem


class StudyError(DecoError, code="invalid_study"):
    """A study, or a result of one, that cannot be used: one line with the file, place and rule."""


def names_a_file(value: object) -> bool:
    """Whether `value` may be part of the name of a file: see FILE_NAME_RULE."""
    return (
        isinstance(value, str) and fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", value) is not None
    )


def _file_name(value: object) -> str:
    return str(value) if names_a_file(value) else refuse(FILE_NAME_RULE, found=value)


# one object for all cells that have the same problem: it may have 100,000 arms
_shared_problem = lru_cache(maxsize=SHARED_PROBLEMS)(
    lambda text: problem_from_dict(json.loads(text), source="problem")
)


def _problem(value: object) -> Problem:
    if isinstance(value, Problem):
        return value
    try:
        return _shared_problem(json.dumps(value, sort_keys=True))
    except ProblemError as error:
        refuse(str(error).removeprefix("problem: "), found=value)


def rules_and_test(design: Design) -> dict[str, JsonValue]:
    """Return what a cell keeps of a design: policy, scenario, draws and seed are the cell's own."""
    keys = {*Rules.model_fields, "test"}
    return design.model_dump(mode="json", include=keys, exclude_defaults=True)


FileName = Annotated[str, PlainValidator(_file_name)]
Whole = Annotated[int, Field(strict=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
CellProblem = Annotated[Problem, PlainValidator(_problem), PlainSerializer(problem_to_dict)]
CellDesign = Annotated[Design, PlainSerializer(rules_and_test)]


@dataclass(frozen=True)
class Record:
    """Base of what stands in a file: unknown keys are refused, empty LATER ones left out."""

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
    """One policy, problem and seed; with a design also a scenario, and `draws` are trials."""

    problem_name: Annotated[FileName, Field(alias="name")]
    problem: CellProblem
    policy: str
    seed: Whole
    draws: Whole
    per_draw: Whole
    ties: TieRule
    tol: Finite
    truth_prior: Prior | None
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
        # problem share one object again
        return _cell_from_json, (CELL.dump_json(self, by_alias=True),)


@dataclass(frozen=True)
class CellResult(Record):
    """The result of a cell; regrets are None where they are not defined."""

    value: Finite
    value_se: Finite
    regret: Finite | None
    regret_se: Finite | None
    upper_bound: Finite | None  # on what any policy earns; None where beliefs are wrong
    method: str  # the estimator of value and regret
    estimates: dict[str, dict[str, Finite]]  # value and value_se by all estimators
    curve: dict[str, tuple[Finite, ...]] | None  # regret and regret_se after each stage
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
class FinishedCell(Record):
    """The content of the file of a cell."""

    cell: Annotated[Cell, Field(alias="settings")]
    result: Annotated[CellResult, Field(alias="figures")]
    version: str  # of the program that computed it
    format: Literal["decobandit-cell-1"] = "decobandit-cell-1"


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """A study that has been read: its cells, problem by problem."""

    name: str
    cells: tuple[Cell, ...]


CELL_LIST = "study.json"


@dataclass(frozen=True)
class _CellList(Record):
    name: str
    cells: list[str]
    format: Literal["decobandit-study-1"] = "decobandit-study-1"


File = TypeVar("File")
_FINISHED = TypeAdapter(FinishedCell)
_LISTED = TypeAdapter(_CellList)


@dataclass(frozen=True, repr=False)
class Collected(Tabular):
    """The results of a study; the table of `to_frame` is `cells`, one row each."""

    name: str
    finished: tuple[FinishedCell, ...]
    missing: tuple[str, ...]  # names of cells

    def tables(self) -> Tables:
        """`cells`, one row each."""
        return {"cells": lambda: columns_of(map(asdict, rows_of(self.finished)))}


def write_cell(cell: Cell, result: CellResult, folder: Path) -> None:
    """Write a finished cell."""
    path = folder / cell.file
    if path.exists() and read_cell(path).cell != cell:  # written by another run
        raise StudyError(
            f"{path}: has been written by another run with other settings; choose another folder "
            "with --out"
        )
    _write(_FINISHED, FinishedCell(cell, result, __version__), path)


def write_cell_list(study: Study, folder: Path) -> None:
    """Write the cell list; a folder that belongs to another study is an error."""
    path = folder / CELL_LIST
    if path.exists() and (there := _read(_LISTED, path).name) != study.name:
        raise StudyError(
            f"{path}: belongs to the study {there!r}, not to {study.name!r}; "
            "choose another folder with --out"
        )
    _write(_LISTED, _CellList(study.name, [cell.name for cell in study.cells]), path)


def _write(kind: TypeAdapter[File], file: File, path: Path) -> None:
    tree = kind.dump_python(file, by_alias=True)
    text = json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n")


def read_cell(path: Path) -> FinishedCell:
    """Return what a cell file has."""
    return _read(_FINISHED, path)


def finished_cells(study: Study, folder: Path) -> dict[str, FinishedCell]:
    """Return the cells computed so far, by name; refuse files with other settings."""
    cells = {}
    for cell in study.cells:
        path = folder / cell.file
        if path.exists():
            there = read_cell(path)
            if (there.cell, there.version) != (cell, __version__):
                raise _other_settings(there, cell, path)
            cells[cell.name] = there
    return cells


def collect_study(study: Study, folder: Path) -> Collected:
    """Return what there is of the cells that a study asks for."""
    finished = finished_cells(study, folder)
    missing = tuple(cell.name for cell in study.cells if cell.name not in finished)
    return Collected(study.name, tuple(finished.values()), missing)


def collect_folder(folder: Path) -> Collected:
    """All cells in a folder, in the order of its study, and those that it lacks."""
    paths = {path.stem: path for path in sorted(folder.glob("*--*.json"))}
    listed = folder / CELL_LIST
    if not paths and not listed.exists():
        raise StudyError(f"{folder}: holds no cells of a study")
    cell_list = _read(_LISTED, listed) if listed.exists() else _CellList(folder.name, [])
    order = dict.fromkeys([*(name for name in cell_list.cells if name in paths), *paths])
    missing = tuple(name for name in cell_list.cells if name not in paths)
    return Collected(cell_list.name, tuple(read_cell(paths[name]) for name in order), missing)


def _read(kind: TypeAdapter[File], path: Path) -> File:
    try:
        return kind.validate_python(read_tree(path))
    except ValidationError as error:
        reason = one_line(error, where=dotted)
        raise StudyError(f"{path}: not a file of a study: {reason}") from None


def _other_settings(there: FinishedCell, cell: Cell, path: Path) -> StudyError:
    """Return what to say of a file that stands where `cell` would go: the first difference."""
    old, new = (
        dict(_leaves({"settings": CELL.dump_python(one, by_alias=True), "version": version}))
        for one, version in ((there.cell, there.version), (cell, __version__))
    )
    place = next(key for key in sorted({**old, **new}) if old.get(key) != new.get(key))
    was, now = (_shown(leaves.get(place)) for leaves in (old, new))
    return StudyError(
        f"{path}: is there with other settings: {place} is {was} in it, {now} now; "
        "choose another folder with --out, or move the file away"
    )


def _leaves(tree: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a tree by their dotted places."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, f"{place}.{key}" if place else str(key))
    else:
        yield place, tree


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True)
class Row:
    """One finished cell; fields are the columns, None where there is nothing to say."""

    problem: str
    policy: str
    seed: int
    arms: int
    horizon: int
    pulls_per_stage: int
    draws: int
    per_draw: int
    ties: str
    tol: float
    truth_prior_good: float | None
    truth_prior_bad: float | None
    true_horizon: int | None
    value: float
    value_se: float
    regret: float | None
    regret_se: float | None
    upper_bound: float | None
    method: str
    version: str

    # what policies are compared on, and by which number

    @property
    def line(self) -> str:
        return self.problem

    @property
    def measure(self) -> str:
        return "regret"

    @property
    def compared(self) -> tuple[float, float] | None:
        if self.regret is None or self.regret_se is None:
            return None
        return self.regret, self.regret_se


@dataclass(frozen=True)
class DesignRow(Row):
    """Operating characteristics in a scenario; lists by arm are numbers with blanks between."""

    scenario: str
    truth: str
    exact: bool
    good_sd: float
    pulls: str
    pulls_sd: str
    best_share: float | None
    best_share_se: float | None
    select_best: float | None
    select_best_se: float | None
    reject: float
    reject_se: float | None
    reject_best: float | None
    reject_best_se: float | None
    reject_wrong: float
    reject_wrong_se: float | None
    size: float
    size_se: float | None
    size_sd: float
    stopped: float
    stopped_se: float | None

    @property
    def line(self) -> str:
        return f"{self.problem}: {self.scenario}"

    @property
    def measure(self) -> str:
        return "good outcomes"

    @property
    def compared(self) -> tuple[float, float] | None:
        return self.value, self.value_se


def rows_of(finished: Sequence[FinishedCell]) -> list[Row]:
    """One row per finished cell."""
    return [_row(cell) for cell in finished]


def _row(finished: FinishedCell) -> Row:
    cell, result, prior = finished.cell, finished.result, finished.cell.truth_prior
    kind: type[Row] = Row
    values: dict[str, object] = {
        **vars(cell),
        **vars(result),
        "problem": cell.problem_name,
        "arms": cell.problem.n_arms,
        "horizon": cell.problem.horizon,
        "pulls_per_stage": cell.problem.pulls_per_stage,
        "truth_prior_good": getattr(prior, "good", None),
        "truth_prior_bad": getattr(prior, "bad", None),
        "version": finished.version,
    }
    if cell.scenario is not None and result.characteristics is not None:
        kind = DesignRow
        more = {key: _entry(value) for key, value in result.characteristics.items()}
        of_design = {"scenario": cell.scenario.name, "truth": _entry(cell.scenario.truth)}
        values = {**more, **values, **of_design}
    return TypeAdapter(kind).validate_python(
        {one.name: values.get(one.name) for one in fields(kind)}
    )


def _entry(value: object, between: str = " ") -> object:
    """Return a list as text; of classes, whose truth is a list each, 0.2+0.3+0.5."""
    if not isinstance(value, list | tuple):
        return value
    return between.join(str(_entry(entry, "+")) for entry in value)


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a table as CSV, with the columns of the row type that has the most fields."""
    kind = max(map(type, rows), key=lambda kind: len(fields(kind)), default=Row)
    write_whole(path, csv_text(kind, rows))


def csv_text(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> str:
    """Return records of one kind as CSV, a column for each field."""
    names = [field.name for field in fields(kind)]
    return csv_of(columns_of(map(asdict, rows), names))


def save_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write a table as Parquet; its name need not say so."""
    write_parquet(columns_of(map(asdict, rows)), path)


def save_markdown(rows: Sequence[Row], path: Path) -> None:
    """Write what is compared with its error: a line for each problem, a column for each policy."""
    grid = policy_grid(rows)
    lines = [f"| {grid.measure} | " + " | ".join(f"`{name}`" for name in grid.policies) + " |"]
    lines.append("|---" * (len(grid.policies) + 1) + "|")
    for line in grid.lines:
        cells = [grid.found.get((line, policy)) for policy in grid.policies]
        shown = [f"{cell.value:.3f} ± {cell.value_se:.3f}" if cell else "" for cell in cells]
        name = line.replace("|", "\\|")  # scenarios have any name
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    write_whole(path, "\n".join([*lines, ""]))
