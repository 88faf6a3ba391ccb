"""Errors of requests to a trial, and of its database.

`code` is what the API calls an error; the client finds the exception by it.

Blinded users read the messages: they never contain counts, stages, outcomes, indices or posteriors.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..support import DecoError


class TrialError(DecoError, code="bad_request"):
    """A request to a trial that is refused."""

    for_blinded = ""  # message for blinded users, where the full one would reveal too much


class NotFound(TrialError, code="not_found"):
    """No such trial, or no such allocation."""


class Conflict(TrialError, code="conflict"):
    """The request contradicts what is on record."""


class Contradiction(Conflict):
    """A request that contradicts the record, which is logged. `arms`: those that it is about."""

    def __init__(self, text: str, *arms: str) -> None:
        super().__init__(f"{', '.join(arms)}: {text}" if arms else text)
        self.text, self.arms = text, arms

    def said(self, called: Mapping[str, str]) -> str:
        """The message, with arms as its reader calls them, in an order that does not tell names."""
        names = sorted((called[arm] for arm in self.arms), key=lambda name: (len(name), name))
        return f"{', '.join(names)}: {self.text}" if names else self.text


class BadOutcome(TrialError, code="invalid"):
    """What was told is no outcome of the arm."""


class OutOfRange(TrialError, code="out_of_range"):
    """An outcome outside the plausible range of its arm, which was not confirmed."""

    for_blinded = (
        "outcome: not plausible; check it, and if it is right, send it again with confirm_range"
    )


class NoFreeSlot(Conflict, code="no_free_slot"):
    """The horizon is a hard limit: every slot is pending or has an outcome."""


class Closed(Conflict, code="closed"):
    """The trial is closed: no more allocations are made."""


class Stopped(Closed):
    """A look has stopped the trial, as its rules say."""

    for_blinded = "the trial is over: no more allocations are made"


class LimitReached(Conflict, code="limit_reached"):
    """A limit of the trial on pending or cancelled allocations is reached."""


class OutOfMemory(TrialError, code="unavailable"):
    """The tables of a trial's policy need more memory than there is now."""


class StoreError(TrialError, code="unavailable"):
    """The database cannot be used."""

    counted = False  # whether the counters of its store have it


class Damaged(StoreError, code="damaged"):
    """What the database holds is not what was written."""


class Unreadable(Damaged):
    """The database cannot be read, for a moment or for good: that says nothing of one trial."""
