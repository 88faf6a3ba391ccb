"""Requests to a trial, each of which becomes one event or gets the answer of an earlier one.

Slow decisions are made before the transaction that records them, and repeated if the trial has
changed by then; short ones are made in it, and many can share a commit (`Change.attempt`).
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Condition, Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from sqlalchemy import Connection

from ..problem import Arm, ArmModel, Outcome
from ..support import look_alike_keys
from . import errors
from .allocations import (
    Allocation,
    Told,
    given_tally,
    is_on_record,
    kinds_by_name,
    sole_arm,
    told_counts,
    told_of,
)
from .database import Store
from .decisions import Decision, PendingState, decider_of, decision_record, pending_state
from .errors import Conflict, Damaged, StoreError, TrialError
from .event_log import EventLog, NotAtOnce, record
from .events import Refusal, Request, canonical, line_of, outcome_of
from .ledger import TURNS, Ledger
from .settings import TrialSettings, arm_of, in_order
from .status import Summary, arm_change_record, summary_of

Answer = TypeVar("Answer")
Work = Callable[[Connection, Ledger], Answer | Conflict]

NEEDS_MORE = (NotAtOnce, Damaged)  # after which an attempt is resumed
TURN_SECONDS = 60.0  # that a change waits for the asks before it
MAX_ATTEMPTS = 20  # to record a decision that was made ahead, while others write
MAX_COUNT = 10**9 - 1


@dataclass(frozen=True)
class Change(Generic[Answer]):
    """A request to a trial, checked and ready."""

    log: EventLog
    trial: str
    work: Work[Answer]  # in a transaction
    is_short: Callable[[], bool]  # whether others may wait for it
    alone: Callable[[], Answer]  # the slow way

    def made(self) -> Answer:
        """Make the change, and wait until it is on disk."""
        if not self.is_short():
            return self.alone()
        try:
            return answered(self.log.store.write(self.attempt))
        except NEEDS_MORE as error:
            return self.resume(error)

    def attempt(self, connection: Connection) -> Answer | Conflict:
        """Make the change in this transaction; `NotAtOnce` where others would have to wait."""
        if not self.is_short():
            raise NotAtOnce
        return self.work(connection, self.log.locked(connection, self.trial))

    def resume(self, error: NotAtOnce | Damaged) -> Answer:
        """Continue after a failed attempt, by itself; record and raise damage."""
        with self.log.damage.remembering(self.trial):
            if isinstance(error, Damaged):
                raise error
        return self.alone()


@dataclass(frozen=True)
class Writing:
    """A request within the transaction that records it."""

    log: EventLog
    connection: Connection
    ledger: Ledger
    request: Request

    def append(self, data: dict[str, Any], kind: str | None = None) -> Ledger:
        """Append the event of the request, with what it says itself; or one of another kind."""
        request = self.request
        data = data if kind else data | request.details()
        about: dict[str, Any] = {"by": request.by, "key": request.key}
        return self.log.append(self.connection, self.ledger, kind or request.kind, data, **about)

    def refuse(self, why: str) -> Conflict:
        """Log the refusal, or count a repeated one.

        The refusal is returned, not raised: an exception would roll back the log.
        """
        request = self.request
        times = self.log.count_refusal(self.ledger, Refusal(request, request.by, why))
        if times is not None:
            self.append({"request": request.refused(), "why": why, "times": times}, "refused")
        return Conflict(why, field=request.disputed)


Writer = Callable[[Writing], Answer | Conflict]


def answered(answer: Answer | Conflict) -> Answer:
    """Raise a refusal, which was returned so that its log entry is committed."""
    if isinstance(answer, Conflict):
        raise answer
    return answer


class FairLock:
    """A lock that threads get in the order in which they asked for it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._turns: deque[object] = deque()  # the first one holds the lock

    def locked(self) -> bool:
        return bool(self._turns)

    @contextmanager
    def held(self, seconds: float | None = None) -> Iterator[None]:
        turn, seconds = object(), TURN_SECONDS if seconds is None else seconds
        try:
            with self._changed:
                self._turns.append(turn)
                if not self._changed.wait_for(lambda: self._turns[0] is turn, seconds):
                    raise StoreError(
                        "too many requests wait for decisions of this trial; try again"
                    )
            yield
        finally:
            with self._changed:
                self._turns.remove(turn)
                self._changed.notify_all()


class Turns:
    """Order of asks (one at a time) and of changes held back by an overtaken ask."""

    def __init__(self) -> None:
        self.asks, self.changes = FairLock(), FairLock()


_turns: WeakKeyDictionary[Store, WeakValueDictionary[str, Turns]] = WeakKeyDictionary()
_turns_lock = Lock()


def turns_of(store: Store, trial: str) -> Turns:
    """Return the turns of a trial, shared by all handles on it."""
    with _turns_lock:
        return _turns.setdefault(store, WeakValueDictionary()).setdefault(trial, Turns())


class Outdated(NotAtOnce):
    """The trial changed between a decision and the transaction that was to record it."""


def decided_from(ledger: Ledger) -> tuple[PendingState, str]:
    """Return what a decision depends on, except the seed."""
    return pending_state(ledger), ledger.settings.tables_hash


Ahead = tuple[tuple[PendingState, str], Decision]  # a decision, and what it was made for


def decided_ahead(ledger: Ledger) -> Ahead | None:
    """Decide outside the transaction; None if that is short, or the ask will be refused."""
    decider = decider_of(ledger.settings)
    over = ledger.used >= ledger.slots or ledger.state != "running" or not ledger.can_pay
    if over or ledger.awaits_states or decider.is_short(ledger.stage):
        return None
    return decided_from(ledger), decider.decide(ledger)


def decision_at(ledger: Ledger, ahead: Ahead | None) -> Decision:
    """Return the decision inside the transaction; `Outdated` if it is slow and not made ahead."""
    if ahead is not None and ahead[0] == decided_from(ledger):
        return ahead[1]
    decider = decider_of(ledger.settings)
    with decider.at_once(ledger.stage) as short:
        if not short:
            raise Outdated
        return decider.decide(ledger)


# outcome of a single pull; by arm (good, pulls), "good/pulls" or a tally of the arm's model; or
# arm and outcome of every pull
GivenOutcomes = Outcome | Mapping[str, "str | Sequence[Outcome]"] | Iterable[tuple[str, Outcome]]


class Recording:
    """The part of `Trial` that makes changes: each checks, decides and writes one event."""

    id: str
    _event_log: EventLog
    _turns: Turns

    def read(self) -> Ledger:
        """Return the state of the trial in the database."""
        return self._event_log.read(self.id)

    @property
    def settings(self) -> TrialSettings:
        """Problem, policy, prices, tie rule and seed, as this process has read them last."""
        return self.latest.settings

    @property
    def latest(self) -> Ledger:
        """The state that this process has read or written last."""
        return self._event_log.latest(self.id) or self.read()

    def _asking(
        self, request: Request, write: Callable[[Ahead | None, Writing], Answer | Conflict]
    ) -> Change[Answer]:
        """Prepare an ask: `write` records the decision."""

        def attempt() -> Answer:
            ahead = decided_ahead(self.read().of(request.segment))
            return self._change(request, partial(write, ahead))

        def is_short() -> bool:
            ledger = self._event_log.latest(self.id)
            settings = None if ledger is None else ledger.settings
            if settings is not None and settings.segments:
                settings = settings.segments.get(str(request.segment))
            decider = None if settings is None else settings.decider
            return decider is not None and decider.prepared

        return Change(
            self._event_log,
            self.id,
            self._work(request, partial(write, None)),
            is_short=is_short,
            alone=lambda: self._until_current(attempt),
        )

    def _until_current(self, attempt: Callable[[], Answer]) -> Answer:
        """Repeat a slow change until no other one overtakes it."""
        with self._turns.asks.held():
            for number in range(MAX_ATTEMPTS):
                # the first attempt delays no one; later ones hold other changes back
                with nullcontext() if number == 0 else self._turns.changes.held():
                    try:
                        return attempt()
                    except Outdated:
                        continue
            raise StoreError("other processes change the trial faster than its policy decides")

    def _moving(self, request: Request, write: Writer[Answer]) -> Change[Answer]:
        """Prepare a change that an overtaken ask may hold back."""
        changes = self._turns.changes

        def in_turn() -> Answer:
            with changes.held() if changes.locked() else nullcontext():
                return self._change(request, write)

        return Change(
            self._event_log,
            self.id,
            self._work(request, write),
            is_short=lambda: not changes.locked(),
            alone=in_turn,
        )

    def _change(self, request: Request, write: Writer[Answer]) -> Answer:
        return answered(self._event_log.change(self.id, self._work(request, write)))

    def _work(self, request: Request, write: Writer[Answer]) -> Work[Answer]:
        """Return `write` for a transaction; a request answered before gets the same answer."""

        def work(connection: Connection, ledger: Ledger) -> Any:
            before = ledger.answered.get((request.by, request.key or ""))
            this = Writing(self._event_log, connection, ledger, request)
            if before is None:
                return write(this)
            if before.request != request:
                why = "the key was used for another request"
                replace(this, request=replace(request, key=None)).refuse(why)
                return Conflict(why, field="key")
            if before.refusal:
                return Conflict(before.refusal, field=request.disputed)
            return summary_of(ledger) if before.allocation is None else before.allocation

        return work

    # A closed trial makes no more allocations; outcomes of those that are pending can still be
    # recorded, corrected and cancelled. An archived one is closed, and hidden from lists. Both can
    # be reopened.

    def close(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Make no more allocations; those that are pending can still be recorded."""
        return self._turn("closed", reason, key, by)

    def reopen(self, *, reason: str, key: str | None = None, by: str = "library") -> Summary:
        """Make allocations again, and say why; an archived trial is listed again."""
        return self._turn("reopened", reason, key, by)

    def archive(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Close the trial, and hide it from lists."""
        return self._turn("archived", reason, key, by)

    def lock(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Refuse every change of a closed trial until another person unlocks it."""
        return self._turn("locked", reason, key, by)

    def unlock(self, *, reason: str, key: str | None = None, by: str = "library") -> Summary:
        """Permit changes of a locked trial again, and say why; not by who locked it."""
        return self._turn("unlocked", reason, key, by)

    def review(
        self, *, up_to: int, note: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Record that a person has reviewed the audit trail up to an event, by its number."""
        request = Request("reviewed", up_to=up_to, note=note, key=key, by=by)
        return self._summarised(request, lambda ledger: {})

    def _turn(self, kind: str, reason: str | None, key: str | None, by: str) -> Summary:
        request = Request(kind, reason=reason, key=key, by=by)
        return self._summarised(request, lambda ledger: None if ledger.state == TURNS[kind] else {})

    def _summarised(
        self, request: Request, content: Callable[[Ledger], dict[str, Any] | None]
    ) -> Summary:
        """Append an event with this content; none where it is None: the trial is so already."""

        def write(this: Writing) -> Summary:
            data = content(this.ledger)
            return summary_of(this.ledger if data is None else this.append(data))

        return self._change(request, write)

    def set_limits(
        self,
        *,
        reason: str,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        unmask_role: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Summary:
        """Change how many allocations may be pending, cancelled or unmasked, and say why.

        `unmask_role`: the only role that may unmask; "any": every role.
        """
        limits: dict[str, Any] = {
            "max_open": max_open,
            "max_cancelled": max_cancelled,
            "max_unmasked": max_unmasked,
            "unmask_role": unmask_role,
        }
        request = Request("limited", reason=reason, key=key, by=by, **limits)

        def content(ledger: Ledger) -> dict[str, Any] | None:
            after = ledger.limits.changed(**limits)
            return None if after == ledger.limits else {"limits": after.to_dict()}

        return self._summarised(request, content)

    def add_arm(
        self,
        arm: Arm | Mapping[str, Any],
        *,
        reason: str,
        policy: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Summary:
        """Let an arm join from the next stage on, and give the reason: `arm` as in a problem file.

        Rewards by stage have one number for every stage of the trial. `policy`: another one from
        here on, if that of the trial does not serve arms with windows. Prices and the bound of the
        stages left are computed again, at the posterior of the recorded outcomes. Slots of
        allocations before this stage are not free again when they are cancelled.
        """
        joining = arm_of(arm)
        definition = canonical(joining.model_dump(mode="json", exclude_none=True))
        about = {"arm": joining.name, "definition": definition, "policy": policy}
        return self._change_arms("arm_added", about, reason, key, by)

    def close_arm(
        self,
        arm: str,
        *,
        reason: str,
        policy: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Summary:
        """Stop allocating an arm from the next stage on, with a reason; arguments as in `add_arm`.

        Its pending outcomes can still be recorded. A deployment may still choose it.
        """
        return self._change_arms("arm_closed", {"arm": arm, "policy": policy}, reason, key, by)

    def _change_arms(
        self, kind: str, about: Mapping[str, Any], reason: str, key: str | None, by: str
    ) -> Summary:
        request = Request(kind, reason=reason, key=key, by=by, **about)

        def attempt() -> Summary:
            """Solve the prices, then record the change."""
            before = self.read()
            if (request.by, request.key or "") in before.answered:
                return self._summarised(request, lambda ledger: None)
            data = arm_change_record(before, request)

            def content(ledger: Ledger) -> dict[str, Any]:
                ledger.check_arms()
                if decided_from(ledger) != decided_from(before):
                    raise Outdated
                return data

            return self._summarised(request, content)

        return self._until_current(attempt)

    def unmask(
        self,
        allocation_id: str,
        *,
        category: str,
        reason: str,
        role: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Return an allocation with the name of its arm, for a blinded user.

        The log of the trial and the access log keep the reason, of at least ten characters, and the
        `category`: planned, emergency or inadvertent. `role`: of the sender, where the trial
        permits one role only; `NotPermitted` for another. `LimitReached` beyond the limit of one
        person for 24 hours. Repeated for the same user, nothing is written.
        """
        about: dict[str, Any] = {"category": category, "role": role, "reason": reason}
        request = Request("unmasked", allocation_id, **about, key=key, by=by)

        def write(this: Writing) -> Allocation:
            ledger = this.ledger
            slot = ledger.allocation(allocation_id)
            ledger.check_unmask(role)
            if slot.arm is None:
                raise Conflict("unmasking an allocation of several arms would reveal all codes")
            if (slot.id, by) not in ledger.unmasked:
                number = ledger.unmasked_since(_day_ago(), by) + 1
                if number > ledger.limits.unmasked:
                    raise errors.LimitReached(
                        "as many allocations as the trial permits were unmasked by you within 24 "
                        "hours; an administrator can permit more"
                    )
                data = {"allocation": slot.id, "number_in_24_hours": number}
                this.append(data)
                data |= {"trial": ledger.trial, "name": ledger.name, **request.details()}
                record(this.connection, "unmasked", data, by=by)
            return slot

        return self._change(request, write)

    def ask(
        self,
        *,
        subject: str | None = None,
        segment: str | None = None,
        note: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Allocate the next stage: one arm, or pulls by arm. `NoFreeSlot` when none is left.

        A subject has one allocation until that is cancelled as a whole: asking again for the same
        subject returns the same allocation, and writes nothing. `segment`: that of the visitor,
        needed where the trial has segments; a subject belongs to one.
        """
        return self.asking(subject=subject, segment=segment, note=note, key=key, by=by).made()

    def asking(self, *, ahead: bool = False, **fields: Any) -> Change[Allocation]:
        """Prepare an ask, as `ask` takes it; `ahead`: before a subject needs the allocation."""
        return self._asking(Request("asked", ahead=ahead or None, **fields), self._write_ask)

    def assigning(self, subjects: Sequence[str], *, by: str) -> Change[dict[str, Allocation]]:
        """Prepare to give subjects allocations that were drawn ahead, in one event.

        The answer has those subjects that have an allocation then. The others have to `ask`: where
        none is left that was drawn ahead, or their ask will be refused.
        """
        for subject in subjects:
            line_of(subject, "subject")
        return self._moving(Request("assigned", by=by), partial(self._write_assigned, subjects))

    def _write_assigned(self, subjects: Sequence[str], this: Writing) -> dict[str, Allocation]:
        ledger = this.ledger
        stock, allowed = ledger.stock, decider_of(ledger.settings).allowed(ledger)
        stock = [one for one in stock if ledger.allocations[one].arm in allowed]
        alike, assigned = set[str](), dict[str, str]()
        for subject in subjects:
            keys = look_alike_keys(subject)
            if (
                ledger.look_alike(subject) is None
                and not keys & alike
                and len(assigned) < len(stock)
            ):
                assigned[stock[len(assigned)]] = subject
                alike |= keys
        if assigned and ledger.state == "running":
            ledger = this.append({"subjects": assigned})
        known = ledger.subjects
        return {one: ledger.allocations[known[one]] for one in subjects if one in known}

    def tell(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        key: str | None = None,
        by: str = "library",
        by_code: bool = False,
        confirm_range: bool = False,
    ) -> Allocation:
        """Record outcomes of an allocation; those of several requests add up.

        `outcome` of a single pull: 1 is good, 0 is bad; others as the arm has them. Of several, by
        arm: (good, pulls) or "good/pulls"; of classes the count of each, "2+0+1"; of measurements
        and counts "sum/pulls"; of Markov arms the outcomes in the order of the pulls, "fine+worn";
        where arms move at rest, the state of every arm after the stage. Or rows of arm and outcome,
        one for every pull. Without a key, counts that are sent twice are recorded twice.

        `by_code`: arms are named by their codes, as blinded users see them. `confirm_range`:
        outcomes outside the plausible range of their arm are intended; `OutOfRange` otherwise. Of
        counts, the mean is compared.
        """
        return self.telling(
            allocation_id, outcome, key=key, by=by, by_code=by_code, confirm_range=confirm_range
        ).made()

    def telling(
        self, allocation_id: str, outcome: GivenOutcomes, *, by_code: bool = False, **fields: Any
    ) -> Change[Allocation]:
        """Prepare the record of outcomes, as `tell` takes them."""
        request = Request("told", allocation_id, **fields)
        return self._change_of(self._with_outcomes(request, outcome, by_code), by_code)

    def cancel(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Cancel the pending pulls of an allocation, and give the reason.

        If none of its outcomes was recorded, its slots are free again; otherwise they stay used,
        and the cancelled pulls are lost.
        """
        request = Request("cancelled", allocation_id, reason=reason, key=key, by=by)
        return self._change_of(request).made()

    def correct(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        reason: str,
        key: str | None = None,
        by: str = "library",
        confirm_range: bool = False,
    ) -> Allocation:
        """Replace a recorded outcome, or all of some arms; the old ones stay in the log.

        Where an arm has fewer outcomes than before, the others are pending again.
        """
        about: dict[str, Any] = {"reason": reason, "confirm_range": confirm_range}
        request = Request("corrected", allocation_id, **about, key=key, by=by)
        return self._change_of(self._with_outcomes(request, outcome)).made()

    def typed(self, allocation_id: str, text: str) -> Outcome:
        """Parse the outcome of a single pull as typed by a user."""
        model = self._single(allocation_id)[0]
        try:
            return model.format.typed(text)
        except ValueError as error:
            raise errors.BadOutcome(str(error), field="outcome") from None

    def _single(self, allocation_id: str) -> tuple[ArmModel, Arm | None]:
        """Return the outcome model of a single pull, and its arm, where that matters."""
        problem = self.settings.problem
        if all(group.model.counts_good for group in problem.groups):  # the trial need not be read
            return problem.groups[0].model, None
        ledger = self.read()
        slot = ledger.allocation(allocation_id)
        if slot.arm is None:
            raise slot.needs_counts()
        return ledger.kinds[slot.arm], problem.arms[ledger.position(slot.arm)]

    def _write_ask(self, ahead: Ahead | None, this: Writing) -> Allocation | Conflict:
        ledger, request = this.ledger, this.request
        part = ledger.of(request.segment)
        try:
            if request.subject in ledger.subjects:
                slot = ledger.allocations[ledger.subjects[request.subject]]
                if slot.segment != request.segment:
                    raise errors.Contradiction(
                        f"subject: {request.subject!r} has an allocation in segment "
                        f"{slot.segment!r}; a subject belongs to one segment"
                    )
                return slot
            ledger.check_ask(request.subject)  # a decision needs a free slot
        except errors.Contradiction as error:
            return this.refuse(str(error))
        decision, slot_id = decision_at(part, ahead), secrets.token_hex(8)
        pulls = decision.by_name(part.problem)
        data = {
            "allocation": slot_id,
            "arm": sole_arm(ledger.problem, pulls),
            "pulls": pulls,
            "number": ledger.asks,
            "reason": decision.reason,
            "decision": decision_record(decision, part),
        }
        return this.append(data).allocations[slot_id]

    def _change_of(self, request: Request, by_code: bool = False) -> Change[Allocation]:
        def write(this: Writing) -> Allocation | Conflict:
            ledger, outcomes = this.ledger, request.outcomes()
            slot = ledger.allocation(request.allocation)
            counts = told_counts(slot, ledger.kinds, outcomes) if outcomes else ()
            if is_on_record(slot, request.kind, counts, ledger.kinds):
                return slot
            data: dict[str, Any] = {"allocation": slot.id, **outcomes}
            if request.implausible:
                if not request.confirm_range:
                    raise errors.OutOfRange(request.implausible, field="outcome")
                data["out_of_range"] = True
            try:
                return this.append(data).allocations[slot.id]
            except errors.Contradiction as error:
                return this.refuse(error.message(self._labels(by_code)))

        return self._moving(request, write)

    def _with_outcomes(
        self, request: Request, outcomes: GivenOutcomes, by_code: bool = False
    ) -> Request:
        """Return the request with its outcomes; `TrialError` if they are not valid."""
        if isinstance(outcomes, str | bytes) or not isinstance(outcomes, Iterable):
            model, arm = self._single(request.allocation or "")
            outcome = outcome_of(outcomes, model)
            return replace(request, outcome=outcome, implausible=_implausible(arm, [outcome]))
        from_rows = not isinstance(outcomes, Mapping)
        by_arm: dict[str, Any] = {} if from_rows else dict(outcomes)
        rows: Any = outcomes if from_rows else ()
        for label, outcome in rows:
            by_arm.setdefault(label, []).append(outcome)
        names = {label: name for name, label in self._labels(by_code).items()}
        if by_code:  # in the order of the arms, or of their names, codes would tell which is which
            names = dict(sorted(names.items(), key=lambda one: in_order(one[0])))
        models = kinds_by_name(self.settings.problem)
        arms = {arm.name: arm for arm in self.settings.problem.arms}
        counts, implausible = [], ""
        for label, entry in by_arm.items():
            if label not in names:
                shown = ", ".join([*names][:8]) + ", ..." * (len(names) > 8)
                raise TrialError(f"no arm is called {label!r}; arms: {shown}", field="arm")
            model, arm = models[names[label]], arms[names[label]]
            values = [outcome_of(outcome, model) for outcome in entry] if from_rows else []
            try:
                tally = model.format.tally(values) if from_rows else given_tally(model, entry)
                pulls = model.format.tally_pulls(tally)
                outcome_record: Told | None = told_of(model, tally) if pulls else None
            except ValueError as error:
                if model.counts_good:
                    shown = entry if isinstance(entry, str) else repr(entry)
                    rule = "must be good/pulls, whole numbers, good at most pulls"
                    raise TrialError(f"counts: {label}={shown}; {rule}", field="counts") from None
                raise errors.BadOutcome(f"counts: {label}: {error}", field="counts") from None
            if outcome_record is not None:
                counts.append((arm.name, outcome_record))
                means = values if from_rows else [tally[1] / pulls] if arm.range else []
                implausible = implausible or _implausible(arm, means, f" of {label}")
        if not counts:
            raise TrialError("counts: there are no outcomes in them", field="counts")
        return replace(request, counts=tuple(sorted(counts)), implausible=implausible)

    def _labels(self, by_code: bool) -> dict[str, str]:
        """Return what the sender calls the arms, by their names."""
        ledger = self.latest
        names = [arm.name for arm in ledger.problem.arms]
        return dict(zip(names, ledger.codes if by_code else names, strict=True))


def _day_ago() -> str:
    return (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")


def _implausible(arm: Arm | None, values: Iterable[Outcome], of_arm: str = "") -> str:
    """Return the message about values outside the plausible range of an arm; else empty."""
    if arm is None or arm.range is None:
        return ""
    low, high = arm.range
    for value in map(float, values):
        if not low <= value <= high:
            return (
                f"outcome{of_arm}: {value:g} is outside the plausible range, {low:g} to "
                f"{high:g}; check it, and if it is right, confirm it (--confirm-range, "
                "confirm_range)"
            )
    return ""
