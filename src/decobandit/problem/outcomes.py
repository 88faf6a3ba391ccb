"""Observed outcomes from a CSV file, one pull per row: columns `arm` and `outcome`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from ..support import original, warn_deprecated
from .model import Problem
from .model_base import ProblemError
from .problem_argument import check_problem
from .state import State

_WITHOUT_OUTCOME = ("open", "cancelled")  # states of allocations in an exported trial
_GOOD = {"good": True, "1": True, "bad": False, "0": False}


def read_outcomes(problem: Problem, path: str | Path) -> State:
    """Count the outcomes per arm in a CSV file, one pull per row.

    Parameters
    ----------
    problem : Problem
        Whose arms the file names.
    path : str or Path
        Columns `arm`, the name, and `outcome`: good or bad, or 1 or 0. Others are ignored, but for
        the `state` of an exported trial: open and cancelled allocations have no outcome.

    Returns
    -------
    State

    Raises
    ------
    ProblemError
        If the file cannot be read, or a line names no arm or no outcome; with the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from decobandit import Problem, read_outcomes
    >>> with TemporaryDirectory() as folder:
    ...     with open(Path(folder) / "pilot.csv", "w") as file:
    ...         print("arm,outcome", "arm-1,good", "arm-2,bad", sep="\\n", file=file)
    ...     str(read_outcomes(Problem.uniform(arms=3, horizon=20), Path(folder) / "pilot.csv"))
    '1/1,0/1,0/0'
    """
    if isinstance(path, Problem):
        warn_deprecated("read_outcomes(path, problem)", "read_outcomes(problem, path)")
        problem, path = path, problem
    check_problem(problem)
    source = str(path)
    position = {arm.name: i for i, arm in enumerate(problem.arms)}
    good, bad = [0] * problem.number_of_arms, [0] * problem.number_of_arms
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            for column in ("arm", "outcome"):
                if column not in (rows.fieldnames or ()):
                    raise ProblemError(f"{source}: no column {column!r}; needs arm and outcome")
            for row in rows:
                where = f"{source}: line {rows.line_num}"
                outcome = (row["outcome"] or "").strip().lower()
                if not outcome and row.get("state") in _WITHOUT_OUTCOME:
                    continue
                name = _arm((row["arm"] or "").strip(), position)
                if name not in position:
                    raise ProblemError(f"{where}: no arm is called {name!r}; {_names(problem)}")
                if outcome not in _GOOD:
                    raise ProblemError(f"{where}: outcome {outcome!r}; must be good, bad, 1 or 0")
                (good if _GOOD[outcome] else bad)[position[name]] += 1
    except FileNotFoundError:
        raise ProblemError(f"{source}: no such file") from None
    except UnicodeDecodeError as error:
        raise ProblemError(f"{source}: not UTF-8 text at byte {error.start}") from None
    except (OSError, csv.Error) as error:
        raise ProblemError(f"{source}: cannot be read: {error}") from None
    return State(tuple(good), tuple(bad))


def _arm(cell: str, position: Mapping[str, int]) -> str:
    """The arm that a cell names, also one that was kept from being a formula."""
    name = original(cell)
    return name if name in position else cell


def _names(problem: Problem) -> str:
    names = [arm.name for arm in problem.arms[:8]]
    return "arms: " + ", ".join(names) + (", ..." if problem.number_of_arms > len(names) else "")
