"""Study files: a grid of problems, policies and seeds, in TOML or JSON, and its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import PlainValidator, model_validator

from ..problem import (
    Beta,
    EqualArms,
    InvalidProblem,
    Name,
    NotNegative,
    Problem,
    StageCount,
    Written,
    load_problem,
    read_tree,
    tie_rule,
    whole_number,
)
from ..support import refuse
from .records import FILE_NAME_RULE, Cell, FileName, Study, names_a_file

MOST_CELLS = 100_000
LARGEST_SEED = 2**53  # that every reader of JSON keeps


class StudyError(ValueError):
    """A study, or a result of one, that cannot be used: one line with the file, place and rule."""


def load_study(path: str | Path) -> Study:
    """Read a study from a .toml or .json file, and the problem files that it names."""
    path, source = Path(path), str(path)
    try:
        file = _StudyFile.from_tree(read_tree(path))
    except InvalidProblem as error:
        raise StudyError(f"{source}: {error}") from None
    _check_sizes(file, source)
    problems: dict[str, tuple[_ProblemEntry, Problem]] = {}
    taken: set[str] = set()  # without case: some file systems do not keep it apart
    for i, entry in enumerate(file.problems):
        place = f"{source}: problems[{i}]"
        problem = entry.read(path.parent, place)
        name = entry.chosen_name(problem)
        if not names_a_file(name):
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
    for policy in file.policies:
        for seed in file.seeds:
            yield Cell(
                problem_name=name,
                problem=problem,
                policy=policy,
                seed=seed,
                draws=file.draws,
                per_draw=file.per_draw,
                ties=tie_rule(file.ties),
                tol=file.tol,
                truth_prior=entry.truth_prior,
                true_horizon=entry.true_horizon,
            )


# -- the model ----------------------------------------------------------------------------------


def _one_of(value: object, known: Sequence[str]) -> str:
    return (
        str(value) if value in known else refuse(f"must be one of {', '.join(known)}", found=value)
    )


def _policy(value: object) -> str:
    from ..policies import check_policies, policy_names

    rule = f"must be one of {', '.join(policy_names())}, or package.module:Class"
    if not isinstance(value, str):
        refuse(rule, found=value)
    try:
        check_policies([value])
    except ValueError as error:
        refuse(str(error) if ":" in value else rule, found=value)
    return value


def _tie_rule(value: object) -> str:
    from ..problem import TIE_RULES

    return _one_of(value, TIE_RULES)


def _path(value: object) -> str:
    good = isinstance(value, str) and value != "" and "\0" not in value
    return str(value) if good else refuse("must be the path of a problem file", found=value)


Size = Annotated[int, whole_number(1, 10**9)]
Seed = Annotated[int, whole_number(0, LARGEST_SEED)]


class _Source(Written):  # type: ignore[explicit-any]  # of pydantic's own
    name: FileName | None = None
    file: Annotated[str, PlainValidator(_path)] | None = None


class _ProblemEntry(EqualArms, _Source):  # type: ignore[explicit-any]
    # keys in the order of messages: name, file, arms, ...
    truth_prior: Beta | None = None
    true_horizon: StageCount | None = None

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        equal = EqualArms.model_fields.keys()
        if self.file is not None and self.model_fields_set & equal:
            rule = f"must stand without {', '.join(equal)}: the file has them"
            refuse(rule, found=self.file, at=("file",))
        if self.file is None and not {"arms", "horizon"} <= self.model_fields_set:
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
        problem = self._equal(place) if self.file is None else load_problem(folder / self.file)
        from ..problem import true_problem

        try:
            true_problem(problem, self.truth_prior, self.true_horizon)
        except ValueError as error:
            raise StudyError(f"{place}: {error}") from None
        return problem

    def _equal(self, place: str) -> Problem:
        try:
            return self.problem()
        except InvalidProblem as error:
            raise StudyError(f"{place}: {error}") from None


class _StudyFile(Written):  # type: ignore[explicit-any]
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
    from ..simulation import check_sizes

    try:
        check_sizes(file.draws, file.per_draw)
    except ValueError as error:
        raise StudyError(f"{source}: {error}") from None
