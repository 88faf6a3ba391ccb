"""Observed outcomes from a file or a data frame: one pull per row, or good outcomes and pulls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support import (
    Rows,
    TableError,
    former_spellings,
    kind_of,
    original,
    read_rows,
    warn_deprecated,
)
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
    """Names of the columns of a table of outcomes.

    `arm` and `outcome`, one pull per row; where there is no `outcome`, `arm`, `good` and `pulls`.
    """

    arm: str = "arm"
    outcome: str = "outcome"
    good: str = "good"
    pulls: str = "pulls"


@former_spellings(path="data")
def read_outcomes(
    problem: Problem,
    data: str | Path | Any,
    *,
    arm_column: str = "arm",
    outcome_column: str = "outcome",
    good_column: str = "good",
    pulls_column: str = "pulls",
) -> State:
    """Count the outcomes per arm in a table: one pull per row, or good outcomes and pulls.

    Parameters
    ----------
    problem : Problem
        Whose arms the table names.
    data : str, Path or data frame
        A CSV file with a header, a Parquet file (.parquet), or a frame of pandas, polars or
        pyarrow. Columns that are not asked for are ignored, but for the `state` of an exported
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
        If the file cannot be read, or a row names no arm or no outcome; with the row.
    TypeError
        If `data` is neither a file nor a data frame.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from decobandit import Problem, read_outcomes
    >>> problem = Problem.uniform(arms=3, horizon=20)
    >>> pilot = pa.table({"arm": ["arm-1", "arm-2"], "outcome": ["good", "bad"]})
    >>> str(read_outcomes(problem, pilot))
    '1/1,0/1,0/0'
    >>> pilot = pa.table({"variant": ["arm-1", "arm-2"], "sold": [3, 1], "shown": [5, 4]})
    >>> str(read_outcomes(problem, pilot, arm_column="variant", good_column="sold",
    ...                   pulls_column="shown"))
    '3/5,1/4,0/0'
    """
    if isinstance(data, Problem):
        warn_deprecated("read_outcomes(path, problem)", "read_outcomes(problem, path)")
        problem, data = data, problem
    check_problem(problem)
    columns = Columns(arm_column, outcome_column, good_column, pulls_column)
    try:
        state = _Counter(problem, columns).read(read_rows(data))
    except TableError as error:
        raise ProblemError(str(error)) from None
    return state if isinstance(data, str | Path) else replace(state, frame_kind=kind_of(data))


class _Counter:
    """Counts the rows of one table."""

    def __init__(self, problem: Problem, columns: Columns) -> None:
        self._problem, self._columns, self._escaped = problem, columns, False
        self._position = {arm.name: i for i, arm in enumerate(problem.arms)}
        self._kinds = [problem.groups[k].kind for k in problem.group_of_arm]
        self._stats = [kind.fresh() for kind in self._kinds]

    def read(self, rows: Rows) -> State:
        """The state that the rows add up to."""
        self._escaped = rows.escaped
        counts = self._has_counts(rows.names, rows.source)
        add = self._by_counts if counts else self._by_outcome
        for where, row in rows.each:
            add(row, where)
        return State.of_stats(self._problem, self._stats)

    def _has_counts(self, header: Collection[str], source: str) -> bool:
        wanted = self._columns
        counts = wanted.outcome not in header and {wanted.good, wanted.pulls} <= set(header)
        for column in (wanted.arm,) if counts else (wanted.arm, wanted.outcome):
            if column not in header:
                raise ProblemError(
                    f"{source}: no column {column!r}; needs {wanted.arm} and "
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
        name = _cell(row, self._columns.arm)
        if self._escaped and original(name) in self._position:
            name = original(name)
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
