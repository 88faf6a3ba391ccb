"""The state of a trial that follows from its events: allocations, outcomes, requests by key.

A ledger is never changed; `extended` makes a new one. It does not depend on the order in which
outcomes were recorded: they are counted, and the stage follows from the number of slots in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..problem import Problem
from .codes import codes_of
from .errors import Damaged
from .events import GENESIS, Event
from .limits import TrialLimits, limits_of
from .settings import TrialSettings

AllocationState = Literal["open", "told", "cancelled"]
TrialState = Literal["running", "closed", "archived"]
LATER_FIELDS = ("subject", "note", "change_reason")  # of an allocation; older exports lack them
# kinds of events that change the state of the trial, and the state after them
TURNS: dict[str, TrialState] = {
    "closed": "closed",
    "reopened": "running",
    "archived": "archived",
}


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


@dataclass(frozen=True)
class Cancellation:
    """An allocation that was cancelled: by whom, which arm, and why."""

    by: str
    arm: str
    reason: str | None  # older logs have none


@dataclass(frozen=True)
class Request:
    """What a key was used for: a repeated request agrees in all of this."""

    kind: str
    allocation: str | None = None
    outcome: int | None = None
    subject: str | None = None
    note: str | None = None
    reason: str | None = None
    max_open: int | None = None
    max_cancelled: int | None = None

    def said(self) -> dict[str, Any]:
        """What the request says beside allocation and outcome: its part of the event's data."""
        names = ("subject", "note", "reason", "max_open", "max_cancelled")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @classmethod
    def of(cls, kind: str, allocation: str | None, data: dict[str, Any]) -> Request:
        """The request that made an event."""
        names = ("outcome", "subject", "note", "reason", "max_open", "max_cancelled")
        said = {name: data.get(name) for name in names}
        if kind == "asked":  # there, the reason is the policy's
            said["reason"] = None
        return cls(kind, allocation, **said)


@dataclass(frozen=True)
class Refusal:
    """A request that was refused: identical ones are counted."""

    request: Request
    by: str
    why: str


@dataclass(frozen=True)
class Answered:
    """A request that had a key, and its result: an allocation, or a refusal."""

    request: Request
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
        self.settings: TrialSettings = None  # type: ignore[assignment]  # the first event brings it
        self.allocations: dict[str, Allocation] = {}  # by id, in the order of the asks
        self.answered: dict[tuple[str, str], Answered] = {}  # by person and key
        self.refusals: dict[Refusal, int] = {}  # how often, as far as the log says
        self.since: dict[str, str] = {}  # when each pending allocation was made, the oldest first
        self.used = 0  # slots, pending or with an outcome
        self._positions: dict[str, int] = {}
        self.good: list[int] = []  # recorded outcomes of every arm
        self.bad: list[int] = []
        self.open: list[int] = []  # pending allocations of every arm
        self.state: TrialState = "running"
        self.limits = TrialLimits()
        self.codes: list[str] = []  # of every arm
        self.subjects: dict[str, str] = {}  # the allocation of each; a cancelled one is forgotten
        self.cancellations: list[Cancellation] = []
        self.unmasked: frozenset[tuple[str, str]] = frozenset()  # allocation, and who was told

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def slots(self) -> int:
        """Pulls in all."""
        return self.problem.horizon * self.problem.pulls_per_stage

    @property
    def stage(self) -> int:
        """Stages completed by the slots in use."""
        return self.used // self.problem.pulls_per_stage

    @property
    def asks(self) -> int:
        """Allocations ever made, cancelled ones too."""
        return len(self.allocations)

    @property
    def at_open_limit(self) -> bool:
        """Whether as many allocations are pending as may be."""
        return self.limits.open is not None and sum(self.open) >= self.limits.open

    @property
    def at_cancelled_limit(self) -> bool:
        """Whether as many allocations were cancelled as may be."""
        most = self.limits.cancelled
        return most is not None and len(self.cancellations) >= most

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
        later.answered, later.refusals = dict(self.answered), dict(self.refusals)
        later.since = dict(self.since)
        later.good, later.bad, later.open = list(self.good), list(self.bad), list(self.open)
        later.subjects, later.cancellations = dict(self.subjects), list(self.cancellations)
        for event in events:
            later.advance(event)
        return later

    def advance(self, event: Event) -> None:
        """Apply one more event in place: only for a ledger that is not shared."""
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
            refusal = Refusal(Request(**data["request"]), event.by, data["why"])
            self.refusals[refusal] = int(data.get("times", 1))
            answer = Answered(refusal.request, refusal=refusal.why)
        elif event.kind in TURNS:
            self.state = TURNS[event.kind]
            answer = Answered(Request.of(event.kind, None, data))
        elif event.kind == "limited":
            self.limits = limits_of(data["limits"])
            answer = Answered(Request.of(event.kind, None, data))
        else:
            made = self._step(event)
            self._wait(made, event)
            about = None if event.kind == "asked" else made
            answer = Answered(Request.of(event.kind, about, data), allocation=made)
        if event.key is not None:
            self.answered[event.by, event.key] = answer
        self.seq, self.head = event.seq, event.hash

    def _create(self, event: Event) -> None:
        self.name, self.created_at = event.data["name"], event.at
        self.settings = TrialSettings.from_dict(event.data["plan"])
        self._positions = {arm.name: k for k, arm in enumerate(self.problem.arms)}
        self.good, self.bad, self.open = ([0] * len(self._positions) for _ in range(3))
        self.limits = limits_of(event.data.get("limits"))
        self.codes = codes_of(event.data.get("codes"), list(self._positions), event.hash)

    def _step(self, event: Event) -> str:
        """One allocation made, moved from one state to the next, or unmasked; its id."""
        kind, data = event.kind, event.data
        name = str(data["allocation"])
        if kind == "unmasked":
            self.unmasked |= {(self.allocations[name].id, event.by)}
            return name
        if kind == "asked":
            if name in self.allocations or self.used >= self.slots:
                raise ValueError("no such slot is free")
            if data["decision"]["stage"] != self.stage:
                raise ValueError("not the stage under way")
            if self.state != "running" or self.at_open_limit:
                raise ValueError("the trial was closed, or too many were pending")
            subject, note = data.get("subject"), data.get("note")
            slot = Allocation(
                name, data["arm"], self.stage, data["reason"], subject=subject, note=note
            )
            self._count(slot, +1)
            if subject is not None:
                if subject in self.subjects:
                    raise ValueError("the subject has an allocation")
                self.subjects[subject] = name
        else:
            before = self.allocations[name]
            self._count(before, -1)
            slot = moved(before, kind, data.get("outcome"), data.get("reason"))
            self._count(slot, +1)
            if kind == "cancelled":
                if self.at_cancelled_limit:
                    raise ValueError("too many were cancelled")
                self.cancellations.append(Cancellation(event.by, slot.arm, data.get("reason")))
                self.subjects.pop(slot.subject or "", None)
        self.allocations[name] = slot
        return name

    def _wait(self, made: str, event: Event) -> None:
        if self.allocations[made].state != "open":
            self.since.pop(made, None)
        elif event.kind == "asked":
            self.since[made] = event.at

    def _count(self, slot: Allocation, by: int) -> None:
        if slot.state == "cancelled":
            return
        arm = self._positions[slot.arm]
        counts = self.open if slot.state == "open" else self.good if slot.outcome else self.bad
        counts[arm] += by
        self.used += by


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
