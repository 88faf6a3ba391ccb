"""Whole logs are read by few requests at a time: each takes memory and processor time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import busy

MAX_READERS = 4
WAIT_SECONDS = 2.0  # for one of the others to end


class RecordReaders:
    """Places for requests that read a whole log; without one, a request is refused (503)."""

    def __init__(self, most: int = MAX_READERS, *, wait: float = WAIT_SECONDS) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._wait = wait

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place while the block lasts."""
        self._take()
        try:
            yield
        finally:
            self._places.release()

    def streamed(self, make: Callable[[], Iterator[str]]) -> Iterator[str]:
        """The pieces of a text, which holds its place until it was sent or given up.

        What can fail comes before the first piece: then it can still be answered as an error.
        """
        self._take()
        text = _Placed(self._places)
        try:
            text.pieces = make()
        except BaseException:
            text.close()
            raise
        return text

    def _take(self) -> None:
        if not self._places.acquire(timeout=self._wait):
            raise busy("other logs are being read; try again", seconds=5)


class _Placed(Iterator[str]):
    """Pieces of a text; the place is given back once, at the end or when nobody wants the rest."""

    def __init__(self, places: threading.BoundedSemaphore) -> None:
        self.pieces: Iterator[str] = iter(())
        self._places: threading.BoundedSemaphore | None = places
        self._lock = threading.Lock()

    def __next__(self) -> str:
        try:
            return next(self.pieces)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the place back."""
        with self._lock:
            places, self._places = self._places, None
        if places is not None:
            places.release()

    def __del__(self) -> None:
        self.close()
