"""Observed outcomes from a file or a data frame: one pull per row, or those of several together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..support import (
    InvalidArgument,
    Rows,
    TableError,
    is_count,
    kind_of,
    original,
    read_rows,
)
from .model import Problem
from .model_base import ProblemError
from .models.base import ArmModel, Stats
from .problem_argument import check_problem, refuse_restless
from .state import State

_WITHOUT_OUTCOME = ("open", "cancelled")  # states of allocations in an exported trial
_MOST = 10**12  # of a count
_MOST_SHOWN = 10  # columns that a refusal names
Row = Mapping[str, str | None]
_Given = Callable[[ArmModel], Stats]  # the tally of a row, by the kind of its arm
_Reader = Callable[[Row, str], _Given | None]  # of a row and its place; None: it has no outcome


@dataclass(frozen=True)
class OutcomeColumns:
    """Names of the columns of a table of outcomes.

    `arm` and `outcome`, one pull per row; where there is no `outcome`, `arm` and `seen`, as a trial
    in batches of non-binary outcomes exports it, or `arm`, `good` and `pulls`. Of problems with
    segments, also `segment`.
    """

    arm: str = "arm"
    outcome: str = "outcome"
    good: str = "good"
    pulls: str = "pulls"
    seen: str = "seen"
    segment: str = "segment"


def read_outcomes(
    problem: Problem,
    data: str | Path | Any,
    *,
    arm_column: str = "arm",
    outcome_column: str = "outcome",
    good_column: str = "good",
    pulls_column: str = "pulls",
    segment: str | None = None,
    segment_column: str = "segment",
) -> State:
    """Count the outcomes per arm in a table: one pull per row, or good outcomes and pulls.

    Parameters
    ----------
    problem : Problem
        Problem with the arms that the table names.
    data : str, Path or data frame
        A CSV file with a header, a Parquet file (.parquet), or a frame of pandas, polars or
        pyarrow. Other columns are ignored, except those of an exported trial:
        `state`, because pending and cancelled allocations have no outcome, and `seen` of batches,
        the recorded outcomes of an arm in the form of `Trial.tell`.
    arm_column : str
        Column with the name of the arm.
    outcome_column : str
        Column with the outcome of one pull: good or bad, or 1 or 0; of arms of other kinds the
        number of a class, a number, a count, the name of an outcome.
    good_column, pulls_column : str
        Columns to use if there is no outcome column: good outcomes, and pulls. Several rows of an
        arm add up.
    segment : str, optional
        Of a problem with segments, and needed there: rows of this segment are counted.
    segment_column : str
        Column with the name of the segment.

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
    whole = check_problem(problem, segments=True)
    refuse_restless(whole, "recorded outcomes")
    columns = OutcomeColumns(
        arm_column, outcome_column, good_column, pulls_column, segment=segment_column
    )
    if segment is None and not whole.segments:
        counter = _States(problem, columns)
    else:
        name = segment or ""
        problem = whole.segment(name)  # refuses unknown ones
        counter = _States(problem, columns, (name, [one.name for one in whole.segments]))
    _read(counter, data)
    stats = [tuple(float(x) if x != int(x) else int(x) for x in sums) for sums in counter.found]
    state = State.of_stats(problem, stats)
    return state if isinstance(data, str | Path) else replace(state, frame_kind=kind_of(data))


def read_tallies(problem: Problem, data: str | Path, columns: OutcomeColumns) -> dict[str, str]:
    """Read the outcomes of a table by arm, as `Trial.tell` takes them.

    Outcomes of own states may begin in any of them: what can follow is known of the trial.
    """
    refuse_restless(check_problem(problem), "recorded outcomes")
    counter = _Tallies(problem, columns)
    _read(counter, data)
    rows = zip(problem.arms, counter.kinds, counter.found, strict=True)
    return {
        arm.name: kind.format.write_tally(tally)
        for arm, kind, tally in rows
        if kind.format.tally_pulls(tally)
    }


def _read(counter: _Counter, data: str | Path | Any) -> None:
    try:
        counter.read(read_rows(data))
    except TableError as error:
        raise ProblemError(str(error)) from None


class _Counter(ABC):
    """Counts the rows of one table."""

    def __init__(
        self,
        problem: Problem,
        columns: OutcomeColumns,
        segment: tuple[str, Sequence[str]] | None = None,
    ) -> None:
        """`segment`: the one whose rows count, and the names of all; None where there are none."""
        self._problem, self._columns, self._escaped = problem, columns, False
        self._segment = segment
        self._position = {arm.name: i for i, arm in enumerate(problem.arms)}
        self.kinds = [problem.groups[k].model for k in problem.group_of_arm]
        self.found = [self.first(kind) for kind in self.kinds]  # of every arm
        self._tallies: dict[tuple[int, str], Stats] = {}  # of single outcomes, by kind

    @abstractmethod
    def first(self, kind: ArmModel) -> Stats:
        """Return the tally of an arm without outcomes."""

    @abstractmethod
    def after(self, kind: ArmModel, stats: Stats, tally: Stats) -> Stats:
        """After more outcomes; a ValueError where they cannot follow."""

    def read(self, rows: Rows) -> None:
        """Add up all rows."""
        self._escaped = rows.escaped
        tally = self._reader(rows.names, rows.source)
        for where, row in rows.each:
            if not self._counts(row, where):
                continue
            counts = tally(row, where)
            if counts is None:
                continue
            arm = self._arm(row, where)
            try:
                more = counts(self.kinds[arm])
                self.found[arm] = self.after(self.kinds[arm], self.found[arm], more)
            except ValueError as error:
                raise ProblemError(f"{where}: {error}") from None

    def _counts(self, row: Row, where: str) -> bool:
        """Whether a row is of the segment."""
        if self._segment is None:
            return True
        segment, names = self._segment
        name = _cell(row, self._columns.segment)
        if self._escaped and original(name) in names:
            name = original(name)
        if name not in names:
            raise ProblemError(
                f"{where}: no segment is called {name!r}; segments: {', '.join(names)}"
            )
        return name == segment

    def _reader(self, header: Collection[str], source: str) -> _Reader:
        """How rows are read, by the columns that are there."""
        wanted, names = self._columns, set(header)
        if self._segment is not None and wanted.segment not in names:
            raise ProblemError(f"{source}: no column {wanted.segment!r}; the problem has segments")
        if wanted.arm in names and wanted.outcome in names:
            return self._by_outcome
        if {wanted.arm, wanted.seen} <= names:
            return self._by_tally
        if {wanted.arm, wanted.good, wanted.pulls} <= names:
            return self._by_counts
        counted = {wanted.good, wanted.pulls} <= names or wanted.outcome in names
        missing = wanted.arm if counted or wanted.arm not in names else wanted.outcome
        there = ", ".join(map(repr, list(header)[:_MOST_SHOWN])) or "none"
        raise ProblemError(
            f"{source}: no column {missing!r}; needs {wanted.arm} and {wanted.outcome}, or "
            f"{wanted.arm}, {wanted.good} and {wanted.pulls}; there are {there}"
        )

    def _by_outcome(self, row: Row, where: str) -> _Given | None:
        outcome = _cell(row, self._columns.outcome)
        if not outcome and row.get("state") in _WITHOUT_OUTCOME:
            return None
        return partial(self._one, outcome)

    def _one(self, outcome: str, kind: ArmModel) -> Stats:
        """Return the tally of one outcome; few models have many different ones."""
        key = (id(kind), outcome)
        if key not in self._tallies:
            self._tallies[key] = kind.format.tally([kind.format.typed(outcome)])
        return self._tallies[key]

    def _by_tally(self, row: Row, where: str) -> _Given | None:
        text = _cell(row, self._columns.seen)
        unescaped = original(text) if self._escaped else text
        return (lambda kind: kind.format.read_tally(unescaped)) if unescaped else None

    def _by_counts(self, row: Row, where: str) -> _Given:
        wanted = self._columns
        good, pulls = (_count(row, name, where) for name in (wanted.good, wanted.pulls))
        if good > pulls:
            raise ProblemError(
                f"{where}: {wanted.good} {good}; must be at most {wanted.pulls}, {pulls}"
            )
        return partial(_counted, good, pulls)

    def _arm(self, row: Row, where: str) -> int:
        """Return the arm that a row names, also one escaped against spreadsheet formulas."""
        name = _cell(row, self._columns.arm)
        if self._escaped and original(name) in self._position:
            name = original(name)
        if name not in self._position:
            raise ProblemError(f"{where}: no arm is called {name!r}; {_names(self._problem)}")
        return self._position[name]


class _States(_Counter):
    """Statistics of every arm, from fresh ones on."""

    def first(self, kind: ArmModel) -> Stats:
        return kind.initial()

    def after(self, kind: ArmModel, stats: Stats, tally: Stats) -> Stats:
        return kind.format.after_tally(stats, tally)


class _Tallies(_Counter):
    """Tallies of every arm."""

    def first(self, kind: ArmModel) -> Stats:
        return kind.format.no_tally

    def after(self, kind: ArmModel, stats: Stats, tally: Stats) -> Stats:
        return kind.format.joined(stats, tally)


def _counted(good: int, pulls: int, kind: ArmModel) -> Stats:
    if not kind.counts_good:
        raise InvalidArgument("counts of good outcomes; the arm has others")
    return (good, pulls - good)


def _cell(row: Row, column: str) -> str:
    return (row[column] or "").strip()


def _count(row: Row, column: str, where: str) -> int:
    cell = _cell(row, column)
    if not is_count(cell) or int(cell) > _MOST:
        raise ProblemError(f"{where}: {column} {cell!r}; must be a whole number, zero or more")
    return int(cell)


def _names(problem: Problem) -> str:
    names = [arm.name for arm in problem.arms[:8]]
    return "arms: " + ", ".join(names) + (", ..." if problem.n_arms > len(names) else "")
