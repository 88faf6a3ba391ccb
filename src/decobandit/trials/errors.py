"""Errors of requests to a trial, and of its database.

Blinded users read the messages: they never contain counts, stages, outcomes, indices or posteriors.
"""

from __future__ import annotations


class TrialError(ValueError):
    """A request that cannot be served."""

    for_blinded = ""  # what blinded people read instead, where the message tells too much


class NotFound(TrialError):
    """No such trial, or no such allocation."""


class Conflict(TrialError):
    """The request contradicts what is on record."""


class BadOutcome(TrialError):
    """What was told is no outcome of the arm."""


class NoFreeSlot(Conflict):
    """The horizon is a hard limit: every slot is pending or has an outcome."""


class Closed(Conflict):
    """The trial is closed: no more allocations are made."""


class Stopped(Closed):
    """A look has stopped the trial, as its rules say."""

    for_blinded = "the trial is over: no more allocations are made"


class LimitReached(Conflict):
    """A limit of the trial on pending or cancelled allocations is reached."""


class OutOfMemory(TrialError):
    """The tables of a trial's policy need more memory than there is now."""


class StoreError(TrialError):
    """The database cannot be used."""

    counted = False  # whether the counters of its store have it


class Damaged(StoreError):
    """What the database holds is not what was written."""


class Unreadable(Damaged):
    """The database cannot be read, for a moment or for good: that says nothing of one trial."""
