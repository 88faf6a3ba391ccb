"""Asking for single pulls and recording their outcomes. Whole stages: `batch_requests.py`."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Connection

from ..problem import ArmModel, Outcome
from .allocations import Allocation, moved
from .asking import Asking, Decided
from .batch_requests import refuse_batched
from .changes import Change
from .decider import Decider, decision_record, pending_state
from .decisions import Decision
from .errors import BadOutcome, Conflict, NotFound
from .kind_records import EarlierPending, check_order
from .ledger import Ledger
from .request_records import Request
from .requests import (
    check_ask,
    check_cancel,
    contradiction,
    note_of,
    on_record,
    other_spelling,
    out_of_range,
    outcome_of,
    reason_of,
    subject_of,
)


class Recording(Asking):
    """The part of `Trial` that allocates single pulls and records outcomes."""

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
        if self.settings.problem.repeat:
            refuse_batched(self._ledger())  # before a decision that may take long
        return self._asking(request, self._write_ask, Decider.decide, key, by)

    def tell(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        key: str | None = None,
        by: str = "library",
        confirm_range: bool = False,
    ) -> Allocation:
        """Record an outcome: 1 is good, 0 is bad; others as the kind of the arm has them.

        `OutOfRange` where it is outside the plausible range of the arm, unless that is confirmed.
        """
        return self.telling(
            allocation_id, outcome, key=key, by=by, confirm_range=confirm_range
        ).made()

    def telling(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        key: str | None,
        by: str,
        confirm_range: bool = False,
    ) -> Change[Allocation]:
        """An outcome that is not recorded yet."""
        read = outcome_of(outcome, self._kind(allocation_id))
        request = Request("told", allocation_id, read, confirm_range=confirm_range)
        return self._moving(request, self._move, key, by)

    def cancel(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Cancel a pending allocation, and say why; its slot is free again."""
        request = Request("cancelled", allocation_id, reason=reason_of(reason))
        return self._moving(request, self._move, key, by).made()

    def correct(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        reason: str,
        key: str | None = None,
        by: str = "library",
        confirm_range: bool = False,
    ) -> Allocation:
        """Replace a recorded outcome, and say why; the old one stays in the log."""
        why = reason_of(reason)
        read = outcome_of(outcome, self._kind(allocation_id))
        request = Request("corrected", allocation_id, read, reason=why, confirm_range=confirm_range)
        return self._moving(request, self._move, key, by).made()

    def typed(self, allocation_id: str, text: str) -> Outcome:
        """An outcome of an allocation from what people type."""
        kind = self._kind(allocation_id)
        try:
            return kind.typed(text)
        except ValueError as error:
            raise BadOutcome(str(error)) from None

    def _kind(self, allocation_id: str) -> ArmModel:
        """What outcomes the arm of an allocation has."""
        problem = self.settings.problem
        if problem.is_binary:  # as all arms have: the trial need not be read
            return problem.groups[0].model
        ledger = self._ledger()
        slot = ledger.allocations.get(allocation_id)
        if slot is None:
            raise NotFound("no such allocation in this trial")
        return ledger.kind(slot.arm)

    def _write_ask(
        self,
        decided: Decided[Decision],
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
    ) -> Allocation | Conflict:
        refuse_batched(ledger)
        if request.subject in ledger.subjects:
            return ledger.allocations[ledger.subjects[request.subject]]
        if why := other_spelling(ledger, request):
            return self._refuse(connection, ledger, request, key, by, why)
        check_ask(ledger)
        pending = pending_state(ledger)
        decision = decided.at(ledger, pending)
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
            if request.allocation in ledger.batches:
                raise NotFound("that is a batch, not an allocation")
            raise NotFound("no such allocation in this trial")
        if on_record(slot, request):
            return slot
        try:
            moved(slot, request.kind, request.outcome, ledger.kind(slot.arm))
        except ValueError:
            return self._refuse(connection, ledger, request, key, by, contradiction(slot, request))
        if request.outcome is not None:
            _check_order(ledger, slot, request.outcome)
        if request.kind == "cancelled":
            check_cancel(ledger)
        data: dict[str, Any] = {"allocation": slot.id, **request.said()}
        if request.outcome is not None:
            data["outcome"] = request.outcome
            arm = ledger.problem.arms[ledger.position(slot.arm)]
            if arm.range is not None and out_of_range(arm, float(request.outcome), request):
                data["out_of_range"] = True
        later = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[slot.id]


def _check_order(ledger: Ledger, slot: Allocation, outcome: Outcome) -> None:
    try:
        check_order(ledger.kind(slot.arm), ledger.allocations.values(), slot, outcome)
    except EarlierPending as error:
        raise BadOutcome(str(error)) from None
    except ValueError:  # its text names the state, which blinded people are not to read
        raise BadOutcome("the outcome cannot follow those on record of this arm") from None
