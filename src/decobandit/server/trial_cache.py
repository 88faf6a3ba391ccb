"""Trials that were opened before: id, name and settings of a trial never change."""

from __future__ import annotations

from ..support import Cache
from ..trials import Store, Trial, open_trial

MAX_TRIALS = 1000


class TrialCache:
    """Opened trials by the id or name that they were requested by, those used last."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opened = Cache[str, Trial](MAX_TRIALS)

    def cached(self, trial: str) -> Trial | None:
        """A trial that is open already: the database is not read."""
        return self._opened.get(trial)

    def open(self, trial: str) -> Trial:
        """A trial of the database; `NotFound` if there is none."""
        found = open_trial(trial, db=self.store)
        self._opened.put(trial, found)
        return found
