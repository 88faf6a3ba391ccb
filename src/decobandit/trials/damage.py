"""Damage that was found is remembered, by every process that shares the database.

Whoever finds that a trial was changed writes so beside its head. From then on nobody decides or
records anything in that trial, until a check of all its events finds them as they were written.
The mark stands in the row that a writer locks, so a request under way sees it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, bindparam, update

from . import schema
from .database import Store
from .errors import Damaged, StoreError, Unreadable

MAX_PROBLEM = 500  # characters of a problem that are kept

_trials = schema.trials.c
_MARK = (
    update(schema.trials)
    .where((_trials.id == bindparam("trial")) & _trials.damage.is_(None))
    .values(damage=bindparam("found"))
)
_CLEAR = (
    update(schema.trials)
    .where((_trials.id == bindparam("trial")) & (_trials.damage == bindparam("found")))
    .values(damage=None)
)


class Remembered(Damaged):
    """Damage that is on record already."""


class DamageRecord:
    """What was found in the trials of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # by trial: what could not be written, because the disk is full or the file is protected
        self._unwritten: dict[str, str] = {}

    def refuse(self, row: Row[Any]) -> None:
        """`Damaged` if something is on record against the trial of this row."""
        found = row.damage or self._unwritten.get(row.id)
        if found:
            raise Remembered(
                f"trial {row.id}: is not used since damage was found ({found}); restore the "
                "database and run 'deco trial verify'"
            )

    @contextmanager
    def remembering(self, trial: str) -> Iterator[None]:
        """Put on record what a look at a trial finds. Not within a transaction."""
        try:
            with self.store.counts.failures():
                yield
        except (Remembered, Unreadable):
            raise
        except Damaged as error:
            self.mark(trial, str(error))
            raise

    def mark(self, trial: str, problem: str) -> None:
        """Stop a trial."""
        at = datetime.now(UTC).isoformat(timespec="microseconds")  # tells two marks apart
        found = f"{at}: {problem[:MAX_PROBLEM]}"
        self._unwritten[trial] = found
        try:
            self.store.write(
                lambda connection: connection.execute(_MARK, {"trial": trial, "found": found})
            )
        except StoreError:
            return  # this process remembers it at least
        self._unwritten.pop(trial, None)

    def clear(self, trial: str, found: str | None) -> None:
        """Let a trial go on: all its events were read after `found` was on record, and fit.

        What was found meanwhile stays on record.
        """
        self._unwritten.pop(trial, None)
        if found is not None:
            self.store.write(
                lambda connection: connection.execute(_CLEAR, {"trial": trial, "found": found})
            )
