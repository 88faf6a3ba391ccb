"""Requests about batches: ask for a whole stage, record outcomes together, give up the rest."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ..problem import ArmModel, Outcome, Stats
from ..support import is_count
from .allotments import Allotment
from .asking import Asking, Decided
from .batches import Batch, BatchArm, batch_moved
from .codes import in_order
from .decider import Decider, decision_record, pending_state
from .errors import BadOutcome, Conflict, NotFound, TrialError
from .kind_records import EarlierPending, check_batch_order, kinds_by_name
from .ledger import Ledger
from .request_records import Request
from .requests import (
    check_ask,
    check_cancel,
    note_of,
    other_spelling,
    out_of_range,
    outcome_of,
    reason_of,
    subject_of,
)
from .told import Counts, Told, counts_tree, given_tally, tally_of, told_of

# arm: (good, pulls), or "good/pulls"; of other outcomes as the kind of the arm has tallies
GivenCounts = Mapping[str, "str | Sequence[Outcome]"]
MAX_COUNT = 10**9


class Batches(Asking):
    """The part of `Trial` that allots whole stages."""

    _codes: dict[str, str]

    def ask_batch(
        self,
        *,
        subject: str | None = None,
        note: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Batch:
        """Allot the next stage: so many pulls of every arm. `NoFreeSlot` when none is left.

        A subject has one batch, until that is cancelled as a whole: to ask again for the same one
        gives the same batch, and writes nothing.
        """
        request = Request("batch_asked", subject=subject_of(subject), note=note_of(note))
        refuse_single(self._ledger())  # before a decision that may take long
        return self._asking(request, self._write_batch, Decider.allot, key, by).made()

    def tell_batch(
        self,
        batch_id: str,
        counts: GivenCounts | None = None,
        *,
        rows: Iterable[tuple[str, Any]] | None = None,
        key: str | None = None,
        by: str = "library",
        by_code: bool = False,
        confirm_range: bool = False,
    ) -> Batch:
        """Record outcomes of a batch; those of several requests add up.

        Parameters
        ----------
        batch_id : str
            Of the batch.
        counts : mapping, optional
            Of every arm that has new outcomes, (good, pulls) or "good/pulls"; of classes the count
            of each, "2+0+1"; of measurements and counts "sum/pulls"; of own states the outcomes in
            the order of the pulls, "fine+worn".
        rows : iterable of (str, outcome), optional
            Instead of counts: arm and outcome, as `tell` takes it, of single pulls.
        key, by : str, optional
            As in `tell`. Without a key, counts that are sent twice are recorded twice.
        by_code : bool
            Whether arms are called by their codes, as blinded people see them.
        confirm_range : bool
            Whether outcomes outside the plausible range of their arm are meant. Of counts, the mean
            is compared.
        """
        asked = Request("batch_told", batch=batch_id, confirm_range=confirm_range)
        given, outside = self._given_counts(asked, counts, rows, by_code)
        return self._move_batch(replace(asked, counts=given), key, by, by_code, outside)

    def correct_batch(
        self,
        batch_id: str,
        counts: GivenCounts,
        *,
        reason: str,
        key: str | None = None,
        by: str = "library",
        confirm_range: bool = False,
    ) -> Batch:
        """Replace all recorded outcomes of some arms, and say why; the old ones stay in the log.

        Fewer outcomes than before: the others are pending again.
        """
        asked = Request(
            "batch_corrected", batch=batch_id, reason=reason_of(reason), confirm_range=confirm_range
        )
        given, outside = self._given_counts(asked, counts, None, by_code=False)
        return self._move_batch(replace(asked, counts=given), key, by, outside=outside)

    def cancel_batch(
        self, batch_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Batch:
        """Cancel what is pending of a batch, and say why.

        If none of its outcomes was recorded, its stage is free again; otherwise the stage stays
        used, and the pulls that are cancelled are lost.
        """
        request = Request("batch_cancelled", batch=batch_id, reason=reason_of(reason))
        return self._move_batch(request, key, by)

    def batch(self, batch_id: str) -> Batch:
        """One batch; `NotFound` if the trial has none of that id."""
        return _found(self._ledger(), batch_id)

    def batches(self) -> list[Batch]:
        """All of them, in the order in which they were made."""
        return list(self._ledger().batches.values())

    def has_batch(self, batch_id: str) -> bool:
        """Whether the trial has a batch of that id."""
        return batch_id in self._ledger().batches

    # -- counts -------------------------------------------------------------------------------

    def _given_counts(
        self,
        request: Request,
        counts: GivenCounts | None,
        rows: Iterable[tuple[str, Any]] | None,
        by_code: bool,
    ) -> tuple[Counts, bool]:
        """Counts by name, each arm once, and whether some are outside the plausible range.

        `TrialError` where something is wrong with them.
        """
        if (counts is None) == (rows is None):
            raise TrialError("give counts or rows, one of the two")
        kinds, named = kinds_by_name(self.settings.problem), self._known_arms(by_code)
        if rows is None:
            given: Mapping[str, Any] = counts or {}
        else:
            given = _by_arm(rows)
        found, outside = [], False
        ranged = {arm.name: arm for arm in self.settings.problem.arms if arm.range is not None}
        for arm, told in given.items():
            if arm not in named:
                raise TrialError(f"no arm is called {arm!r}; arms: {_listed(named)}")
            kind = kinds[named[arm]]
            tally = _tally(kind, arm, told) if rows is None else _tally_of_rows(kind, told)
            pulls = kind.tally_pulls(tally)
            if pulls:
                found.append((named[arm], _told(kind, arm, tally)))
            if pulls and named[arm] in ranged:
                values = [tally[1] / pulls] if rows is None else [float(each) for each in told]
                for value in values:
                    outside |= out_of_range(ranged[named[arm]], value, request, arm)
        if not found:
            raise TrialError("counts: there are no outcomes in them")
        return tuple(sorted(found)), outside

    def _known_arms(self, by_code: bool) -> dict[str, str]:
        """Names of the arms, by what the sender calls them; codes in their own order.

        Whoever sees codes in the order of the arms, or of their names, knows which is which.
        """
        if not by_code:
            return {name: name for name in self._codes}
        names = {code: name for name, code in self._codes.items()}
        return {code: names[code] for code in sorted(names, key=in_order)}

    # -- changes ------------------------------------------------------------------------------

    def _write_batch(
        self,
        decided: Decided[Allotment],
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
    ) -> Batch | Conflict:
        refuse_single(ledger)
        if request.subject in ledger.subjects:
            return ledger.batches[ledger.subjects[request.subject]]
        if why := other_spelling(ledger, request):
            return self._refuse(connection, ledger, request, key, by, why)
        check_ask(ledger, ledger.problem.pulls_per_stage)
        pending = pending_state(ledger)
        allotment = decided.at(ledger, pending)
        made, arms = secrets.token_hex(8), ledger.problem.arms
        data = {
            "batch": made,
            "counts": {arm.name: n for arm, n in zip(arms, allotment.counts, strict=True)},
            "number": ledger.asks,
            "reason": allotment.reason,
            "decision": decision_record(allotment, pending, self.settings),
            **request.said(),
        }
        later = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.batches[made]

    def _move_batch(
        self,
        request: Request,
        key: str | None,
        by: str,
        by_code: bool = False,
        outside: bool = False,
    ) -> Batch:
        def write(
            connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
        ) -> Batch | Conflict:
            batch, cancels = _found(ledger, request.batch), request.kind == "batch_cancelled"
            if cancels and batch.state == "cancelled":
                return batch
            counts = request.counts or ()
            try:
                later = batch_moved(batch, request.kind, counts, ledger.kinds, request.reason)
            except ValueError:
                why = self._contradiction(batch, request, by_code)
                return self._refuse(connection, ledger, request, key, by, why)
            _check_order(ledger, later)
            if cancels:
                check_cancel(ledger, batch.pending)
            data: dict[str, Any] = {"batch": batch.id, **request.said()}
            if request.counts is not None:
                data["counts"] = counts_tree(request.counts)
            if outside:
                data["out_of_range"] = True
            after = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
            return after.batches[batch.id]

        return self._moving(request, write, key, by).made()

    def _contradiction(self, batch: Batch, request: Request, by_code: bool) -> str:
        """Why the request is refused; arms as the sender calls them, and no outcomes."""
        if batch.state == "cancelled":
            return "the batch was cancelled"
        if request.kind == "batch_cancelled":
            return "no outcome of the batch is pending; there is nothing to cancel"
        corrects = request.kind == "batch_corrected"
        kinds, counts = kinds_by_name(self.settings.problem), dict(request.counts or ())
        for called, arm in self._known_arms(by_code).items():
            if arm not in counts:
                continue
            own = batch.arm(arm)
            pulls = kinds[arm].tally_pulls(tally_of(kinds[arm], counts[arm]))
            if corrects and not own.told:
                return f"{called} has no outcome to correct in this batch; tell it"
            most = own.pending + own.told * corrects
            if pulls > most:
                if by_code:  # blinded people read no numbers in messages
                    return f"{called}: more outcomes than pulls of it are pending in this batch"
                given = "1 outcome" if pulls == 1 else f"{pulls} outcomes"
                return f"{called}: {given}, but {_left(own, most, corrects)}"
        return "the counts do not fit the batch"


def refuse_single(ledger: Ledger) -> None:
    """`Conflict` if the trial allocates single pulls."""
    if ledger.allocations:
        raise Conflict("this trial allocates single pulls: ask for the next one, without a batch")


def refuse_batched(ledger: Ledger) -> None:
    """`Conflict` if the trial allots whole stages."""
    if ledger.batches or ledger.problem.repeat:
        raise Conflict("this trial allots whole batches: ask for a batch (--batch)")


def _found(ledger: Ledger, batch_id: str | None) -> Batch:
    batch = ledger.batches.get(batch_id or "")
    if batch is not None:
        return batch
    if batch_id in ledger.allocations:
        raise NotFound("that is an allocation, not a batch")
    raise NotFound("no such batch in this trial")


def _left(own: BatchArm, most: int, corrects: bool) -> str:
    if corrects:
        return f"it has {most} in this batch"
    if not own.pulls:
        return "it has no pulls in this batch"
    return f"{most} of its {own.pulls} pulls in this batch are pending"


def _check_order(ledger: Ledger, later: Batch) -> None:
    """`BadOutcome` where outcomes are recorded out of an order that matters."""
    try:
        check_batch_order(ledger.problem, (ledger.batches | {later.id: later}).values())
    except EarlierPending as error:
        raise BadOutcome(str(error)) from None
    except ValueError:  # its text names the state, which blinded people are not to read
        raise BadOutcome("the outcomes cannot follow those on record of this arm") from None


def _by_arm(rows: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for arm, outcome in rows:
        found.setdefault(arm, []).append(outcome)
    return found


def _tally_of_rows(kind: ArmModel, outcomes: list[Any]) -> Stats:
    return kind.tally([outcome_of(each, kind) for each in outcomes])


def _tally(kind: ArmModel, arm: str, given: object) -> Stats:
    """What outcomes of an arm come to, from what was given of them."""
    if kind.counts_good:
        good, pulls = _pair(arm, given)
        return (good, pulls - good)
    try:
        return given_tally(kind, given)
    except ValueError as error:
        raise BadOutcome(f"counts: {arm}: {error}") from None


def _told(kind: ArmModel, arm: str, tally: Stats) -> Told:
    try:
        return told_of(kind, tally)
    except ValueError as error:
        raise BadOutcome(f"counts: {arm}: {error}") from None


def _pair(arm: str, given: object) -> tuple[int, int]:
    """Good outcomes and outcomes, from 30/50 or (30, 50)."""
    parts: Any = given.split("/") if isinstance(given, str) else given
    try:
        good, pulls = (_whole(part) for part in parts)
    except (TypeError, ValueError):
        good, pulls = 1, 0
    if not 0 <= good <= pulls <= MAX_COUNT:
        shown = given if isinstance(given, str) else repr(given)
        raise TrialError(
            f"counts: {arm}={shown}; must be good/pulls, whole numbers, good at most pulls"
        )
    return good, pulls


def _whole(part: object) -> int:
    if isinstance(part, str) and is_count(part.strip()):
        return int(part)
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(part)
    raise ValueError("no whole number")


def _listed(names: Iterable[str], most: int = 8) -> str:
    known = list(names)
    return ", ".join(known[:most]) + ", ..." * (len(known) > most)
