"""The state of a trial that follows from its events, whatever the order of the outcomes.

Only this module decides which event may follow; segments have ledgers of their own (`of`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from ..policies import DEFAULT_POLICY, policy_class
from ..problem import ArmModel, Outcome, Problem, State, Stats, is_paid
from ..support import InvalidArgument, Unsupported, look_alike_keys
from . import errors
from .allocations import (
    Allocation,
    Kinds,
    changed,
    check_order,
    kinds_by_name,
    known_of,
    new_allocation,
    parts_by_arm,
    told_counts,
)
from .errors import Conflict, Contradiction, Damaged, Locked, TrialError
from .events import (
    GENESIS,
    Answered,
    CancellationCount,
    Change,
    Correction,
    Course,
    Event,
    Refusal,
    Request,
)
from .settings import (
    ARM_KINDS,
    ArmChange,
    TrialLimits,
    TrialSettings,
    arm_of,
    codes_of,
    known_with,
    letters,
    policy_after,
    with_arm,
    without_arm,
)

TrialState = Literal["running", "closed", "archived", "locked"]
# state of the trial after an event of these kinds
TURNS: dict[str, TrialState] = {
    "closed": "closed",
    "reopened": "running",
    "archived": "archived",
    "locked": "locked",
    "unlocked": "closed",
}
LOCKED = "the trial is locked; another person than the one who locked it can unlock it"
_OF_THE_TRIAL = ("seq", "head", "name", "created_at", "state", "limits")  # in a segment's ledger


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
        self.answered: dict[tuple[str, str], Answered] = {}  # by sender and key
        self.refusals: dict[Refusal, int] = {}  # number in the log
        self.since: dict[str, str] = {}  # times of pending allocations, the oldest first
        self.used = 0  # slots: pending, with an outcome, lost or without a pull
        self.unused = 0  # slots of stages in use that had no pull, within a budget
        self._spent = Fraction(0)  # exact: it does not depend on the order of changes
        self._positions: dict[str, int] = {}
        self.kinds: dict[str, ArmModel] = {}  # of every arm by its name
        self.recorded: list[int] = []  # outcomes of every arm
        self.good: list[int] = []  # good ones among them, of binary arms
        self.open: list[int] = []  # pending allocations of every arm
        self.lost: list[int] = []  # cancelled pulls whose stage is used
        self.looks: tuple[State, ...] = ()  # state at each interim look
        self._max_told = 0  # largest number of recorded outcomes
        self.state: TrialState = "running"
        self.locked_by = ""
        self.reviewed: int | None = None  # last event that somebody has reviewed
        self.certificate: dict[str, Any] | None = None  # of the bound at the start
        self.design: dict[str, Any] | None = None  # the trial came from it
        self.design_report: str | None = None  # SHA-256 of its operating characteristics
        self.limits = TrialLimits()
        self.codes: list[str] = []  # of every arm
        self.subjects: dict[str, str] = {}  # allocation by subject, cancelled ones left out
        self.ahead: dict[str, None] = {}  # pending allocations without a subject yet, in order
        self._look_alikes: dict[str, str] = {}  # subjects by `look_alike_keys`
        # by person and arm, in order of first occurrence
        self.cancellations: dict[tuple[str, str], CancellationCount] = {}
        self.courses: dict[str, Course] = {}  # by allocation
        self.waited = False  # whether arms were allocated while outcomes were pending
        self.revised = False  # whether outcomes were corrected after they had led to allocations
        self.corrections: list[Correction] = []
        self.changes: list[Change] = []  # of the trial as a whole, and unmaskings
        self.refused = 0  # events
        self.versions: dict[str, None] = {}  # that wrote the log, in order
        self.created_by = ""
        self.unmasked: dict[tuple[str, str], str] = {}  # time by allocation and reader
        self.arm_changes: tuple[ArmChange, ...] = ()
        self.segment: str | None = None  # whose ledger this is
        self._segments: dict[str, Ledger] = {}
        self._free: int | None = None  # slots left in the whole trial, in the ledger of a segment

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def slots(self) -> int:
        """Total number of pulls of the trial; of a segment, those that it has or may get."""
        if self._free is not None:
            return self.used + self._free
        return self.problem.horizon * self.problem.pulls_per_stage

    @property
    def parts(self) -> list[Ledger]:
        """Ledgers of the segments; the ledger itself where there are none."""
        return [self.of(name) for name in self._segments] or [self]

    def of(self, segment: str | None) -> Ledger:
        """Return the ledger of a segment; `TrialError` unless the trial has this segment."""
        if segment is None and not self._segments:
            return self
        if segment not in self._segments:
            names = ", ".join(self._segments)
            rule = f"must be one of {names}" if names else "the trial has no segments"
            shown = "is missing" if segment is None else f"{segment!r} is not allowed"
            raise TrialError(f"segment: {shown}; {rule}", field="segment")
        part = copy(self._segments[segment])
        for name in _OF_THE_TRIAL:
            setattr(part, name, getattr(self, name))
        part._free = self.slots - self.used
        return part

    @property
    def stage(self) -> int:
        """Stages completed by the slots in use."""
        return self.used // self.problem.pulls_per_stage

    @property
    def asks(self) -> int:
        """Number of allocations, cancelled ones included."""
        return len(self.allocations)

    @property
    def told(self) -> int:
        """Slots with an outcome."""
        return sum(self.recorded)

    @property
    def awaits_states(self) -> bool:
        """Whether all arms have moved and their states are not recorded yet."""
        return self.problem.is_restless and sum(self.open) > 0

    @property
    def finished(self) -> bool:
        """Whether every slot has its outcome, is lost or unused, or no money is left for more."""
        if self.told + sum(self.lost) + self.unused == self.slots:
            return True
        return not sum(self.open) and not self.can_pay

    @property
    def spent(self) -> float:
        """Money that pulls have cost, pending and lost ones included."""
        return float(self._spent)

    @property
    def left(self) -> float | None:
        """Money left of the budget; None without one."""
        budget = self.problem.budget
        return None if budget is None else max(budget - self.spent, 0.0)

    @property
    def can_pay(self) -> bool:
        """Whether the money left can pay for some arm at some stage left."""
        if self.left is None:
            return True
        problem, later = self.problem, slice(self.stage, self.problem.horizon)
        paid = is_paid(problem.unit * problem.costs[later], self.left)
        return bool((paid & problem.available[later]).any())

    @property
    def cancelled(self) -> int:
        return sum(one.count for one in self.cancellations.values())

    @property
    def stock(self) -> list[str]:
        """Ids of allocations drawn ahead that may get a subject: of the arms of now."""
        return [one for one in self.ahead if self.allocations[one].stage >= self._first_stage]

    @property
    def known(self) -> State:
        """Recorded outcomes of every arm."""
        counts = zip(self.recorded, self.good, strict=True)
        rows: list[Stats] = [(good, recorded - good) for recorded, good in counts]
        if not all(kind.counts_good for kind in self.kinds.values()):
            parts = parts_by_arm(self.allocations.values())
            for k, (arm, kind) in enumerate(self.kinds.items()):
                if not kind.counts_good:
                    rows[k] = known_of(kind, parts.get(arm, ()), self.stage)
        return State(tuple(rows), tuple(self.kinds.values()))

    def unmasked_since(self, time: str, person: str) -> int:
        """Count the allocations that a person has unmasked after a time."""
        return sum(who == person and at > time for (_, who), at in self.unmasked.items())

    def position(self, arm: str) -> int:
        return self._positions[arm]

    def look_alike(self, subject: str | None) -> str | None:
        """Return the recorded subject that looks like this one, if there is one."""
        keys = () if subject is None else look_alike_keys(subject)
        return next((self._look_alikes[key] for key in keys if key in self._look_alikes), None)

    def allocation(self, slot_id: str | None) -> Allocation:
        """Return an allocation by its id; `NotFound` if there is none."""
        slot = self.allocations.get(slot_id or "")
        if slot is None:
            raise errors.NotFound("no such allocation in this trial", field="allocation")
        return slot

    def _check_running(self) -> None:
        if self.state != "running":
            raise errors.Closed("the trial is closed; an administrator can reopen it")

    def check_subject(self, subject: str | None) -> None:
        """Refuse a subject that has an allocation, and any where the trial is closed."""
        taken = self.look_alike(subject)
        if taken is not None:
            raise Contradiction(
                f"subject: {subject!r} is recorded as {taken!r}, which has an allocation; use "
                "that spelling, or one that differs in more than case, blanks or alphabet"
            )
        self._check_running()

    def check_ask(self, subject: str | None = None) -> None:
        """Refuse an ask without a free slot, or for a subject that has an allocation."""
        self.check_subject(subject)
        pulls = self.problem.pulls_per_stage
        if self.used + pulls > self.slots:
            raise errors.NoFreeSlot("every slot of the trial is in use")
        if not self.can_pay:
            left = f"{self.left:g} of {self.problem.budget:g}"
            raise errors.BudgetSpent(f"the budget left, {left}, pays no arm: the trial is over")
        if self.awaits_states:
            rule = "record the outcomes or states of the last stage first"
            raise errors.LimitReached(f"arms move at rest: {rule}")
        if self.limits.open is not None and sum(self.open) + pulls > self.limits.open:
            raise errors.LimitReached("too many allocations are pending; record an outcome first")

    def check_turn(self, kind: str, by: str) -> None:
        """Refuse a turn (close, reopen, archive, lock, unlock) that may not follow."""
        if kind == "unlocked":
            if self.state != "locked":
                raise Conflict("the trial is not locked")
            if by == self.locked_by:
                raise Conflict("another person than the one who locked the trial must unlock it")
        elif self.state == "locked":
            raise Locked(LOCKED)
        elif kind == "locked" and self.state != "closed":
            raise Conflict(f"the trial is {self.state}; only a closed trial can be locked")
        elif kind == "closed" and self.state == "archived":
            raise Conflict("the trial is archived, and so closed; reopen it first")

    def check_unmask(self, role: str | None) -> None:
        permitted = self.limits.unmask_role
        if permitted is not None and role != permitted:
            raise errors.NotPermitted(f"this trial permits only the role {permitted} to unmask")

    def following(self, event: Event) -> Ledger:
        """Return the ledger after the event of a request; `TrialError` if it is not allowed."""
        later = self._copy()
        later._apply(event)
        return later

    def extended(self, events: Iterable[Event]) -> Ledger:
        """Return the ledger after more events; `Damaged` if one of them is not legal."""
        later = self._copy()
        for event in events:
            later.advance(event)
        return later

    def _copy(self) -> Ledger:
        later = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list):
                setattr(later, name, value.copy())
        later._segments = {name: part._copy() for name, part in self._segments.items()}
        return later

    def advance(self, event: Event) -> None:
        """Apply an event in place: only for a ledger that is not shared."""
        try:
            self._apply(event)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise Damaged(
                f"trial {event.trial}, event {event.seq}: {event.kind!r} cannot have happened "
                f"there ({error})"
            ) from None

    def _apply(self, event: Event) -> None:
        if (event.kind == "created") != (event.seq == 0):
            raise InvalidArgument("a trial is created once, first")
        if event.kind == "created":
            self._create(event)
        else:
            answer = self._step(event)
            if event.key is not None:
                self.answered[event.by, event.key] = answer
        self._look()
        self.versions[event.version] = None
        self.seq, self.head = event.seq, event.hash

    def _look(self) -> None:
        """Keep the state at an interim look that is due."""
        rules, recorded = self.settings.rules, self.told
        for part in self._segments.values():
            part._look()
        if recorded > self._max_told and not self._segments:
            if rules is not None and rules.looks_between(self._max_told, recorded):
                self.looks += (self.known,)
            self._max_told = recorded

    def _create(self, event: Event) -> None:
        self.name, self.created_at, self.created_by = event.data["name"], event.at, event.by
        self.settings = TrialSettings.from_dict(event.data["plan"])
        self.codes = codes_of(event.data["codes"], self.problem.n_arms)
        self._use(self.settings)
        for segment, settings in self.settings.segments.items():
            part = Ledger(self.trial)
            part.segment, part.codes = segment, self.codes
            part._use(settings)
            self._segments[segment] = part
        self.limits = TrialLimits.of(event.data["limits"])
        self.certificate = event.data["certificate"]
        self.design, self.design_report = event.data["design"], event.data["design_report"]

    def using(self, settings: TrialSettings) -> Ledger:
        """Return the ledger with the settings after an arm joined or left."""
        later = self._copy()
        later._use(settings)
        return later

    def _use(self, settings: TrialSettings) -> None:
        """Take settings, which may have more arms than those before."""
        problem = settings.problem
        self.settings, self.kinds = settings, kinds_by_name(problem)
        self._positions = {arm.name: k for k, arm in enumerate(problem.arms)}
        for counts in (self.recorded, self.good, self.open, self.lost):
            counts.extend([0] * (problem.n_arms - len(counts)))
        self.codes.extend(letters(k) for k in range(len(self.codes), problem.n_arms))
        self.looks = tuple(known_with(problem, state) for state in self.looks)

    def _step(self, event: Event) -> Answered:
        """Apply an event after the first; return the answer to its sender."""
        kind, data, slot = event.kind, event.data, None
        if kind == "refused":
            tree = data["request"]
            refusal = Refusal(Request.of(tree["kind"], tree), event.by, data["why"])
            self.refusals[refusal] = int(data["times"])
            self.refused += 1
            return Answered(refusal.request, refusal=refusal.why)
        request = Request.of(kind, data)
        if kind in (*TURNS, "limited", "unmasked", "reviewed"):
            why = request.reason or request.note or ""
            about = (why, request.category, request.up_to)
            self.changes.append(Change(kind, event.by, event.at, *about))
        if kind in TURNS:
            self.check_turn(kind, event.by)
            self.state = TURNS[kind]
            self.locked_by = event.by if kind == "locked" else ""
        elif kind == "reviewed":
            if type(request.up_to) is not int or not 0 <= request.up_to <= self.seq:
                rule = f"must be 0 to {self.seq}, the number of an event"
                raise TrialError(f"up_to: {request.up_to} is not allowed; {rule}", field="up_to")
            self.reviewed = request.up_to
        elif kind == "limited":
            self.limits = TrialLimits.of(data["limits"])
        elif kind in ARM_KINDS:
            self._change_arms(event, request)
        elif kind == "unmasked":
            slot = self.allocation(request.allocation)
            self.check_unmask(request.role)
            self.unmasked[slot.id, event.by] = event.at
        elif kind == "assigned":
            if self.state == "locked":
                raise Locked(LOCKED)
            self._assign(data["subjects"])
        elif kind == "asked":
            slot = self._allocate(event)
        else:
            slot = self._change(event)
        return Answered(request, slot)

    @property
    def _first_stage(self) -> int:
        """First stage with the arms of now."""
        return self.arm_changes[-1].stage if self.arm_changes else 0

    def check_arms(self) -> None:
        """Refuse that arms join or leave a trial that makes no more allocations."""
        if self._segments:
            rule = "a segment counts its own visitors, not stages; create another trial"
            raise Unsupported(f"arms cannot join or leave segments: {rule}", field="arm")
        if self.problem.is_restless:
            raise Unsupported("arms that move at rest neither join nor leave a running trial")
        self._check_running()
        if self.used >= self.slots:
            raise errors.NoFreeSlot("every slot of the trial is in use")

    def problem_after(self, request: Request, dropped: tuple[str, ...] = ()) -> Problem:
        """Return the problem from the current stage on, after an arm has joined or left."""
        if request.kind == "arm_closed":
            return without_arm(self.problem, str(request.arm), self.stage, dropped)
        arm = arm_of(json.loads(str(request.definition)))
        if arm.name != request.arm:
            raise InvalidArgument("the arm has another name")
        return with_arm(self.problem, arm, self.stage)

    def _change_arms(self, event: Event, request: Request) -> None:
        data, before = event.data, self.settings
        self.check_arms()
        after = TrialSettings.from_dict(data["plan"])
        policy = policy_after(before.policy, after.problem, request.policy)
        if policy == DEFAULT_POLICY:  # the log has the name of the policy that it picked
            picked = policy_class(after.policy, places=False).refusal(after.problem) is None
        else:
            picked = after.policy == policy
        fixed = (before.ties, before.seed, before.rules)
        if not picked or (after.ties, after.seed, after.rules) != fixed:
            raise InvalidArgument("other settings than the arms were changed")
        if data["stage"] != self.stage or after.problem != self.problem_after(request):
            raise InvalidArgument("not the problem with this change at the stage under way")
        earlier, now = (
            None if one.prices is None else one.prices[: self.stage].tolist()
            for one in (before, after)
        )
        if earlier is not None and now != earlier:
            raise InvalidArgument("prices of earlier stages were changed")
        self._use(after)
        about = (event.kind, str(request.arm), self.stage, event.by, event.at, data["reason"])
        changed_policy = None if after.policy == before.policy else after.policy
        self.arm_changes += (ArmChange(*about, data["bound_from_here"], changed_policy),)

    def _allocate(self, event: Event) -> Allocation:
        data, slot_id = event.data, str(event.data["allocation"])
        if slot_id in self.allocations:
            raise InvalidArgument("the id is in use")
        part = self.of(data.get("segment"))
        if data["decision"]["stage"] != part.stage:
            raise InvalidArgument("not the stage under way")
        subject = data.get("subject")
        self.check_ask(subject)
        slot = new_allocation(slot_id, part.problem, part.kinds, part.stage, data)
        if self.left is not None and not is_paid(float(self._cost(slot)), self.left):
            raise InvalidArgument("the allocation costs more than is left of the budget")
        if data.get("ahead"):
            self.ahead[slot_id] = None
        probabilities = data["decision"].get("probabilities")
        self.courses[slot_id] = Course(data["number"] + 1, event.by, event.at, probabilities)
        self.waited |= any(self.open)
        self._remember_subject(subject, slot_id)
        if slot.state == "open":
            self.since[slot_id] = event.at
        self._enter(slot)
        return slot

    def _remember_subject(self, subject: str | None, slot_id: str) -> None:
        if subject is not None:
            self.subjects[subject] = slot_id
            self._look_alikes.update(dict.fromkeys(look_alike_keys(subject), subject))

    def _assign(self, subjects: Mapping[str, str]) -> None:
        """Give allocations that were drawn ahead their subjects, by id."""
        for slot_id, subject in subjects.items():
            if slot_id not in self.ahead:
                raise InvalidArgument("the allocation was not drawn ahead, or has its subject")
            self.check_subject(subject)
            del self.ahead[slot_id]
            self._enter(replace(self.allocation(slot_id), subject=subject))
            self._remember_subject(subject, slot_id)

    def _enter(self, slot: Allocation) -> None:
        """Count an allocation, in place of itself before."""
        before = self.allocations.get(slot.id)
        if before is not None:
            self._count(before, -1)
        self._count(slot, +1)
        self.allocations[slot.id] = slot
        if slot.segment in self._segments:
            self._segments[slot.segment]._enter(slot)

    def _change(self, event: Event) -> Allocation:
        data, before = event.data, self.allocation(event.data["allocation"])
        if self.state == "locked":
            raise Locked(LOCKED)
        cancels, reason = event.kind == "cancelled", data.get("reason")
        part = self.of(before.segment)
        counts = () if cancels else told_counts(before, part.kinds, data)
        slot = changed(before, event.kind, counts, part.kinds, reason)
        if slot.state == "cancelled" and slot.stage < self._first_stage:
            slot = replace(slot, state="told")  # that stage is over: its arms have changed
        if cancels:
            self._cancel(before, slot, event)
        else:
            check_order(part.kinds, (part.allocations | {slot.id: slot}).values())
        self.ahead.pop(slot.id, None)
        if slot.state != "open":
            self.since.pop(slot.id, None)
        self._enter(slot)
        course = self.courses[slot.id]
        if event.kind == "corrected":
            self.revised |= course.number < self.asks
            for arm, _ in counts:
                outcomes = _recorded(before, arm, part.kinds), _recorded(slot, arm, part.kinds)
                about = (*outcomes, event.by, event.at, data["reason"])
                self.corrections.append(Correction(slot.id, course.number, arm, *about))
        self.courses[slot.id] = replace(
            course,
            told_at=course.told_at if cancels else event.at,
            complete_at=None if slot.pending else course.complete_at or event.at,
            changed_by=event.by,
            changed_at=event.at,
            change_reason=reason or "",
        )
        return slot

    def _cancel(self, before: Allocation, after: Allocation, event: Event) -> None:
        most = self.limits.cancelled
        if most is not None and self.cancelled + before.pending > most:
            raise errors.LimitReached("too many are cancelled; an administrator can permit more")
        by, reason = event.by, event.data["reason"]
        for arm, pending in ((part.arm, part.pending) for part in before.arms if part.pending):
            so_far = self.cancellations.get((by, arm), CancellationCount(by, arm, 0, ()))
            reasons = tuple(dict.fromkeys((*so_far.reasons, reason)))
            count = so_far.count + pending
            self.cancellations[by, arm] = CancellationCount(by, arm, count, reasons)
        if not after.told and after.subject is not None:
            self.subjects.pop(after.subject, None)
            for key in look_alike_keys(after.subject):
                self._look_alikes.pop(key, None)

    def _count(self, slot: Allocation, by: int) -> None:
        if not slot.holds_slots:
            return
        for part in slot.arms:
            k = self._positions[part.arm]
            self.recorded[k] += by * part.told
            self.good[k] += by * (part.good or 0)
            self.open[k] += by * part.pending
            self.lost[k] += by * part.cancelled
        stage = self.problem.pulls_per_stage
        self.used += by * stage
        self.unused += by * (stage - slot.size)
        self._spent += by * self._cost(slot)

    def _cost(self, slot: Allocation) -> Fraction:
        if self.problem.budget is None:
            return Fraction(0)
        costs, at = self.problem.costs[slot.stage], self._positions
        return sum((n * Fraction(costs[at[arm]]) for arm, n in slot.pulls.items()), Fraction(0))


def _recorded(slot: Allocation, arm: str, kinds: Kinds) -> Outcome:
    """Return the outcome of a single pull, or the tally of an arm."""
    part = slot.part(arm)
    assert part is not None  # it has outcomes
    if slot.outcome is not None:
        return slot.outcome
    return kinds[arm].format.write_tally(part.tally(kinds[arm]))
