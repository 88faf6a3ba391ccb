"""Observed outcomes from a file or a data frame: one pull per row, or those of several together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..support import (
    InvalidArgument,
    TableError,
    is_count,
    kind_of,
    original,
    read_rows,
)
from .fields import ProblemError
from .model import Problem, check_problem, refuse_features
from .models.base import ArmModel, Stats
from .states import State

_WITHOUT_OUTCOME = ("open", "cancelled")  # states of allocations in an exported trial
_MOST = 10**12  # of a count
_MOST_SHOWN = 10  # columns that a refusal names
_MOST_NAMES = 8  # arms or segments that a refusal names
Row = Mapping[str, str | None]
_Given = Callable[[ArmModel], Stats]  # the tally of a row, by the model of its arm
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
    refuse_features(whole, "recorded outcomes", "is_restless")
    columns = OutcomeColumns(
        arm_column, outcome_column, good_column, pulls_column, segment=segment_column
    )
    if segment is not None or whole.segments:
        problem = whole.segment(segment or "")  # refuses unknown ones
    counter = _Counter(problem, columns, segment, [one.name for one in whole.segments])
    counter.read(data)
    stats = [tuple(float(x) if x != int(x) else int(x) for x in sums) for sums in counter.totals]
    state = State.of_stats(problem, stats)
    return state if isinstance(data, str | Path) else replace(state, frame_kind=kind_of(data))


def read_tallies(problem: Problem, data: str | Path, columns: OutcomeColumns) -> dict[str, str]:
    """Read the outcomes of a table by arm, as `Trial.tell` takes them.

    Outcomes of own states may begin in any of them: what can follow is known of the trial.
    """
    refuse_features(check_problem(problem), "recorded outcomes", "is_restless")
    counter = _Counter(problem, columns, tallies=True)
    counter.read(data)
    rows = zip(problem.arms, counter.models, counter.totals, strict=True)
    return {
        arm.name: model.format.write_tally(tally)
        for arm, model, tally in rows
        if model.format.tally_pulls(tally)
    }


class _Counter:
    """Adds up the rows of one table, by arm.

    segment: the one whose rows count, of all `segments`. tallies: totals are tallies, which need
    not begin in the first state of an arm; else statistics from that state on.
    """

    def __init__(
        self,
        problem: Problem,
        columns: OutcomeColumns,
        segment: str | None = None,
        segments: Sequence[str] = (),
        *,
        tallies: bool = False,
    ) -> None:
        self._columns, self._tallies, self._escaped = columns, tallies, False
        self._segment, self._segments = segment, segments
        self._position = {arm.name: i for i, arm in enumerate(problem.arms)}
        self.models = [group.model for group in problem.arm_groups]
        self.totals = [
            model.format.no_tally if tallies else model.initial() for model in self.models
        ]
        self._single: dict[tuple[int, str], Stats] = {}  # tallies of single outcomes, by model

    def read(self, data: str | Path | Any) -> None:
        """Add up all rows of a file or data frame."""
        try:
            rows = read_rows(data)
            self._escaped = rows.escaped
            tally_of = self._reader(rows.names, rows.source)
            for where, row in rows.each:
                self._add(row, where, tally_of)
        except TableError as error:
            raise ProblemError(str(error)) from None

    def _add(self, row: Row, where: str, tally_of: _Reader) -> None:
        wanted = self._segment
        if self._segments and wanted != self._name(row, where, "segment", self._segments):
            return
        counts = tally_of(row, where)
        if counts is None:
            return
        arm = self._position[self._name(row, where, "arm", self._position)]
        written = self.models[arm].format
        join = written.joined if self._tallies else written.after_tally
        try:
            self.totals[arm] = join(self.totals[arm], counts(self.models[arm]))
        except ValueError as error:
            raise ProblemError(f"{where}: {error}") from None

    def _name(self, row: Row, where: str, what: str, names: Collection[str]) -> str:
        """Return the arm or segment of a row, also one escaped against spreadsheet formulas."""
        name = _cell(row, getattr(self._columns, what))
        if self._escaped and original(name) in names:
            name = original(name)
        if name not in names:
            listed = ", ".join(list(names)[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)
            raise ProblemError(f"{where}: no {what} is called {name!r}; {what}s: {listed}")
        return name

    def _reader(self, header: Collection[str], source: str) -> _Reader:
        """How rows are read, by the columns that are there."""
        wanted, names = self._columns, set(header)
        if self._segments and wanted.segment not in names:
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

    def _one(self, outcome: str, model: ArmModel) -> Stats:
        """Return the tally of one outcome; few models have many different ones."""
        key = (id(model), outcome)
        if key not in self._single:
            self._single[key] = model.format.tally([model.format.typed(outcome)])
        return self._single[key]

    def _by_tally(self, row: Row, where: str) -> _Given | None:
        text = _cell(row, self._columns.seen)
        unescaped = original(text) if self._escaped else text
        return (lambda model: model.format.read_tally(unescaped)) if unescaped else None

    def _by_counts(self, row: Row, where: str) -> _Given:
        wanted = self._columns
        good, pulls = (_count(row, name, where) for name in (wanted.good, wanted.pulls))
        if good > pulls:
            raise ProblemError(
                f"{where}: {wanted.good} {good}; must be at most {wanted.pulls}, {pulls}"
            )
        return partial(_counted, good, pulls)


def _counted(good: int, pulls: int, model: ArmModel) -> Stats:
    if not model.counts_good:
        raise InvalidArgument("counts of good outcomes; the arm has others")
    return (good, pulls - good)


def _cell(row: Row, column: str) -> str:
    return (row[column] or "").strip()


def _count(row: Row, column: str, where: str) -> int:
    cell = _cell(row, column)
    if not is_count(cell) or int(cell) > _MOST:
        raise ProblemError(f"{where}: {column} {cell!r}; must be a whole number, zero or more")
    return int(cell)
