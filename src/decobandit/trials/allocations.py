"""Allocations: one arm for one slot, and how it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

AllocationState = Literal["open", "told", "cancelled"]


@dataclass(frozen=True)
class Allocation:
    """An arm allocated to one slot.

    Attributes
    ----------
    id : str
        Random.
    arm : str
        Name of the arm.
    stage : int
        From 0.
    reason : str
        Why this arm.
    state : AllocationState
        Whether it is pending (open), has an outcome (told), or was cancelled.
    outcome : int | None
        1 is good, 0 is bad; null while it is pending.
    subject : str | None
        Who or what the arm is for, where the ask named one.
    note : str | None
        What was noted with the ask.
    change_reason : str | None
        Why it was cancelled, or corrected last.

    Examples
    --------
    >>> allocation = trial.ask()
    >>> allocation.state, trial.tell(allocation.id, 1).outcome
    ('open', 1)
    """

    id: str
    arm: str
    stage: int
    reason: str
    state: AllocationState = "open"
    outcome: int | None = None
    subject: str | None = None
    note: str | None = None
    change_reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)


def moved(
    slot: Allocation, kind: str, outcome: int | None, reason: str | None = None
) -> Allocation:
    """The allocation after one more event; a ValueError where that event is not allowed."""
    needed = {"told": "open", "cancelled": "open", "corrected": "told"}[kind]
    if slot.state != needed:
        raise ValueError(f"the allocation is {slot.state}, not {needed}")
    if kind == "cancelled":
        return replace(slot, state="cancelled", change_reason=reason)
    if outcome not in (0, 1) or isinstance(outcome, bool):
        raise ValueError("an outcome is 0 or 1")
    return replace(slot, state="told", outcome=outcome, change_reason=reason)
