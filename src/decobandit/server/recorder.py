"""Entries of the access log: logins, refused tokens, looks at results, exports.

Requests note what they do; it is written when they are answered, so that nobody waits for it and
reading goes on while the database cannot be written. What could not be written is kept and tried
again. What repeats within an hour is counted, and the count is written with the next event of its
kind, or when the log is read. Strangers cannot grow the log without end: of refused tokens, ten
addresses per hour are named, all others are one event.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

from ..support import Cache
from ..trials import Trial
from ..trials.database import Store
from ..trials.errors import StoreError
from ..trials.people import record_all
from .request_context import Principal

log = logging.getLogger("decobandit.server")

WINDOW_SECONDS = 3600.0  # within which what repeats is counted
MAX_ADDRESSES = 10  # of refused tokens that are named within a window
OTHERS = "other addresses"
STRANGER = "nobody"  # who sent a refused token
MAX_COUNTED = 10_000  # things that are counted; those not repeated for longest are forgotten
MAX_WAITING = 1000  # events that wait for a database that cannot be written
RETRY_SECONDS = 5.0

Entry = tuple[str, str, dict[str, Any]]  # kind, by, data


class _Counted:
    """Something that was written once, and how often it happened since."""

    def __init__(self, entry: Entry, since: float) -> None:
        self.entry, self.since, self.repeated = entry, since, 0


class Recorder:
    """Collects events for the access log of one database."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self._clock = store, clock
        self._lock = Lock()
        self._writing = Lock()
        self._counted = Cache[Hashable, _Counted](MAX_COUNTED)
        self._waiting: deque[Entry] = deque(maxlen=MAX_WAITING)
        self._addresses: dict[str, None] = {}
        self._addresses_since = -WINDOW_SECONDS
        self._retry_at = 0.0

    # -- noting ------------------------------------------------------------------------------

    def note(self, kind: str, by: str, data: dict[str, Any], *, once: Hashable = None) -> None:
        """Record an event. `once`: equal values are written once in a window, and counted."""
        with self._lock:
            if once is None:
                self._waiting.append((kind, by, data))
                return
            now = self._clock()
            count = self._counted.get((kind, by, once))
            if count is not None and now - count.since < WINDOW_SECONDS:
                count.repeated += 1
                return
            more = {} if count is None or not count.repeated else {"repeated": count.repeated}
            self._counted.put((kind, by, once), _Counted((kind, by, data), now))
            self._waiting.append((kind, by, data | more))

    def refused(self, address: str, what: str) -> None:
        """Record an invalid token from an address."""
        with self._lock:
            now = self._clock()
            if now - self._addresses_since >= WINDOW_SECONDS:
                self._addresses, self._addresses_since = {}, now
            if address not in self._addresses and len(self._addresses) >= MAX_ADDRESSES:
                address = OTHERS
            else:
                self._addresses[address] = None
        data = {"address": address, "what": what}
        self.note("refused", STRANGER, data, once=(address, what))

    def saw(self, caller: Principal, trial: Trial, what: str) -> None:
        """Record a view of results of a trial; blinded people never have one."""
        if not caller.blinded:
            self._about("looked", caller, trial, {"what": what})

    def exported(self, caller: Principal, trial: Trial, form: str) -> None:
        self._about("exported", caller, trial, {"form": form, "masked": False, "via": caller.via})

    def _about(self, kind: str, caller: Principal, trial: Trial, more: dict[str, Any]) -> None:
        data = {"trial": trial.id, "name": trial.name} | more
        self.note(kind, caller.name, data, once=(trial.id, more.get("form")))

    # -- writing -----------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether there is something to write, and the database may take it."""
        return bool(self._waiting) and self._clock() >= self._retry_at

    def write(self) -> None:
        """Write what waits. One thread at a time: the others need not wait for the database."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            with self._lock:
                entries = list(self._waiting)
                self._waiting.clear()
            if entries:
                self._write(entries)
        finally:
            self._writing.release()

    def _write(self, entries: list[Entry]) -> None:
        try:
            record_all(self.store, entries)
        except Exception as error:
            with self._lock:
                self._waiting.extendleft(reversed(entries))
                self._retry_at = self._clock() + RETRY_SECONDS
            unexpected = not isinstance(error, StoreError)
            log.error("access log: %s", error, exc_info=unexpected)

    def flush(self) -> None:
        """Write all counts too, before the log is read."""
        with self._lock:
            for count in self._counted.values():
                if count.repeated:
                    kind, by, data = count.entry
                    self._waiting.append((kind, by, data | {"repeated": count.repeated}))
                    count.repeated = 0
        self.write()
