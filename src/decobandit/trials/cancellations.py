"""Cancelled allocations, counted by person and arm: whether somebody steers a trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .request_records import Cancellation


@dataclass(frozen=True)
class CancellationCount:
    """Cancelled allocations of one arm by one person.

    Attributes
    ----------
    by : str
        Who cancelled them.
    arm : str
        Name of the arm.
    count : int
        How many.
    reasons : tuple[str, ...]
        Why; each reason once.

    Examples
    --------
    >>> _ = trial.cancel(trial.ask().id, reason="did not come")
    >>> trial.status().cancellations[0].reasons
    ('did not come',)
    """

    by: str
    arm: str
    count: int
    reasons: tuple[str, ...]


def counted(cancellations: Iterable[Cancellation]) -> tuple[CancellationCount, ...]:
    """Cancellations by person and arm, in the order of the first ones."""
    own: dict[tuple[str, str], list[Cancellation]] = {}
    for each in cancellations:
        own.setdefault((each.by, each.arm), []).append(each)
    return tuple(
        CancellationCount(
            by,
            arm,
            sum(one.count for one in found),
            tuple(dict.fromkeys(one.reason for one in found)),
        )
        for (by, arm), found in own.items()
    )
