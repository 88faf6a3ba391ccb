"""Observed outcomes from a file or a data frame: one pull per row, or those of several together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..support import TableError, is_count, kind_of, original, read_rows
from .fields import ProblemError
from .model import Problem, check_problem, refuse_features
from .models.base import Stats
from .states import State

_WITHOUT_OUTCOME = ("open", "cancelled")  # states of allocations in an exported trial
_MOST = 10**12  # of a count
_MOST_SHOWN = 10  # columns that a refusal names
_MOST_NAMES = 8  # arms or segments that a refusal names
Row = Mapping[str, str | None]


@dataclass(frozen=True)
class OutcomeColumns:
    """Names of the columns of a table of outcomes.

    `arm` and `outcome`, one pull per row; without `outcome`, `arm` and `seen`, as trials in batches
    are exported, or `arm`, `good` and `pulls`. Of problems with segments, also `segment`.
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
        Column with the outcome of one pull: good or bad, or 1 or 0; for non-binary
        arms the number of a class, a number, a count, or the name of an outcome.
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
    names = [one.name for one in whole.segments]
    totals = _totals(problem, data, columns, segment=segment, segments=names)
    stats = [tuple(float(x) if x != int(x) else int(x) for x in sums) for sums in totals]
    state = State.of_stats(problem, stats)
    return state if isinstance(data, str | Path) else replace(state, frame_kind=kind_of(data))


def read_tallies(problem: Problem, data: str | Path, columns: OutcomeColumns) -> dict[str, str]:
    """Read the outcomes of a table by arm, as `Trial.tell` takes them.

    Outcomes of own states may begin in any of them: what can follow is known of the trial.
    """
    refuse_features(check_problem(problem), "recorded outcomes", "is_restless")
    rows = zip(problem.arms, problem.arm_groups, _totals(problem, data, columns), strict=True)
    return {
        arm.name: group.model.format.write_tally(tally)
        for arm, group, tally in rows
        if group.model.format.tally_pulls(tally)
    }


def _totals(
    problem: Problem,
    data: str | Path | Any,
    columns: OutcomeColumns,
    *,
    segment: str | None = None,
    segments: Collection[str] | None = None,
) -> list[Stats]:
    """Add up the rows of a table by arm: tallies, or given `segments` statistics.

    Tallies need not begin in the first state of an arm. Rows of `segment` count, if there are any.
    """
    formats = [group.model.format for group in problem.arm_groups]
    position = {arm.name: i for i, arm in enumerate(problem.arms)}
    tallies = segments is None
    totals = [one.no_tally if tallies else one.model.initial() for one in formats]

    @cache  # few arms have many different outcomes
    def single(arm: int, outcome: str) -> Stats:
        return formats[arm].tally([formats[arm].typed(outcome)])

    try:
        rows = read_rows(data)
        form = _form(columns, rows.names, rows.source, segmented=bool(segments))
        for where, row in rows.each:
            if segments and segment != _name(row, columns, "segment", segments, where):
                continue
            text = _cell(row, columns.outcome if form == "outcome" else columns.seen)
            if form == "outcome" and not text and row.get("state") in _WITHOUT_OUTCOME:
                continue
            if form == "seen" and not text:
                continue
            counts = _counts(row, columns, where) if form == "counts" else ()
            arm = position[_name(row, columns, "arm", position, where, escaped=rows.escaped)]
            written = formats[arm]
            try:
                if form == "outcome":
                    tally = single(arm, text)
                elif form == "seen":
                    tally = written.read_tally(original(text) if rows.escaped else text)
                elif written.model.counts_good:
                    tally = counts
                else:
                    raise ProblemError("counts of good outcomes; the arm has others")
                join = written.joined if tallies else written.after_tally
                totals[arm] = join(totals[arm], tally)
            except ValueError as error:
                raise ProblemError(f"{where}: {error}") from None
    except TableError as error:
        raise ProblemError(str(error)) from None
    return totals


def _form(
    columns: OutcomeColumns, header: Collection[str], source: str, *, segmented: bool
) -> Literal["outcome", "seen", "counts"]:
    """Return how rows are read, by the columns that are there."""
    names, arm = set(header), columns.arm
    if segmented and columns.segment not in names:
        raise ProblemError(f"{source}: no column {columns.segment!r}; the problem has segments")
    if {arm, columns.outcome} <= names:
        return "outcome"
    if {arm, columns.seen} <= names:
        return "seen"
    if {arm, columns.good, columns.pulls} <= names:
        return "counts"
    counted = {columns.good, columns.pulls} <= names or columns.outcome in names
    missing = arm if counted or arm not in names else columns.outcome
    there = ", ".join(map(repr, list(header)[:_MOST_SHOWN])) or "none"
    raise ProblemError(
        f"{source}: no column {missing!r}; needs {arm} and {columns.outcome}, or "
        f"{arm}, {columns.good} and {columns.pulls}; there are {there}"
    )


def _name(
    row: Row,
    columns: OutcomeColumns,
    what: Literal["arm", "segment"],
    names: Collection[str],
    where: str,
    *,
    escaped: bool = False,
) -> str:
    """Return the arm or segment of a row, also one escaped against spreadsheet formulas."""
    name = _cell(row, getattr(columns, what))
    if escaped and original(name) in names:
        name = original(name)
    if name not in names:
        listed = ", ".join(list(names)[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)
        raise ProblemError(f"{where}: no {what} is called {name!r}; {what}s: {listed}")
    return name


def _counts(row: Row, columns: OutcomeColumns, where: str) -> Stats:
    """Return good and bad outcomes of a row that has good outcomes and pulls."""
    numbers = []
    for column in (columns.good, columns.pulls):
        cell = _cell(row, column)
        if not is_count(cell) or int(cell) > _MOST:
            raise ProblemError(f"{where}: {column} {cell!r}; must be a whole number, zero or more")
        numbers.append(int(cell))
    good, pulls = numbers
    if good > pulls:
        rule = f"must be at most {columns.pulls}, {pulls}"
        raise ProblemError(f"{where}: {columns.good} {good}; {rule}")
    return (good, pulls - good)


def _cell(row: Row, column: str) -> str:
    return (row.get(column) or "").strip()
