"""The state of a trial that follows from its events: allocations, outcomes, requests by key.

A ledger is never changed; `extended` makes a new one. It does not depend on the order in which
outcomes were recorded: they are counted, and the stage follows from the number of slots in use.

A trial allocates single pulls or whole stages (`batches.py`), never both: the first ask decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from typing import Any, Literal

from ..problem import ArmModel, Problem, Seen, State
from ..support import look_alike_keys
from .allocations import Allocation, moved
from .batches import Batch, batch_moved, new_batch
from .codes import codes_of
from .errors import Damaged
from .events import GENESIS, Event
from .kind_records import check_batch_order, check_order, kinds_by_name, seen
from .limits import TrialLimits, limits_of
from .request_records import ASKS, Answered, Cancellation, Refusal, Request
from .settings import TrialSettings

TrialState = Literal["running", "closed", "archived"]
BATCH_KINDS = ("batch_asked", "batch_told", "batch_cancelled", "batch_corrected")
# kinds of events that change the state of the trial, and the state after them
TURNS: dict[str, TrialState] = {
    "closed": "closed",
    "reopened": "running",
    "archived": "archived",
}


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
        self.batches: dict[str, Batch] = {}  # the same
        self.answered: dict[tuple[str, str], Answered] = {}  # by person and key
        self.refusals: dict[Refusal, int] = {}  # how often, as far as the log says
        self.since: dict[str, str] = {}  # when each pending allocation was made, the oldest first
        self.used = 0  # slots, pending or with an outcome
        self._positions: dict[str, int] = {}
        self.kinds: dict[str, ArmModel] = {}  # of every arm by its name
        self.good: list[int] = []  # recorded outcomes of every arm
        self.bad: list[int] = []
        self.other: list[int] = []  # those of arms with other outcomes than good or bad
        self.open: list[int] = []  # pending allocations of every arm
        self.lost: list[int] = []  # pulls of batches that used their stage and have no outcome
        # what was known at each look of the rules, when its outcomes had been recorded
        self.looks: tuple[State, ...] = ()
        self._most_known = 0  # outcomes ever on record
        self.state: TrialState = "running"
        self.limits = TrialLimits()
        self.codes: list[str] = []  # of every arm
        self.subjects: dict[str, str] = {}  # the allocation of each; a cancelled one is forgotten
        self._look_alikes: dict[str, str] = {}  # subjects by `look_alike_keys`
        self.cancellations: list[Cancellation] = []
        self.unmasked: dict[tuple[str, str], str] = {}  # when, by allocation and who was told

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
        """Allocations or batches ever made, cancelled ones too."""
        return len(self.allocations) + len(self.batches)

    @property
    def told(self) -> int:
        """Slots with an outcome."""
        return sum(self.good) + sum(self.bad) + sum(self.other)

    @property
    def finished(self) -> bool:
        """Whether every slot has its outcome, or never will."""
        return self.told + sum(self.lost) == self.slots

    @property
    def cancelled(self) -> int:
        """Pulls that were cancelled, singly or with a batch."""
        return sum(each.count for each in self.cancellations)

    @property
    def known(self) -> State:
        """All outcomes on record, those of the stage under way included."""
        return State(tuple(self.good), tuple(self.bad), self.others())

    def others(self, left_out: Collection[Allocation] = ()) -> tuple[Seen | None, ...]:
        """What is on record of arms with other outcomes than good or bad."""
        return seen(self.problem, self.allocations.values(), self.batches.values(), left_out)

    def has_room_for(self, pulls: int) -> bool:
        """Whether so many more may be pending."""
        return self.limits.open is None or sum(self.open) + pulls <= self.limits.open

    def may_cancel(self, pulls: int) -> bool:
        """Whether so many more may be cancelled."""
        most = self.limits.cancelled
        return most is None or self.cancelled + pulls <= most

    def unmasked_since(self, time: str, person: str) -> int:
        """Allocations that a person has unmasked after a time."""
        return sum(who == person and at > time for (_, who), at in self.unmasked.items())

    def position(self, arm: str) -> int:
        """Where an arm stands in the problem."""
        return self._positions[arm]

    def look_alike(self, subject: str | None) -> str | None:
        """The spelling on record of a subject that a reader would take for this one."""
        keys = () if subject is None else look_alike_keys(subject)
        return next((self._look_alikes[key] for key in keys if key in self._look_alikes), None)

    def _forget_subject(self, subject: str | None) -> None:
        if subject is not None:
            self.subjects.pop(subject, None)
            for key in look_alike_keys(subject):
                self._look_alikes.pop(key, None)

    def kind(self, arm: str) -> ArmModel:
        """What outcomes an arm has."""
        return self.kinds[arm]

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
        later.allocations, later.batches = dict(self.allocations), dict(self.batches)
        later.answered, later.refusals = dict(self.answered), dict(self.refusals)
        later.since = dict(self.since)
        later.good, later.bad, later.open = list(self.good), list(self.bad), list(self.open)
        later.lost, later.other = list(self.lost), list(self.other)
        later.subjects, later.cancellations = dict(self.subjects), list(self.cancellations)
        later._look_alikes, later.unmasked = dict(self._look_alikes), dict(self.unmasked)
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
            refusal = Refusal(Request.of_refusal(data["request"]), event.by, data["why"])
            self.refusals[refusal] = int(data["times"])
            answer = Answered(refusal.request, refusal=refusal.why)
        elif event.kind in TURNS:
            self.state = TURNS[event.kind]
            answer = Answered(Request.of(event.kind, data))
        elif event.kind == "limited":
            self.limits = limits_of(data["limits"])
            answer = Answered(Request.of(event.kind, data))
        elif event.kind in BATCH_KINDS:
            batch = self._batch_step(event)
            self._wait(batch, event)
            answer = Answered(Request.of(event.kind, data), batch=batch)
        else:
            made = self._step(event)
            self._wait(self.allocations[made], event)
            answer = Answered(Request.of(event.kind, data), allocation=made)
        self._look()
        if event.key is not None:
            self.answered[event.by, event.key] = answer
        self.seq, self.head = event.seq, event.hash

    def _look(self) -> None:
        """Keep what is known where a look of the rules falls due."""
        rules, known = self.settings.rules, self.told
        if known > self._most_known:
            if rules is not None and rules.looks_between(self._most_known, known):
                self.looks += (self.known,)
            self._most_known = known

    def _create(self, event: Event) -> None:
        self.name, self.created_at = event.data["name"], event.at
        self.settings = TrialSettings.from_dict(event.data["plan"])
        self._positions = {arm.name: k for k, arm in enumerate(self.problem.arms)}
        self.kinds = kinds_by_name(self.problem)
        empty = ([0] * len(self._positions) for _ in range(5))
        self.good, self.bad, self.other, self.open, self.lost = empty
        self.limits = limits_of(event.data["limits"])
        self.codes = codes_of(event.data["codes"], len(self._positions))

    def _step(self, event: Event) -> str:
        """One allocation made, moved from one state to the next, or unmasked; its id."""
        kind, data = event.kind, event.data
        name = str(data["allocation"])
        if kind == "unmasked":
            self.unmasked[self.allocations[name].id, event.by] = event.at
            return name
        if kind == "asked":
            if self.batches or self.problem.repeat:
                raise ValueError("the trial allocates whole batches")
            subject, note = data.get("subject"), data.get("note")
            self._take(name, data, 1)
            slot = Allocation(
                name, data["arm"], self.stage, data["reason"], subject=subject, note=note
            )
            self._count(slot, +1)
        else:
            before = self.allocations[name]
            self._count(before, -1)
            outcome, arm = data.get("outcome"), self.kind(before.arm)
            slot = moved(before, kind, outcome, arm, data.get("reason"))
            if outcome is not None:
                check_order(arm, self.allocations.values(), before, outcome)
            self._count(slot, +1)
            if kind == "cancelled":
                if not self.may_cancel(1):
                    raise ValueError("too many were cancelled")
                self.cancellations.append(Cancellation(event.by, slot.arm, data["reason"]))
                self._forget_subject(slot.subject)
        self.allocations[name] = slot
        return name

    def _take(self, made: str, data: dict[str, Any], pulls: int) -> None:
        """An ask for so many slots of the stage under way."""
        taken = made in self.allocations or made in self.batches
        if taken or self.used + pulls > self.slots:
            raise ValueError("no such slot is free")
        if data["decision"]["stage"] != self.stage:
            raise ValueError("not the stage under way")
        if self.state != "running" or not self.has_room_for(pulls):
            raise ValueError("the trial was closed, or too many were pending")
        subject = data.get("subject")
        if subject is not None:
            if self.look_alike(subject) is not None:
                raise ValueError("the subject has an allocation")
            self.subjects[subject] = made
            self._look_alikes.update(dict.fromkeys(look_alike_keys(subject), subject))

    def _batch_step(self, event: Event) -> Batch:
        """One batch made, or moved from one state to the next."""
        kind, data = event.kind, event.data
        name = str(data["batch"])
        if kind == "batch_asked":
            if self.allocations:
                raise ValueError("the trial allocates single pulls")
            self._take(name, data, self.problem.pulls_per_stage)
            batch = new_batch(name, self.problem, self.kinds, self.stage, data)
        else:
            before = self.batches[name]
            self._count_batch(before, -1)
            request = Request.of(kind, data)
            batch = batch_moved(before, kind, request.counts or (), self.kinds, request.reason)
            check_batch_order(self.problem, (self.batches | {name: batch}).values())
            if kind == "batch_cancelled":
                self._give_up(before, batch, event)
        self._count_batch(batch, +1)
        self.batches[name] = batch
        return batch

    def _give_up(self, before: Batch, after: Batch, event: Event) -> None:
        """What was pending of a batch is cancelled."""
        if not self.may_cancel(before.pending):
            raise ValueError("too many were cancelled")
        reason = event.data["reason"]
        self.cancellations += [
            Cancellation(event.by, one.arm, reason, one.pending)
            for one in before.arms
            if one.pending
        ]
        if not after.holds_slots:
            self._forget_subject(after.subject)

    def _count_batch(self, batch: Batch, by: int) -> None:
        if not batch.holds_slots:
            return
        for k, one in enumerate(batch.arms):
            if one.good is None:
                self.other[k] += by * one.told
            else:
                self.good[k] += by * one.good
                self.bad[k] += by * (one.told - one.good)
            self.open[k] += by * one.pending
            self.lost[k] += by * one.cancelled
        self.used += by * batch.pulls

    def _wait(self, made: Allocation | Batch, event: Event) -> None:
        if made.state != "open":
            self.since.pop(made.id, None)
        elif event.kind in ASKS:
            self.since[made.id] = event.at

    def _count(self, slot: Allocation, by: int) -> None:
        if slot.state == "cancelled":
            return
        counts = self.good if slot.outcome else self.bad
        if slot.state == "open":
            counts = self.open
        elif not self.kind(slot.arm).counts_good:
            counts = self.other
        counts[self._positions[slot.arm]] += by
        self.used += by
