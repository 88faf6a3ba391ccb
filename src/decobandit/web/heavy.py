"""Long computations: one at a time, and a short queue in front of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..trials import TrialError
from .errors import ApiError


class Heavy:
    """A door for one, with room for `waiting` more in front of it; others are sent away (503)."""

    def __init__(self, waiting: int) -> None:
        self._door = threading.Lock()
        self._room = threading.BoundedSemaphore(waiting + 1)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn, if there is room to wait."""
        if not self._room.acquire(blocking=False):
            raise ApiError(
                503, "busy", "other problems are being solved; try again", {"Retry-After": "10"}
            )
        try:
            with self._door:
                yield
        finally:
            self._room.release()

    @contextmanager
    def solving(self) -> Iterator[None]:
        """A turn for a problem that was sent: what it is refused for is the sender's to fix."""
        try:
            with self.turn():
                yield
        except TrialError:
            raise
        except MemoryError as error:
            raise ApiError(422, "too_large", str(error) or "the problem is too large") from None
        except (ValueError, OverflowError) as error:
            raise ApiError(422, "invalid", " ".join(str(error).split())) from None
