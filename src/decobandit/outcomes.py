"""Observed outcomes from a CSV file, one pull per row: columns `arm` and `outcome`."""

from __future__ import annotations

import csv
from pathlib import Path

from .problem import Problem
from .problem_files import ProblemError
from .state import State

_GOOD = {"good": True, "1": True, "bad": False, "0": False}


def read_outcomes(path: str | Path, problem: Problem) -> State:
    """Count the outcomes per arm. An outcome is good or bad, or 1 or 0."""
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
                name, outcome = (row["arm"] or "").strip(), (row["outcome"] or "").strip().lower()
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


def _names(problem: Problem) -> str:
    names = [arm.name for arm in problem.arms[:8]]
    return "arms: " + ", ".join(names) + (", ..." if problem.number_of_arms > len(names) else "")
