"""Study files: a grid of problems, policies and seeds in TOML or JSON, and the cells it stands for.

A cell is one policy on one problem with one seed. Its settings are plain data, all that its figures
depend on: they go to whoever computes the cell, and into its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from typing import Annotated, Any, Self

from pydantic import PlainValidator, ValidationError, model_validator
from pydantic_core import ErrorDetails

from .problem import (
    ArmCount,
    Beta,
    Frozen,
    Horizon,
    Name,
    NotNegative,
    Problem,
    refuse,
    whole_number,
)
from .problem_files import (
    Place,
    complaint,
    load_problem,
    place_of,
    problem_from_dict,
    problem_to_dict,
    read_tree,
)

MOST_CELLS = 100_000
LARGEST_SEED = 2**53  # that every reader of JSON keeps
FILE_NAME_RULE = (
    "must be 1 to 80 letters, digits and . _ -, with a letter or digit first: it names files"
)


class StudyError(ValueError):
    """A study, or a result of one, that cannot be used: one line with the file, place and rule."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One policy on one problem with one seed."""

    settings: dict[str, Any]  # plain data: the name of the problem, and all that figures depend on

    @property
    def name(self) -> str:
        """Unique in a study: no policy has two dashes in a row in its name."""
        return "{name}--{policy}--seed-{seed}".format_map(self.settings)

    @property
    def file(self) -> str:
        return f"{self.name}.json"


@dataclass(frozen=True, eq=False)
class Study:
    """A study that has been read: its cells, problem by problem."""

    name: str
    cells: tuple[Cell, ...]


def load_study(path: str | Path) -> Study:
    """Read a study from a .toml or .json file, and the problem files that it names."""
    path, source = Path(path), str(path)
    try:
        file = _StudyFile.model_validate(read_tree(path))
    except ValidationError as error:
        raise StudyError(f"{source}: {_first(error.errors())}") from None
    _check_sizes(file, source)
    problems: dict[str, tuple[_ProblemEntry, Problem]] = {}
    taken: set[str] = set()  # without case: some file systems do not keep it apart
    for i, entry in enumerate(file.problems):
        place = f"{source}: problems[{i}]"
        problem = entry.read(path.parent, place)
        name = entry.chosen_name(problem)
        if not _names_a_file(name):
            raise StudyError(f"{place}: {name!r} is not allowed as a name; {FILE_NAME_RULE}")
        if name.lower() in taken:
            raise StudyError(f"{place}: the name {name!r} is taken; give it another with 'name'")
        taken.add(name.lower())
        problems[name] = entry, problem
    cells = tuple(
        cell
        for name, (entry, problem) in problems.items()
        for cell in _cells(file, name, entry, problem)
    )
    return Study(file.name or path.stem, cells)


def _cells(file: _StudyFile, name: str, entry: _ProblemEntry, problem: Problem) -> Iterator[Cell]:
    tree = problem_to_dict(problem)
    for policy in file.policies:
        for seed in file.seeds:
            yield Cell(
                {
                    "name": name,
                    "problem": tree,
                    "policy": policy,
                    "seed": seed,
                    "draws": file.draws,
                    "per_draw": file.per_draw,
                    "ties": file.ties,
                    "tol": file.tol,
                    "truth_prior": None if entry.truth_prior is None
                    else entry.truth_prior.model_dump(),
                    "true_horizon": entry.true_horizon,
                },
            )  # fmt: skip


# -- the model ----------------------------------------------------------------------------------


def _names_a_file(value: object) -> bool:
    return (
        isinstance(value, str) and fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", value) is not None
    )


def _file_name(value: object) -> str:
    return str(value) if _names_a_file(value) else refuse(FILE_NAME_RULE, found=value)


def _one_of(value: object, known: Sequence[str]) -> str:
    return (
        str(value) if value in known else refuse(f"must be one of {', '.join(known)}", found=value)
    )


def _policy(value: object) -> str:
    from .registry import POLICIES  # late: this waits for the compiler

    return _one_of(value, list(POLICIES))


def _tie_rule(value: object) -> str:
    from .policies.base import TIE_RULES

    return _one_of(value, TIE_RULES)


def _path(value: object) -> str:
    good = isinstance(value, str) and value != "" and "\0" not in value
    return str(value) if good else refuse("must be the path of a problem file", found=value)


FileName = Annotated[str, PlainValidator(_file_name)]
Size = Annotated[int, PlainValidator(whole_number(1, 10**9))]
Seed = Annotated[int, PlainValidator(whole_number(0, LARGEST_SEED))]


class _ProblemEntry(Frozen):
    name: FileName | None = None
    file: Annotated[str, PlainValidator(_path)] | None = None
    arms: ArmCount | None = None
    horizon: Horizon | None = None
    prior: Beta | None = None
    pulls_per_stage: ArmCount | None = None
    truth_prior: Beta | None = None
    true_horizon: Horizon | None = None

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        equal = [self.arms, self.horizon, self.prior, self.pulls_per_stage]
        if self.file is not None and any(value is not None for value in equal):
            rule = "must stand without arms, horizon, prior, pulls_per_stage: the file has them"
            refuse(rule, found=self.file, at=("file",))
        if self.file is None and (self.arms is None or self.horizon is None):
            refuse("must have a file, or both arms and horizon", found={})
        return self

    def chosen_name(self, problem: Problem) -> str:
        """The name given, or one that says what it is."""
        if self.name is not None:
            return self.name
        if self.file is not None:
            return Path(self.file).stem
        return f"{problem.number_of_arms}-arms-horizon-{problem.horizon}"

    def read(self, folder: Path, place: str) -> Problem:
        """The problem, checked against what is said to be true of it."""
        if self.file is not None:
            problem = load_problem(folder / self.file)
        else:
            arm: dict[str, Any] = {"name": "arm", "count": self.arms}
            if self.prior is not None:
                arm["prior"] = self.prior.model_dump()
            tree = {"horizon": self.horizon, "arms": [arm]}
            if self.pulls_per_stage is not None:
                tree["pulls_per_stage"] = self.pulls_per_stage
            problem = problem_from_dict(tree, source=place)
        from .worlds import true_problem

        try:
            true_problem(problem, self.truth_prior, self.true_horizon)
        except ValueError as error:
            raise StudyError(f"{place}: {error}") from None
        return problem


class _StudyFile(Frozen):
    name: Name | None = None
    policies: tuple[Annotated[str, PlainValidator(_policy)], ...]
    draws: Size = 1000
    per_draw: Size = 10
    seeds: tuple[Seed, ...] = (1,)
    ties: Annotated[str, PlainValidator(_tie_rule)] = "least-pulled"
    tol: NotNegative = 1e-4
    problems: tuple[_ProblemEntry, ...]

    @model_validator(mode="after")
    def _check_lists(self) -> Self:
        for key in ("policies", "seeds", "problems"):
            values = getattr(self, key)
            if not values:
                refuse("must not be empty", found=values, at=(key,))
        for key in ("policies", "seeds"):
            values = getattr(self, key)
            for i, value in enumerate(values):
                if value in values[:i]:
                    refuse("must not be there twice", found=value, at=(key, i))
        cells = len(self.policies) * len(self.seeds) * len(self.problems)
        if cells > MOST_CELLS:
            refuse(f"must be at most {MOST_CELLS} cells in all", found=cells, at=("problems",))
        return self


def _check_sizes(file: _StudyFile, source: str) -> None:
    from .simulation import check_sizes

    try:
        check_sizes(file.draws, file.per_draw, file.seeds[0])
    except ValueError as error:
        raise StudyError(f"{source}: {error}") from None


# -- messages -----------------------------------------------------------------------------------

_TABLES: dict[Place, type[Frozen]] = {
    (): _StudyFile,
    ("problems",): _ProblemEntry,
    ("problems", "prior"): Beta,
    ("problems", "truth_prior"): Beta,
}


def _first(details: Sequence[ErrorDetails]) -> str:
    """The first error in one line, in the words of problem files; unknown keys first."""
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    said = complaint(first) if first["type"] != "extra_forbidden" else _unknown(first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    place = place_of(first["loc"])
    return f"{place}: {said}{more}" if place else f"{said}{more}"


def _unknown(place: Place) -> str:
    table = _TABLES[tuple(key for key in place[:-1] if isinstance(key, str))]
    return f"unknown key; allowed: {', '.join(table.model_fields)}"
