"""Study files: a grid of problems, policies and seeds, in TOML or JSON, and its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Self

from pydantic import PlainValidator, ValidationError, model_validator

from ..designs import POLICIES
from ..policies import check_policies, policy_names
from ..problem import (
    TIE_RULES,
    Design,
    EqualArms,
    Name,
    NotNegative,
    Prior,
    Problem,
    ProblemError,
    StageCount,
    Written,
    check_problem,
    designed_from_dict,
    read_tree,
    tie_rule,
    true_problem,
    whole_number,
)
from ..simulation import check_sizes
from ..support import one_line, refuse
from .records import (
    FILE_NAME_RULE,
    Cell,
    CellScenario,
    FileName,
    Study,
    StudyError,
    names_a_file,
    rules_and_test,
)

MOST_CELLS = 100_000
LARGEST_SEED = 2**53  # that every reader of JSON keeps


def load_study(path: str | Path) -> Study:
    """Read a study from a .toml or .json file, and the problem files that it names.

    Parameters
    ----------
    path : str or Path
        The file; problem files are relative to its folder.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If the file is not a study.

    Examples
    --------
    >>> import json
    >>> from decobandit import load_study
    >>> problem = {"arms": 2, "horizon": 4}
    >>> study = {"problems": [problem], "policies": ["greedy", "deco"], "draws": 10}
    >>> with open("small.json", "x") as file:
    ...     json.dump(study, file)
    >>> len(load_study("small.json").cells)
    2
    """
    path, source = Path(path), str(path)
    tree = read_tree(path)
    with _refused_at(f"{source}: "):
        file = _StudyFile.from_tree(tree)
        if file.design is None:
            check_sizes(file.draws, file.per_draw)
    cells: list[Cell] = []
    taken: set[str] = set()  # without case: some file systems do not keep it apart
    for i, entry in enumerate(file.problems):
        place = f"{source}: problems[{i}]"
        problem, design = entry.read(path.parent, file.design, place)
        name = entry.name or (
            f"{problem.n_arms}-arms-horizon-{problem.horizon}"
            if entry.file is None
            else Path(entry.file).stem
        )
        if not names_a_file(name):
            raise StudyError(f"{place}: {name!r} is not allowed as a name; {FILE_NAME_RULE}")
        if name.lower() in taken:
            raise StudyError(f"{place}: the name {name!r} is taken; give it another with 'name'")
        taken.add(name.lower())
        cells += _cells(file, name, entry, problem, design)
        if len(cells) > MOST_CELLS:
            raise StudyError(f"{place}: must be at most {MOST_CELLS} cells in all")
    return Study(file.name or path.stem, tuple(cells))


@contextmanager
def _refused_at(place: str) -> Iterator[None]:
    """Put a place of the file before a refusal."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, ValidationError) and not isinstance(error, ProblemError):
            raise StudyError(f"{place}{one_line(error)}") from None
        raise StudyError(f"{place}{error}") from None


def _cells(
    file: _StudyFile, name: str, entry: _ProblemEntry, problem: Problem, design: Design | None
) -> Iterator[Cell]:
    """Every policy; with a design in every scenario, and what the study says comes first."""
    keys = file.model_fields_set
    policies, seeds, draws, per_draw = file.policies, file.seeds, file.draws, file.per_draw
    scenarios: Sequence[CellScenario | None] = (None,)
    if design is not None:
        policies = policies or tuple(dict.fromkeys(design.policies)) or POLICIES
        seeds = seeds if "seeds" in keys else (design.seed,)
        draws, per_draw = draws if "draws" in keys else design.draws, 1
        scenarios = [
            CellScenario(scenario.name, scenario.truth, number)
            for number, scenario in enumerate(design.scenarios)
        ]
        design = Design.from_tree(rules_and_test(design))
    for scenario, policy, seed in product(scenarios, policies, seeds):
        yield Cell(
            problem_name=name,
            problem=problem,
            policy=policy,
            seed=seed,
            draws=draws,
            per_draw=per_draw,
            ties=tie_rule(file.ties),
            tol=file.tol,
            truth_prior=entry.truth_prior,
            true_horizon=entry.true_horizon,
            design=design,
            scenario=scenario,
        )


def _policy(value: object) -> str:
    rule = f"must be one of {', '.join(policy_names())}, or package.module:Class"
    if not isinstance(value, str):
        refuse(rule, found=value)
    try:
        check_policies([value], places=False)
    except ValueError as error:
        refuse(str(error) if ":" in value else rule, found=value)
    return value


def _tie_rule(value: object) -> str:
    if value not in TIE_RULES:
        refuse(f"must be one of {', '.join(TIE_RULES)}", found=value)
    return str(value)


def _path(value: object) -> str:
    good = isinstance(value, str) and value != "" and "\0" not in value
    return str(value) if good else refuse("must be the path of a problem file", found=value)


Size = Annotated[int, whole_number(1, 10**9)]
Seed = Annotated[int, whole_number(0, LARGEST_SEED)]


class _Source(Written):  # type: ignore[explicit-any]  # of pydantic's own
    name: FileName | None = None
    file: Annotated[str, PlainValidator(_path)] | None = None


Tree = dict[str, object]


class _ProblemEntry(EqualArms, _Source):  # type: ignore[explicit-any]
    # keys in the order of messages: name, file, arms, ...
    truth_prior: Prior | None = None
    true_horizon: StageCount | None = None
    design: Tree | None = None  # keys that differ from those of the study

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        equal = EqualArms.model_fields.keys()
        if self.file is not None and self.model_fields_set & equal:
            rule = f"must stand without {', '.join(equal)}: the file has them"
            refuse(rule, found=self.file, at=("file",))
        if self.file is None and not {"arms", "horizon"} <= self.model_fields_set:
            refuse("must have a file, or both arms and horizon", found={})
        return self

    def read(
        self, folder: Path, shared: dict[str, object] | None, place: str
    ) -> tuple[Problem, Design | None]:
        """Return the problem, and its design by the entry, the study or the problem file."""
        if self.file is not None:
            problem, own_design = designed_from_dict(
                read_tree(folder / self.file), source=str(folder / self.file)
            )
        with _refused_at(f"{place}: "):
            if self.file is None:
                problem, own_design = self.problem(), None
            check_problem(problem)
            true_problem(problem, self.truth_prior, self.true_horizon)
        if shared is None:
            return problem, None
        base = own_design.model_dump(exclude_unset=True) if own_design is not None else {}
        with _refused_at(f"{place}: design."):
            design = Design.from_tree({**base, **shared, **(self.design or {})})
        with _refused_at(f"{place}: "):
            design.check(problem)
        for i, policy in enumerate(design.policies):
            with _refused_at(f"{place}: design.policies[{i}]: "):
                _policy(policy)
        if not design.scenarios:
            raise StudyError(f"{place}: design.scenarios: required key is missing")
        return problem, design


class _StudyFile(Written):  # type: ignore[explicit-any]
    name: Name | None = None
    policies: tuple[Annotated[str, PlainValidator(_policy)], ...] = ()
    draws: Size = 1000
    per_draw: Size = 10
    seeds: tuple[Seed, ...] = (1,)
    ties: Annotated[str, PlainValidator(_tie_rule)] = "least-pulled"
    tol: NotNegative = 1e-4
    design: Tree | None = None
    problems: tuple[_ProblemEntry, ...]

    @model_validator(mode="after")
    def _check_lists(self) -> Self:
        for key in ("policies", "seeds", "problems"):
            values = getattr(self, key)
            designed = key == "policies" and self.design is not None
            if not values and (key in self.model_fields_set or not designed):
                refuse("must not be empty", found=values, at=(key,))
        for key in ("policies", "seeds"):
            values = getattr(self, key)
            for i, value in enumerate(values):
                if value in values[:i]:
                    refuse("must not be there twice", found=value, at=(key, i))
        return self

    @model_validator(mode="after")
    def _check_design(self) -> Self:
        """Keys that only simulations have, or only designs."""
        for i, entry in enumerate(self.problems):
            if self.design is None and entry.design is not None:
                rule = "must stand with a table design of the study"
                refuse(rule, found=entry.design, at=("problems", i, "design"))
            for key in ("truth_prior", "true_horizon"):
                value = getattr(entry, key)
                if self.design is not None and value is not None:
                    rule = "must be left out with design: its scenarios say what is true"
                    refuse(rule, found=value, at=("problems", i, key))
        if self.design is not None and "per_draw" in self.model_fields_set:
            rule = "must be left out with design: draws are its trials"
            refuse(rule, found=self.per_draw, at=("per_draw",))
        return self
