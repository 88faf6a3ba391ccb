"""Tables of a trial, as columns: what its CSV file has, its arms, its log."""

from __future__ import annotations

from collections.abc import Iterable

from ..support import Columns, columns_of
from .events import Event, canonical
from .export import outcome_rows
from .status import Status

WORDS = frozenset(
    (
        "told_at", "subject", "note", "changed_by", "changed_at", "change_reason", "seen",
        "posterior", "key",
    )
)  # columns that may have nothing in them, and are text  # fmt: skip


def outcome_columns(events: Iterable[Event]) -> Columns:
    """One row per allocation, or per arm of a batch; None where the file has nothing."""
    rows, names = outcome_rows(events)
    return columns_of(
        ({name: None if row[name] == "" else row[name] for name in names} for row in rows),
        names,
        words=WORDS,
    )


def arm_columns(status: Status) -> Columns:
    """One row per arm."""
    columns = columns_of(map(vars, status.arms), words=WORDS)
    return {"arm": columns.pop("name"), **columns}


def event_columns(events: Iterable[Event]) -> Columns:
    """One row per event; what was recorded is JSON text."""
    return columns_of(
        (event.to_dict() | {"data": canonical(event.data)} for event in events), words=WORDS
    )
