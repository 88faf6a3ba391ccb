"""Errors of requests to a trial and of its database.

Blinded users read the messages: they name no counts, stages, outcomes, indices or posteriors.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..support import DecoError


class TrialError(DecoError, code="bad_request"):
    """A refused request to a trial."""

    for_blinded = ""  # message for blinded users, where the full one would reveal too much


class NotFound(TrialError, code="not_found"):
    """No such trial, or no such allocation."""


class Conflict(TrialError, code="conflict"):
    """The request contradicts the log."""


class Contradiction(Conflict):
    """A request that contradicts the record; the log has it. `arms`: the arms concerned."""

    def __init__(self, text: str, *arms: str) -> None:
        super().__init__(f"{', '.join(arms)}: {text}" if arms else text)
        self.text, self.arms = text, arms

    def message(self, labels: Mapping[str, str]) -> str:
        """Return the message with the reader's labels of arms, in an order that hides names."""
        names = sorted((labels[arm] for arm in self.arms), key=lambda name: (len(name), name))
        return f"{', '.join(names)}: {self.text}" if names else self.text


class BadOutcome(TrialError, code="invalid"):
    """A value that is not an outcome of the arm."""


class OutOfRange(TrialError, code="out_of_range"):
    """An unconfirmed outcome outside the plausible range of its arm."""

    for_blinded = (
        "outcome: not plausible; check it, and if it is right, send it again with confirm_range"
    )


class NoFreeSlot(Conflict, code="no_free_slot"):
    """Every slot of the trial is pending or has an outcome."""


class BudgetSpent(NoFreeSlot, code="budget_spent"):
    """The money left cannot pay for any arm at any stage left."""

    for_blinded = "the trial is over: no more allocations are made"


class Closed(Conflict, code="closed"):
    """The trial is closed for allocations."""


class Locked(Closed, code="locked"):
    """The trial is locked: nothing in it changes until another person unlocks it."""


class NotPermitted(TrialError, code="forbidden"):
    """A request that the trial permits to another role only."""


class Stopped(Closed):
    """An interim look has stopped the trial."""

    for_blinded = "the trial is over: no more allocations are made"


class LimitReached(Conflict, code="limit_reached"):
    """A limit of the trial on pending or cancelled allocations is reached."""


class OutOfMemory(TrialError, code="unavailable"):
    """The tables of a trial's policy need more memory than there is now."""


class StoreError(TrialError, code="unavailable"):
    """The database cannot be used."""

    counted = False  # in the counters of its store


class Damaged(StoreError, code="damaged"):
    """Integrity check failed: the database does not hold what was written."""


class Unreadable(Damaged):
    """The database cannot be read; this is not damage of one trial."""
