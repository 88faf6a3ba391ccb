"""Solution files: a problem, its multipliers and what was certified about them, as JSON.

The tie rule of a policy is kept with them. Tables are recomputed on load, so the file is small, can
be read by a person, and decides exactly as the policy it was written for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from .._version import __version__
from ..problem import DEFAULT_TIES, ProblemError, TieRule, read_tree
from ..support import dotted, one_line, shown, write_whole
from .solution import DualSolution, Finite, SolutionRecord

FORMAT = "decobandit-solution-1"


class _Head(BaseModel):
    format: Literal["decobandit-solution-1"]
    version: str


# the last base is checked first: that a file is of another kind is said before what it lacks
class _SolutionFile(SolutionRecord, _Head):
    """A record, with a head and the tie rule; a file has to tell what the search took."""

    oracle_calls: Annotated[int, Field(ge=0)]
    seconds: Annotated[Finite, Field(ge=0)]
    interrupted: bool
    ties: TieRule = DEFAULT_TIES


def save_solution(
    solution: DualSolution, path: str | Path, *, ties: TieRule = DEFAULT_TIES
) -> None:
    """Write a solution to a JSON file; the file appears whole or not at all.

    Parameters
    ----------
    solution : DualSolution
        What is written: problem, prices and bounds.
    path : str or Path
        The name ends in .json.
    ties : TieRule
        How a policy made from the file breaks ties.

    Raises
    ------
    ProblemError
        If the name ends otherwise.

    Examples
    --------
    >>> from decobandit import Problem, load_solution, save_solution, solve
    >>> solution = solve(Problem.uniform(arms=3, horizon=10))
    >>> save_solution(solution, "solution.json")
    >>> load_solution("solution.json").upper_bound == solution.upper_bound
    True
    """
    if not isinstance(solution, DualSolution):
        raise TypeError(f"solution: {shown(solution)} is not a decobandit.DualSolution")
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise ProblemError(f"{path}: solutions are JSON; the name must be .json at its end")
    head = {"format": FORMAT, "version": __version__}
    tree = {**head, **SolutionRecord.of(solution).to_dict(), "ties": ties}
    write_whole(target, json.dumps(tree, indent=1, allow_nan=False) + "\n")


def load_solution(path: str | Path) -> DualSolution:
    """Read a solution written by `save_solution`.

    Parameters
    ----------
    path : str or Path
        The JSON file.

    Returns
    -------
    DualSolution
        Without its history.

    Raises
    ------
    ProblemError
        If the file cannot be read or is not a solution; with its name and the key.

    Examples
    --------
    >>> from decobandit import Problem, load_solution, save_solution, solve
    >>> save_solution(solve(Problem.uniform(arms=3, horizon=10)), "a.json")
    >>> load_solution("a.json").problem.horizon
    10
    """
    return read_solution(path)[0]


def is_solution(tree: object) -> bool:
    """Whether parsed JSON claims to be a solution file (as against a problem file)."""
    return isinstance(tree, dict) and "multipliers" in tree


def read_solution(path: str | Path) -> tuple[DualSolution, TieRule]:
    """A solution, and the tie rule that stands in its file."""
    source = str(path)
    try:
        file = _SolutionFile.model_validate(read_tree(path))
    except ValidationError as error:
        # that it is another kind of file comes before what such a file would have to hold
        errors = sorted(error.errors(include_url=False), key=lambda one: one["loc"] != ("format",))
        said = one_line(errors, _SolutionFile, where=dotted)
        raise ProblemError(f"{source}: {said}") from None
    solution = file.solution(source)
    if file.lower_bound is not None and file.lower_bound > file.upper_bound:
        raise ProblemError(f"{source}: lower_bound: must not exceed upper_bound")
    return solution, file.ties
