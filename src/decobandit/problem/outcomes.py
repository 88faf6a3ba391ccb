"""Observed outcomes from a CSV file: one pull per row, or counts of good outcomes and pulls."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support import original, warn_deprecated
from .kinds.base import Kind, Stats
from .kinds.counted import Binary
from .model import Problem
from .model_base import ProblemError
from .problem_argument import check_problem
from .state import State

_WITHOUT_OUTCOME = ("open", "cancelled")  # states of allocations in an exported trial
_MOST = 10**12  # of a count


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a file of outcomes.

    `arm` and `outcome`, one pull per row; where there is no `outcome`, `arm`, `good` and `pulls`.
    """

    arm: str = "arm"
    outcome: str = "outcome"
    good: str = "good"
    pulls: str = "pulls"


def read_outcomes(
    problem: Problem,
    path: str | Path,
    *,
    arm_column: str = "arm",
    outcome_column: str = "outcome",
    good_column: str = "good",
    pulls_column: str = "pulls",
) -> State:
    """Count the outcomes per arm in a CSV file: one pull per row, or good outcomes and pulls.

    Parameters
    ----------
    problem : Problem
        Whose arms the file names.
    path : str or Path
        Has a header. Columns that are not asked for are ignored, but for the `state` of an exported
        trial: open and cancelled allocations have no outcome.
    arm_column : str
        Column with the name of the arm.
    outcome_column : str
        Column with the outcome of one pull: good or bad, or 1 or 0; of arms of other kinds the
        number of a class, a number, a count, the name of an outcome.
    good_column, pulls_column : str
        Where there is no column of outcomes: good outcomes, and outcomes in all. Several rows of an
        arm add up.

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
    columns = Columns(arm_column, outcome_column, good_column, pulls_column)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return _Counter(problem, source, columns).read(csv.DictReader(file))
    except FileNotFoundError:
        raise ProblemError(f"{source}: no such file") from None
    except UnicodeDecodeError as error:
        raise ProblemError(f"{source}: not UTF-8 text at byte {error.start}") from None
    except (OSError, csv.Error) as error:
        raise ProblemError(f"{source}: cannot be read: {error}") from None


class _Counter:
    """Counts the rows of one file."""

    def __init__(self, problem: Problem, source: str, columns: Columns) -> None:
        self._problem, self._source, self._columns = problem, source, columns
        self._position = {arm.name: i for i, arm in enumerate(problem.arms)}
        self._kinds = [problem.groups[k].kind for k in problem.group_of_arm]
        self._stats = [kind.fresh() for kind in self._kinds]

    def read(self, rows: csv.DictReader[str]) -> State:
        """The state that the rows add up to."""
        add = self._by_counts if self._has_counts(rows.fieldnames or ()) else self._by_outcome
        for row in rows:
            add(row, f"{self._source}: line {rows.line_num}")
        return State.of_stats(self._problem, self._stats)

    def _has_counts(self, header: Collection[str]) -> bool:
        wanted = self._columns
        counts = wanted.outcome not in header and {wanted.good, wanted.pulls} <= set(header)
        for column in (wanted.arm,) if counts else (wanted.arm, wanted.outcome):
            if column not in header:
                raise ProblemError(
                    f"{self._source}: no column {column!r}; needs {wanted.arm} and "
                    f"{wanted.outcome}, or {wanted.arm}, {wanted.good} and {wanted.pulls}"
                )
        return counts

    def _by_outcome(self, row: Mapping[str, str | None], where: str) -> None:
        outcome = _cell(row, self._columns.outcome)
        if not outcome and row.get("state") in _WITHOUT_OUTCOME:
            return
        arm = self._arm(row, where)
        try:
            self._stats[arm] = _after(self._kinds[arm], self._stats[arm], outcome)
        except ValueError as error:
            raise ProblemError(f"{where}: {error}") from None

    def _by_counts(self, row: Mapping[str, str | None], where: str) -> None:
        arm, wanted = self._arm(row, where), self._columns
        good, pulls = (_count(row, name, where) for name in (wanted.good, wanted.pulls))
        if good > pulls:
            raise ProblemError(
                f"{where}: {wanted.good} {good}; must be at most {wanted.pulls}, {pulls}"
            )
        if not isinstance(self._kinds[arm], Binary):
            raise ProblemError(f"{where}: counts of good outcomes; the arm has others")
        before = self._stats[arm]
        self._stats[arm] = (before[0] + good, before[1] + pulls - good)

    def _arm(self, row: Mapping[str, str | None], where: str) -> int:
        """The arm that a row names, also one that was kept from being a formula."""
        cell = _cell(row, self._columns.arm)
        name = original(cell) if original(cell) in self._position else cell
        if name not in self._position:
            raise ProblemError(f"{where}: no arm is called {name!r}; {_names(self._problem)}")
        return self._position[name]


def _after(kind: Kind, stats: Stats, outcome: str) -> Stats:
    """Statistics after an outcome as it is written."""
    found = np.array(kind.read_outcome(outcome, stats))
    after = kind.after(np.array(stats, dtype=float), found)
    return tuple(float(x) if x != int(x) else int(x) for x in after.tolist())


def _cell(row: Mapping[str, str | None], column: str) -> str:
    return (row[column] or "").strip()


def _count(row: Mapping[str, str | None], column: str, where: str) -> int:
    cell = _cell(row, column)
    if not (cell.isascii() and cell.isdecimal()) or int(cell) > _MOST:
        raise ProblemError(f"{where}: {column} {cell!r}; must be a whole number, zero or more")
    return int(cell)


def _names(problem: Problem) -> str:
    names = [arm.name for arm in problem.arms[:8]]
    return "arms: " + ", ".join(names) + (", ..." if problem.number_of_arms > len(names) else "")
