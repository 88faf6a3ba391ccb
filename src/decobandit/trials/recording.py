"""Asking and recording: the changes of a trial.

Every change is one transaction: it reads the trial, writes one event, and returns when that event
is on disk. A repeated request, recognised by its key or because it agrees with the record, gets the
answer of the first one and writes nothing. Decisions that take long are made before the
transaction; one that the trial has outrun is made again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ..support import Once
from .changes import Answer, Change, answered
from .decider import Decider, decision_record, pending_state
from .decisions import Decision
from .errors import Conflict, NotFound, StoreError
from .event_log import NotAtOnce
from .ledger import Allocation, Ledger, Refusal, Request, moved
from .lifecycle import Lifecycle
from .pending import PendingState
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
from .status import summary_of
from .turns import Turns

MAX_ATTEMPTS = 5  # to record a decision that was made ahead, while others write

Outcome = int | bool  # 1 or True is good, 0 or False is bad


class _Outdated(NotAtOnce):
    """The trial changed between a decision and the transaction that was to record it."""


@dataclass(frozen=True)
class _Ahead:
    """A decision made before its transaction; it holds as long as the trial is in this state."""

    pending: PendingState
    decision: Decision


class Recording(Lifecycle):
    """The part of `Trial` that allocates and records outcomes."""

    id: str
    settings: TrialSettings
    _decider: Once[Decider]
    _turns: Turns

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
        return self.asking(subject=subject, note=note, key=key, by=by).made()

    def asking(
        self, *, subject: str | None, note: str | None, key: str | None, by: str
    ) -> Change[Allocation]:
        """An ask that is not made yet."""
        request = Request("asked", subject=subject_of(subject), note=note_of(note))
        return Change(
            self._event_log,
            self.id,
            self._work(request, partial(self._ask, None), key, by),
            is_short=lambda: self._decider.made and self._decider().prepared,
            alone=partial(self._ask_ahead, request, key, by),
        )

    def _ask_ahead(self, request: Request, key: str | None, by: str) -> Allocation:
        """An ask whose decision takes long, made ahead until nobody outruns it."""
        with self._turns.ask():
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
        ledger, decider = self._event_log.read(self.id), self._decider()
        refused = ledger.used >= ledger.slots or ledger.state != "running"
        if refused or decider.is_short(ledger.stage):
            return None
        return _Ahead(pending_state(ledger), decider.decide(ledger))

    def tell(
        self, allocation_id: str, outcome: Outcome, *, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Record an outcome: 1 is good, 0 is bad."""
        return self.telling(allocation_id, outcome, key=key, by=by).made()

    def telling(
        self, allocation_id: str, outcome: Outcome, *, key: str | None, by: str
    ) -> Change[Allocation]:
        """An outcome that is not recorded yet."""
        return self._moving(Request("told", allocation_id, outcome_of(outcome)), key, by)

    def cancel(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Cancel a pending allocation, and say why; its slot is free again."""
        request = Request("cancelled", allocation_id, reason=reason_of(reason))
        return self._moving(request, key, by).made()

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
        return self._moving(request, key, by).made()

    def _moving(self, request: Request, key: str | None, by: str) -> Change[Allocation]:
        """A change that an ask may hold back; where decisions are short, none does."""
        return Change(
            self._event_log,
            self.id,
            self._work(request, self._move, key, by),
            is_short=lambda: not self._turns.taken,
            alone=partial(self._move_in_turn, request, key, by),
        )

    def _move_in_turn(self, request: Request, key: str | None, by: str) -> Allocation:
        with self._turns.change() if self._turns.taken else nullcontext():
            return self._change(request, self._move, key, by)

    def _change(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Answer | Conflict],
        key: str | None,
        by: str,
    ) -> Answer:
        return answered(self._event_log.change(self.id, self._work(request, act, key, by)))

    def _work(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Answer | Conflict],
        key: str | None,
        by: str,
    ) -> Callable[[Connection, Ledger], Answer | Conflict]:
        """`act` in a transaction; a request that was answered before gets the same answer."""
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

        return work

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
            "arm": self.settings.problem.arms[decision.arm].name,
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
