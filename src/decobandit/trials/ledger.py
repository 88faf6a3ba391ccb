"""What the events of a trial amount to: allocations, their outcomes, what was asked by which key.

A ledger is never changed; `extended` makes a new one. It depends on what was told, not on the
order in which it was told: outcomes are counted, and the stage is the number of slots in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..problem import Problem
from .errors import Damaged
from .events import GENESIS, Event
from .plans import Plan

AllocationState = Literal["open", "told", "cancelled"]


@dataclass(frozen=True)
class Allocation:
    """One slot of the trial given to an arm."""

    id: str
    arm: str
    stage: int  # from 0
    reason: str
    state: AllocationState = "open"
    outcome: int | None = None  # 1 is good, 0 is bad

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Request:
    """What a key was used for: a repeated request is the same in all of this."""

    kind: str
    allocation: str | None = None
    outcome: int | None = None


@dataclass(frozen=True)
class Answered:
    """A request that had a key, and what came of it: an allocation, or a refusal."""

    request: Request
    by: str  # another person's request is another one
    allocation: str = ""
    refusal: str = ""


class Ledger:
    """The trial up to one event. Attributes are read, never written."""

    def __init__(self, trial: str) -> None:
        self.trial = trial
        self.seq = -1
        self.head = GENESIS
        self.name = ""
        self.created_at = ""
        self.plan: Plan = None  # type: ignore[assignment]  # the first event brings it
        self.allocations: dict[str, Allocation] = {}  # by id, in the order of the asks
        self.answered: dict[str, Answered] = {}  # by key
        self.used = 0  # slots open or told
        self._positions: dict[str, int] = {}
        self.good: list[int] = []  # told outcomes of every arm
        self.bad: list[int] = []
        self.open: list[int] = []  # allocations of every arm that wait for their outcome

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    @property
    def slots(self) -> int:
        """Pulls in all: the cap."""
        return self.problem.horizon * self.problem.pulls_per_stage

    @property
    def stage(self) -> int:
        """Stages completed by the slots in use."""
        return self.used // self.problem.pulls_per_stage

    @property
    def asks(self) -> int:
        """Allocations ever made, cancelled ones too."""
        return len(self.allocations)

    def position(self, arm: str) -> int:
        """Where an arm stands in the problem."""
        return self._positions[arm]

    def in_use(self) -> list[Allocation]:
        """Allocations that hold a slot, in the order of the asks."""
        return [slot for slot in self.allocations.values() if slot.state != "cancelled"]

    def under_way(self) -> list[Allocation]:
        """The slots in use of the stage that is not complete; none with one pull per stage."""
        rest = self.used % self.problem.pulls_per_stage
        return self.in_use()[-rest:] if rest else []

    def extended(self, events: Iterable[Event]) -> Ledger:
        """The ledger after more events; `Damaged` if one of them cannot have happened."""
        later = copy(self)
        later.allocations = dict(self.allocations)
        later.answered = dict(self.answered)
        later.good, later.bad, later.open = list(self.good), list(self.bad), list(self.open)
        for event in events:
            later.advance(event)
        return later

    def advance(self, event: Event) -> None:
        """Take in one more event, in place: for ledgers that nobody else has."""
        try:
            self._apply(event)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise Damaged(
                f"trial {event.trial}, event {event.seq}: {event.kind!r} cannot have happened "
                f"there ({error})"
            ) from None

    def _apply(self, event: Event) -> None:
        if (event.kind == "created") != (event.seq == 0):
            raise ValueError("a trial is created once, first")
        data = event.data
        if event.kind == "created":
            self._create(event)
        elif event.kind == "refused":
            answer = Answered(Request(**data["request"]), event.by, refusal=data["why"])
        else:
            made = self._step(event.kind, data)
            about = None if event.kind == "asked" else made
            request = Request(event.kind, about, data.get("outcome"))
            answer = Answered(request, event.by, allocation=made)
        if event.key is not None:
            self.answered[event.key] = answer
        self.seq, self.head = event.seq, event.hash

    def _create(self, event: Event) -> None:
        self.name, self.created_at = event.data["name"], event.at
        self.plan = Plan.from_dict(event.data["plan"])
        self._positions = {arm.name: k for k, arm in enumerate(self.problem.arms)}
        self.good, self.bad, self.open = ([0] * len(self._positions) for _ in range(3))

    def _step(self, kind: str, data: dict[str, Any]) -> str:
        """One allocation made, or moved from one state to the next; its id."""
        name = str(data["allocation"])
        if kind == "asked":
            if name in self.allocations or self.used >= self.slots:
                raise ValueError("no such slot is free")
            if data["decision"]["stage"] != self.stage:
                raise ValueError("not the stage under way")
            slot = Allocation(name, data["arm"], self.stage, data["reason"])
            self._count(slot, +1)
        else:
            before = self.allocations[name]
            self._count(before, -1)
            slot = moved(before, kind, data.get("outcome"))
            self._count(slot, +1)
        self.allocations[name] = slot
        return name

    def _count(self, slot: Allocation, by: int) -> None:
        if slot.state == "cancelled":
            return
        arm = self._positions[slot.arm]
        counts = self.open if slot.state == "open" else self.good if slot.outcome else self.bad
        counts[arm] += by
        self.used += by


def moved(slot: Allocation, kind: str, outcome: int | None) -> Allocation:
    """The allocation after one more event; a ValueError where that event is not allowed."""
    needed = {"told": "open", "cancelled": "open", "corrected": "told"}[kind]
    if slot.state != needed:
        raise ValueError(f"the allocation is {slot.state}, not {needed}")
    if kind == "cancelled":
        return replace(slot, state="cancelled")
    if outcome not in (0, 1) or isinstance(outcome, bool):
        raise ValueError("an outcome is 0 or 1")
    return replace(slot, state="told", outcome=outcome)
