"""Whose turn it is, where the next decision of a trial takes long.

Such a decision is made before the transaction that records it, so that writers of other trials do
not wait. Meanwhile the trial must stay as it is, or the decision is of no use: asks are taken one
after the other, and an ask that was outrun holds the other changes of its trial back until it is
recorded. This is agreed within one process; another one may still be faster, and then the decision
is made again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary, WeakValueDictionary

from .database import Store
from .errors import StoreError

SECONDS = 60.0  # that a change waits for the asks before it


class Turns:
    """The turns at one trial."""

    def __init__(self) -> None:
        self._asks, self._changes = FairLock(), FairLock()

    @property
    def taken(self) -> bool:
        """Whether an ask holds changes back, or a change waits for one."""
        return self._changes.locked()

    @contextmanager
    def ask(self) -> Iterator[None]:
        """One ask at a time; other changes go on."""
        with _held(self._asks):
            yield

    @contextmanager
    def change(self) -> Iterator[None]:
        """A change of the trial, or an ask that was outrun: one at a time."""
        with _held(self._changes):
            yield


class FairLock:
    """A lock that threads get in the order in which they came."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._held = False
        self._waiting: deque[Lock] = deque()  # each is released when its thread has its turn

    def locked(self) -> bool:
        return self._held

    def acquire(self, timeout: float) -> bool:
        """Whether the turn came within so many seconds."""
        with self._guard:
            if not self._held:
                self._held = True
                return True
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout):
            return True
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True  # the turn came in the last moment

    def release(self) -> None:
        """The turn of the thread that has waited longest."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


@contextmanager
def _held(lock: FairLock) -> Iterator[None]:
    if not lock.acquire(timeout=SECONDS):
        raise StoreError("too many requests wait for the decisions of this trial; try again")
    try:
        yield
    finally:
        lock.release()


_turns: WeakKeyDictionary[Store, WeakValueDictionary[str, Turns]] = WeakKeyDictionary()
_lock = Lock()


def turns_of(store: Store, trial: str) -> Turns:
    """The turns of a trial, shared by all handles on it."""
    with _lock:
        of_store = _turns.setdefault(store, WeakValueDictionary())
        found = of_store.get(trial)
        if found is None:
            found = of_store[trial] = Turns()
        return found
