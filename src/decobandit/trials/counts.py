"""What a process has done with a database: events written by kind, errors by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from .errors import Damaged, StoreError


class Counts:
    """Counters of one store, since it was opened; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def event(self, kind: str) -> None:
        """One more event was written."""
        with self._lock:
            self._events[kind] += 1

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Count the errors of the database that leave the block."""
        try:
            yield
        except StoreError as error:
            self.error(error)
            raise

    def error(self, error: StoreError) -> None:
        """Count an error, once however many blocks it leaves."""
        with self._lock:
            if not error.counted:
                self._errors["damaged" if isinstance(error, Damaged) else "unavailable"] += 1
            error.counted = True

    def events(self) -> dict[str, int]:
        """Events written, by kind."""
        with self._lock:
            return dict(self._events)

    def errors(self) -> dict[str, int]:
        """Errors: damaged, or unavailable."""
        with self._lock:
            return dict(self._errors)
