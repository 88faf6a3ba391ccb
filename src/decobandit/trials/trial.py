"""One trial: ask for the next arm, record outcomes, look at the state.

Every change is one transaction: it reads the trial, writes one event, and returns when that event
is on disk. A repeated request, recognised by its key or because it agrees with the record, gets the
answer of the first one and writes nothing.

The horizon is a hard limit. Outcomes may be recorded late and in any order; while some are pending,
the policy averages over them (`decisions.py`). Decisions that take long are made before the
transaction; one that the trial has outrun is made again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection

from ..bounds import Episode
from ..prices import DualSolution
from ..problem import Problem
from ..support import Once
from .cancellations import CancellationCount, counted
from .database import Store
from .decider import decider_of, decision_record, pending_state
from .decisions import Decision
from .errors import Conflict, NotFound, StoreError
from .event_log import event_log_of
from .events import Event
from .export import export_parts, export_text, exported_event, outcomes_text
from .ledger import Allocation, Ledger, Refusal, Request, moved
from .lifecycle import Lifecycle
from .pending import PendingState
from .performance import episode_of
from .replay import Replay, replayed
from .report import TrialReport, report_of
from .requests import (
    actor_of,
    as_answered,
    check_ask,
    check_cancel,
    check_key,
    contradiction,
    note_of,
    on_record,
    outcome_of,
    reason_of,
    subject_of,
)
from .settings import TrialSettings
from .staleness import STALE_AFTER
from .status import Status, status_of, summary_of
from .turns import turns_of
from .verification import Verification, check_trial

MAX_ATTEMPTS = 5  # to record a decision that was made ahead, while others write


Answer = TypeVar("Answer")  # to a change: an allocation, or the trial
Outcome = int | bool  # 1 or True is good, 0 or False is bad


class _Outdated(Exception):
    """The trial changed between a decision and the transaction that was to record it."""


@dataclass(frozen=True)
class _Ahead:
    """A decision made before its transaction; it holds as long as the trial is in this state."""

    pending: PendingState
    decision: Decision


class Trial(Lifecycle):
    """A handle on one trial: cheap, safe to share between threads, always up to date.

    Attributes
    ----------
    id, name : str
        By which it is opened.
    settings, store : TrialSettings, Store
        Problem, policy, prices, tie rule and seed; where it is kept.

    Examples
    --------
    >>> told = trial.tell(trial.ask().id, 1)
    >>> trial.status().told, trial.verify().ok, trial.replay().ok
    (1, True, True)
    """

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store = store
        self.id = ledger.trial
        self.name = ledger.name
        self.settings = ledger.settings
        self._codes = {
            arm.name: code for arm, code in zip(self.problem.arms, ledger.codes, strict=True)
        }
        self._event_log = event_log_of(store)
        self._decider = Once(lambda: decider_of(ledger.settings))
        self._turns = turns_of(store, self.id)

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def codes(self) -> dict[str, str]:
        """The code of every arm by its name: what blinded people see."""
        return dict(self._codes)

    @property
    def policy(self) -> str:
        return self.settings.policy

    @property
    def plan(self) -> TrialSettings:
        """The settings, by the name that they had before."""
        return self.settings

    @property
    def solution(self) -> DualSolution:
        """The prices, and the bound that they certify."""
        return self.settings.solution

    # -- changes -----------------------------------------------------------------------------

    def ask(
        self,
        *,
        subject: str | None = None,
        note: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Allocate the next slot. `NoFreeSlot` when all are in use.

        A subject has one allocation, until it is cancelled: to ask again for the same subject gives
        the same allocation, and writes nothing.
        """
        request = Request("asked", subject=subject_of(subject), note=note_of(note))
        if self._decider().prepared:
            try:
                return self._change(request, partial(self._ask, None), key, by)
            except _Outdated:
                pass
        with self._turns.ask():
            return self._ask_ahead(request, key, by)

    def _ask_ahead(self, request: Request, key: str | None, by: str) -> Allocation:
        """An ask whose decision takes long, made ahead until nobody outruns it."""
        for attempt in range(MAX_ATTEMPTS):
            # the first attempt holds nobody up; later ones hold other changes back
            with nullcontext() if attempt == 0 else self._turns.change():
                try:
                    ahead = partial(self._ask, self._decide_ahead())
                    return self._change(request, ahead, key, by)
                except _Outdated:
                    continue
        if self._decider().cost == "solve":
            raise StoreError("other processes change the trial faster than its policy decides")
        return self._change(request, partial(self._ask, None, wait=True), key, by)

    def _decide_ahead(self) -> _Ahead | None:
        """The decision for the trial as it is now, outside the transaction that will record it.

        Nobody waits for it, and tables that it needs are made. None where there is no need: the
        decision is short.
        """
        ledger, decider = self._ledger(), self._decider()
        refused = ledger.used >= ledger.slots or ledger.state != "running"
        if refused or decider.is_short(ledger.stage):
            return None
        return _Ahead(pending_state(ledger), decider.decide(ledger))

    def tell(
        self, allocation_id: str, outcome: Outcome, *, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Record an outcome: 1 is good, 0 is bad."""
        wanted = Request("told", allocation_id, outcome_of(outcome))
        return self._change_in_turn(wanted, key, by)

    def cancel(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Cancel a pending allocation, and say why; its slot is free again."""
        request = Request("cancelled", allocation_id, reason=reason_of(reason))
        return self._change_in_turn(request, key, by)

    def correct(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        reason: str,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Replace a recorded outcome, and say why; the old one stays in the log."""
        why = reason_of(reason)
        request = Request("corrected", allocation_id, outcome_of(outcome), reason=why)
        return self._change_in_turn(request, key, by)

    def _change_in_turn(self, request: Request, key: str | None, by: str) -> Allocation:
        """A change that an ask may hold back; where decisions are short, none does."""
        with self._turns.change() if self._turns.taken else nullcontext():
            return self._change(request, self._move, key, by)

    def _change(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Answer | Conflict],
        key: str | None,
        by: str,
    ) -> Answer:
        check_key(key)
        actor = actor_of(by)

        def work(connection: Connection, ledger: Ledger) -> Any:
            before = ledger.answered.get((actor, key or ""))
            if before is not None and before.request == request:
                if before.refusal:
                    return Conflict(before.refusal)
                if not before.allocation:
                    return summary_of(ledger)
                return as_answered(ledger.allocations[before.allocation], request)
            if before is not None:
                why = "the key was used for another request"
                return self._refuse(connection, ledger, request, None, actor, why)
            return act(connection, ledger, request, key, actor)

        answer: Answer | Conflict = self._event_log.change(self.id, work)
        if isinstance(answer, Conflict):
            raise answer
        return answer

    def _ask(
        self,
        ahead: _Ahead | None,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
        *,
        wait: bool = False,
    ) -> Allocation:
        """`wait`: decide here even if that takes long and other writers have to wait."""
        if request.subject in ledger.subjects:
            return ledger.allocations[ledger.subjects[request.subject]]
        check_ask(ledger)
        pending, decider = pending_state(ledger), self._decider()
        if ahead is not None and ahead.pending == pending:
            decision = ahead.decision
        elif wait or decider.is_short(ledger.stage):
            decision = decider.decide(ledger)
        else:
            raise _Outdated
        made = secrets.token_hex(8)
        data = {
            "allocation": made,
            "arm": self.problem.arms[decision.arm].name,
            "number": ledger.asks,
            "reason": decision.reason,
            "decision": decision_record(decision, pending, self.settings),
            **request.said(),
        }
        later = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[made]

    def _move(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Allocation | Conflict:
        slot = ledger.allocations.get(request.allocation or "")
        if slot is None:
            raise NotFound("no such allocation in this trial")
        if on_record(slot, request):
            return slot
        try:
            moved(slot, request.kind, request.outcome)
        except ValueError:
            return self._refuse(connection, ledger, request, key, by, contradiction(slot, request))
        if request.kind == "cancelled":
            check_cancel(ledger)
        data: dict[str, Any] = {"allocation": slot.id, **request.said()}
        if request.outcome is not None:
            data["outcome"] = request.outcome
        later = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[slot.id]

    def _refuse(
        self,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
        why: str,
    ) -> Conflict:
        """Log the refusal, or count one that is logged already.

        Returned, not raised: an exception would roll back the log.
        """
        times = self._event_log.count_refusal(ledger, Refusal(request, by, why))
        if times is not None:
            asked = {"allocation": request.allocation, "outcome": request.outcome}
            told = {"kind": request.kind, **asked, **request.said()}
            data = {"request": told, "why": why, "times": times}
            self._event_log.append(connection, ledger, "refused", data, by=by, key=key)
        return Conflict(why)

    # -- reading -----------------------------------------------------------------------------

    def _ledger(self) -> Ledger:
        return self._event_log.read(self.id)

    def status(self) -> Status:
        """Counts, posterior, the next decision, and the bounds."""
        return status_of(self._ledger(), self._decider())

    def status_at(self, ledger: Ledger) -> Status:
        """The same, at a state that was read before."""
        return status_of(ledger, self._decider())

    def allocations(self) -> list[Allocation]:
        """All of them, in the order in which they were made."""
        return list(self._ledger().allocations.values())

    def cancellations(self) -> tuple[CancellationCount, ...]:
        """Cancelled allocations by person and arm, and why."""
        return counted(self._ledger().cancellations)

    def path(self) -> Episode:
        """The episode so far, by the name that it had before."""
        return self.episode()

    def episode(self) -> Episode:
        """The recorded outcomes in the order of their allocations, compared with the prices."""
        return episode_of(self._ledger(), self._decider())

    def events(self) -> list[Event]:
        """The log, checked."""
        return list(self.each_event(self._ledger()))

    def each_event(self, ledger: Ledger) -> Iterator[Event]:
        """The log up to a state that was read before, checked, not all of it in memory."""
        return chain.from_iterable(self._event_log.pages(ledger))

    def export(self) -> dict[str, Any]:
        """The whole trial as plain values; `verify_export` checks it without the database."""
        ledger = self._ledger()
        events = [exported_event(event) for event in self.each_event(ledger)]
        return export_parts(ledger, self._decider()) | {"events": events}

    def export_text(self) -> Iterator[str]:
        """The same as JSON, in pieces: all events are checked first, then read again."""
        ledger = self._ledger()
        for _ in self._event_log.pages(ledger):
            pass
        return export_text(export_parts(ledger, self._decider()), self._event_log.pages(ledger))

    def outcomes_text(self, *, masked: bool = False) -> Iterator[str]:
        """One row of CSV per allocation, in pieces, as `outcomes_csv` writes them."""
        return outcomes_text(self.each_event(self._ledger()), masked=masked)

    def verify(self, *, head: str | None = None) -> Verification:
        """Check the chain, from the rows as they are. `head`: one that some event must have."""
        return check_trial(self.id, db=self.store, head=head)

    def report(self, *, control: str | None = None, late_after: float = STALE_AFTER) -> TrialReport:
        """Results, shares over time, deviations, the check of the log, settings.

        `control`: the arm that others are compared with, the first by default. `late_after`: hours.
        """
        ledger = self._ledger()
        return report_of(
            ledger, self._decider(), self.each_event(ledger), self.verify(), control=control,
            late_after=late_after,
        )  # fmt: skip

    def replay(self) -> Replay:
        """Compute every decision again and compare."""
        return replayed(self.events())
