"""Tables of a trial, as columns: what its CSV file has, its arms, its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..support import Columns, Tables, Tabular, columns_of
from .events import Event, canonical
from .export import outcome_rows

WORDS = frozenset(
    (
        "told_at", "subject", "note", "changed_by", "changed_at", "change_reason", "seen",
        "posterior", "key",
    )
)  # columns that may have nothing in them, and are text  # fmt: skip


def trial_tables(
    events: Callable[[], Iterable[Event]],
    arms: Callable[[], Iterable[Mapping[str, Any]]],
) -> Tables:
    """The tables of a trial by their names, from its log and from the arms of its status."""
    return {
        "allocations": lambda: outcome_columns(events()),
        "arms": lambda: arm_columns(arms()),
        "events": lambda: event_columns(events()),
    }


class TrialTables(Tabular):
    """The tables of a trial that was read whole: its log, and the arms of its status."""

    def __init__(self, events: Sequence[Event], arms: Sequence[Mapping[str, Any]]) -> None:
        self._events, self._arms = events, arms

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return trial_tables(lambda: self._events, lambda: self._arms)


def outcome_columns(events: Iterable[Event]) -> Columns:
    """One row per arm of every allocation; None where the file has nothing."""
    rows, names = outcome_rows(events)
    return columns_of(
        ({name: None if row[name] == "" else row[name] for name in names} for row in rows),
        names,
        words=WORDS,
    )


def arm_columns(arms: Iterable[Mapping[str, Any]]) -> Columns:
    """One row per arm."""
    columns = columns_of(arms, words=WORDS)
    return {"arm": columns.pop("name"), **columns}


def event_columns(events: Iterable[Event]) -> Columns:
    """One row per event; what was recorded is JSON text."""
    return columns_of(
        (event.to_dict() | {"data": canonical(event.data)} for event in events), words=WORDS
    )
