"""Limits of a trial: how many allocations may be pending, cancelled, and unmasked by one person.

Who may ask and cancel without end can steer a trial: ask until the wanted arm comes, and cancel the
others; who may unmask without end is not blinded. The limits are part of the record, in the event
`created`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..problem import Problem
from .errors import TrialError

LEAST_OPEN, LEAST_CANCELLED = 50, 20  # defaults of a short trial
UNMASKED_A_DAY = 5  # allocations that one person may unmask within 24 hours
MAX_LIMIT = 10**9


@dataclass(frozen=True)
class TrialLimits:
    """How many allocations of a trial may be pending, cancelled, and unmasked by one person.

    Attributes
    ----------
    open : int | None
        Pending at the same time; null: no limit.
    cancelled : int | None
        Cancelled in all; null: no limit.
    unmasked : int
        Unmasked by one person within 24 hours.

    Examples
    --------
    >>> trial.status().limits
    TrialLimits(open=50, cancelled=20, unmasked=5)
    """

    open: int | None = None
    cancelled: int | None = None
    unmasked: int = UNMASKED_A_DAY

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)


def limits_of(tree: dict[str, Any]) -> TrialLimits:
    """Read the limits of an event."""
    unmasked = _count(tree["unmasked"])
    if unmasked is None:
        raise ValueError("the limit on unmasking is a whole number")
    return TrialLimits(_count(tree["open"]), _count(tree["cancelled"]), unmasked)


def _count(value: object) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_LIMIT):
        raise ValueError("a limit is a whole number, or null")
    return value


def default_limits(problem: Problem) -> TrialLimits:
    """Half the slots each; more in a short trial: two batches pending, and one cancelled."""
    pulls = problem.pulls_per_stage
    half = problem.horizon * pulls // 2
    return TrialLimits(max(LEAST_OPEN, half, 2 * pulls), max(LEAST_CANCELLED, half, pulls))


def chosen_limits(
    before: TrialLimits,
    max_open: int | None,
    max_cancelled: int | None,
    max_unmasked: int | None = None,
) -> TrialLimits:
    """The limits that are given, and those before where none is."""
    for name, value, least in (
        ("max_open", max_open, 1),
        ("max_cancelled", max_cancelled, 0),
        ("max_unmasked", max_unmasked, 0),
    ):
        if value is not None and not least <= value <= MAX_LIMIT:
            raise TrialError(f"{name}: {value} is not allowed; must be {least} to {MAX_LIMIT}")
    return TrialLimits(
        before.open if max_open is None else max_open,
        before.cancelled if max_cancelled is None else max_cancelled,
        before.unmasked if max_unmasked is None else max_unmasked,
    )
