"""Allocations: one arm for one slot, and how it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from ..problem import ArmModel, Outcome

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
    outcome : int | float | str | None
        1 is good, 0 is bad; the number of a class, a number, a count, the name of an outcome, as
        the arm has them; null while it is pending.
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
    outcome: Outcome | None = None
    subject: str | None = None
    note: str | None = None
    change_reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)


def moved(
    slot: Allocation, kind: str, outcome: Outcome | None, arm: ArmModel, reason: str | None = None
) -> Allocation:
    """The allocation after one more event; a ValueError where that event is not allowed.

    arm: the kind of its arm, of which the outcome has to be one as logs have it.
    """
    needed = {"told": "open", "cancelled": "open", "corrected": "told"}[kind]
    if slot.state != needed:
        raise ValueError(f"the allocation is {slot.state}, not {needed}")
    if kind == "cancelled":
        return replace(slot, state="cancelled", change_reason=reason)
    if outcome is None or arm.plain(outcome) != outcome or isinstance(outcome, bool):
        raise ValueError("not an outcome as logs have it")
    return replace(slot, state="told", outcome=outcome, change_reason=reason)
