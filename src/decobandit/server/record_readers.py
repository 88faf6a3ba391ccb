"""Whole logs are read by few requests at a time: each takes memory and processor time.

Nobody takes more places than are free, so that one person cannot keep all others out. A text is
put into a file as fast as it can be made; its place is free before the client reads it.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from .errors import busy

MAX_READERS = 4
WAIT_SECONDS = 2.0  # for one of the others to end
MAX_UNREAD = 8  # texts of one person that wait for their readers
MEMORY_BYTES = 256 * 1024  # of such a text; what is longer is on disk
PIECE_CHARACTERS = 64 * 1024  # that are sent at a time


class RecordReaders:
    """Places for requests that read a whole log; without one, a request is refused (503)."""

    def __init__(self, most: int = MAX_READERS, *, wait: float = WAIT_SECONDS) -> None:
        self._most, self._wait = most, wait
        self._changed = threading.Condition()
        self._taken = Counter[str]()  # places by person
        self._unread = Counter[str]()  # texts by person

    @contextmanager
    def one(self, person: str) -> Iterator[None]:
        """Hold a place of a person during the block."""

        def is_free() -> bool:
            return self._taken[person] < self._most - self._taken.total()

        with self._changed:
            if not self._changed.wait_for(is_free, self._wait):
                raise busy("other logs are being read; try again", seconds=5)
            self._taken[person] += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= Counter([person])
                self._changed.notify_all()

    def text(self, person: str, make: Callable[[], Iterator[str]]) -> Iterator[str]:
        """Return the pieces of a text that is computed at once, so that failures become errors."""
        with self.one(person):
            with self._changed:
                if self._unread[person] >= MAX_UNREAD:
                    raise busy("read the exports that were asked for before", seconds=5)
                self._unread[person] += 1
            unread = _Unread(lambda: self._was_read(person))
            try:
                for piece in make():
                    unread.file.write(piece)
                unread.file.seek(0)
            except OSError as error:
                raise busy(f"no room for the export: {error.strerror}", seconds=60) from None
        return unread

    def _was_read(self, person: str) -> None:
        with self._changed:
            self._unread -= Counter([person])


class _Unread(Iterator[str]):
    """A text that waits for its reader; `done` is called once, at the end or when it is dropped."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done: Callable[[], None] | None = done
        self.file: IO[str] = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            MEMORY_BYTES, "w+", encoding="utf-8", newline=""
        )

    def __next__(self) -> str:
        piece = self.file.read(PIECE_CHARACTERS)
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            self.file.close()
            done()

    def __del__(self) -> None:
        self.close()
