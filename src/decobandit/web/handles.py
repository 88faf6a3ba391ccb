"""Trials that were opened before: a trial keeps its id and name for ever, and so its handle."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from ..trials import Store, Trial, open_trial

MOST = 1000


class Handles:
    """Handles by the id or name that they were asked for, the latest ones."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: OrderedDict[str, Trial] = OrderedDict()
        self._lock = Lock()

    def known(self, trial: str) -> Trial | None:
        """A handle that is there already: no database is asked."""
        return self._known.get(trial)

    def open(self, trial: str) -> Trial:
        """A handle on a trial of the database; `NotFound` if there is none."""
        found = open_trial(trial, db=self.store)
        with self._lock:
            self._known[trial] = found
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return found
