"""What can be wrong with a request to a trial, or with its database.

Messages are read by people who must not know how a trial is going: they never contain counts,
stages, outcomes, indices or posteriors.
"""

from __future__ import annotations


class TrialError(ValueError):
    """A request that cannot be served. `status` is what a web server answers."""

    status = 400


class NotFound(TrialError):
    """No such trial, or no such allocation."""

    status = 404


class Conflict(TrialError):
    """The request contradicts what is on record."""

    status = 409


class NoFreeSlot(Conflict):
    """The horizon is a hard cap: every slot is open or told."""


class StoreError(TrialError):
    """The database cannot be used."""

    status = 503


class Damaged(StoreError):
    """What the database holds is not what was written."""
