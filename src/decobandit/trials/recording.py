"""Requests to a trial: ask, tell, cancel, correct; close, reopen, limit, unmask.

A request becomes an event; whether it may follow what is on record, the ledger says (`ledger.py`).
A closed trial makes no more allocations; outcomes of those that are pending can still be recorded,
corrected and cancelled. An archived one is closed, and hidden from lists. Both can be reopened.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ..problem import Arm, ArmModel, Outcome, Stats
from ..support import is_count
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
from .changes import Asking, Change, Decided
from .decider import decision_record, pending_state
from .errors import BadOutcome, Conflict, Contradiction, LimitReached, OutOfRange, TrialError
from .ledger import TURNS, Ledger
from .people import record
from .requests import Request, note_of, outcome_of, reason_of, subject_of
from .settings import chosen_limits, in_order
from .status import Summary, summary_of

LEAST_REASON = 10  # characters of a reason to unmask


class Lifecycle(Asking):
    """The part of `Trial` that opens, closes, limits and unmasks."""

    def close(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Make no more allocations; those that are pending can still be recorded."""
        return self._turn("closed", None if reason is None else reason_of(reason), key, by)

    def reopen(self, *, reason: str, key: str | None = None, by: str = "library") -> Summary:
        """Make allocations again, and say why; an archived trial is listed again."""
        return self._turn("reopened", reason_of(reason), key, by)

    def archive(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Close the trial, and hide it from lists."""
        return self._turn("archived", None if reason is None else reason_of(reason), key, by)

    def _turn(self, kind: str, reason: str | None, key: str | None, by: str) -> Summary:
        found: Summary = self._change(Request(kind, reason=reason), self._write_turn, key, by)
        return found

    def _write_turn(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Summary | Conflict:
        if ledger.state == TURNS[request.kind]:
            return summary_of(ledger)
        if request.kind == "closed" and ledger.state == "archived":
            return Conflict("the trial is archived, and so closed; reopen it first")
        later = self._event_log.append(
            connection, ledger, request.kind, request.said(), by=by, key=key
        )
        return summary_of(later)

    def set_limits(
        self,
        *,
        reason: str,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Summary:
        """Change how many allocations may be pending, cancelled or unmasked, and say why."""
        request = Request(
            "limited",
            reason=reason_of(reason),
            max_open=max_open,
            max_cancelled=max_cancelled,
            max_unmasked=max_unmasked,
        )
        found: Summary = self._change(request, self._write_limits, key, by)
        return found

    def _write_limits(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Summary:
        limits = chosen_limits(
            ledger.limits, request.max_open, request.max_cancelled, request.max_unmasked
        )
        if limits == ledger.limits:
            return summary_of(ledger)
        data = {"limits": limits.to_dict(), **request.said()}
        return summary_of(
            self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        )

    def unmask(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """The allocation with the name of its arm, for somebody blinded; the log says who and why.

        It is on record in the log of the trial and in the log of people. Who was told already is
        told again, and nothing is written. `LimitReached` beyond so many within 24 hours
        (`set_limits`); the reason has at least ten characters.
        """
        why = reason_of(reason)
        if len(why) < LEAST_REASON:
            raise TrialError(f"reason: must have at least {LEAST_REASON} characters to unmask")
        request = Request("unmasked", allocation_id, reason=why)
        found: Allocation = self._change(request, self._write_unmasked, key, by)
        return found

    def _write_unmasked(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Allocation:
        slot = ledger.allocation(request.allocation)
        if slot.arm is None:
            raise Conflict("an allocation of several arms is not unmasked: it would tell all codes")
        if (slot.id, by) not in ledger.unmasked:
            number = ledger.unmasked_since(_day_ago(), by) + 1
            if number > ledger.limits.unmasked:
                raise LimitReached(
                    "as many allocations as the trial permits were unmasked by you within 24 "
                    "hours; an administrator can permit more"
                )
            data = {"allocation": slot.id, "number_in_24_hours": number, **request.said()}
            self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
            record(
                connection, "unmasked", {"trial": ledger.trial, "name": ledger.name} | data, by=by
            )
        return slot


def _day_ago() -> str:
    return (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")


# -- ask, tell, cancel, correct: the requests that allocate pulls and record their outcome----------


# of a single pull its outcome; by arm (good, pulls), "good/pulls", or as the arm has tallies; or
# arm and outcome of every pull
GivenOutcomes = Outcome | Mapping[str, "str | Sequence[Outcome]"] | Iterable[tuple[str, Outcome]]
MAX_COUNT = 10**9


class Recording(Lifecycle):
    """The part of `Trial` that allocates pulls and records outcomes."""

    _codes: dict[str, str]

    def ask(
        self,
        *,
        subject: str | None = None,
        note: str | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Allocate the next stage: one arm, or pulls by arm. `NoFreeSlot` when none is left.

        A subject has one allocation, until it is cancelled as a whole: to ask again for the same
        subject gives the same allocation, and writes nothing.
        """
        return self.asking(subject=subject, note=note, key=key, by=by).made()

    def asking(
        self, *, subject: str | None, note: str | None, key: str | None, by: str
    ) -> Change[Allocation]:
        """An ask that is not made yet."""
        request = Request("asked", subject=subject_of(subject), note=note_of(note))
        return self._asking(request, self._write_ask, key, by)

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

        Parameters
        ----------
        allocation_id : str
            Of the allocation.
        outcome : outcome, mapping or iterable of (str, outcome)
            Of a single pull: 1 is good, 0 is bad; others as the arm has them. Of several, by arm:
            (good, pulls) or "good/pulls"; of classes the count of each, "2+0+1"; of measurements
            and counts "sum/pulls"; of own states the outcomes in the order of the pulls,
            "fine+worn". Or rows of arm and outcome, one for every pull.
        key, by : str, optional
            Idempotency key; who sends the request. Without a key, counts that are sent twice are
            recorded twice.
        by_code : bool
            Whether arms are called by their codes, as blinded people see them.
        confirm_range : bool
            Whether outcomes outside the plausible range of their arm are meant; `OutOfRange`
            otherwise. Of counts, the mean is compared.
        """
        return self.telling(
            allocation_id, outcome, key=key, by=by, by_code=by_code, confirm_range=confirm_range
        ).made()

    def telling(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        key: str | None,
        by: str,
        by_code: bool = False,
        confirm_range: bool = False,
    ) -> Change[Allocation]:
        """Outcomes that are not recorded yet."""
        request = Request("told", allocation_id, confirm_range=confirm_range)
        return self._change_of(self._with_outcomes(request, outcome, by_code), key, by, by_code)

    def cancel(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Cancel what is pending of an allocation, and say why.

        If none of its outcomes was recorded, its slots are free again; otherwise they stay used,
        and the pulls that are cancelled are lost.
        """
        request = Request("cancelled", allocation_id, reason=reason_of(reason))
        return self._change_of(request, key, by).made()

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
        request = Request(
            "corrected", allocation_id, reason=reason_of(reason), confirm_range=confirm_range
        )
        return self._change_of(self._with_outcomes(request, outcome), key, by).made()

    def typed(self, allocation_id: str, text: str) -> Outcome:
        """The outcome of a single pull from what people type."""
        kind = self._single(allocation_id)[0]
        try:
            return kind.format.typed(text)
        except ValueError as error:
            raise BadOutcome(str(error)) from None

    def _single(self, allocation_id: str) -> tuple[ArmModel, Arm | None]:
        """The outcome model of a single pull, and its arm, where that matters."""
        problem = self.settings.problem
        if problem.is_binary:  # as all arms are: the trial need not be read
            return problem.groups[0].model, None
        ledger = self._ledger()
        slot = ledger.allocation(allocation_id)
        if slot.arm is None:
            raise BadOutcome(f"the allocation has {slot.size} pulls: give their outcomes by arm")
        return ledger.kinds[slot.arm], problem.arms[ledger.position(slot.arm)]

    # -- changes ------------------------------------------------------------------------------

    def _write_ask(
        self,
        decided: Decided,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
    ) -> Allocation | Conflict:
        if request.subject in ledger.subjects:
            return ledger.allocations[ledger.subjects[request.subject]]
        try:
            ledger.check_ask(request.subject)
        except Contradiction as error:
            return self._refuse(connection, ledger, request, key, by, str(error))
        pending = pending_state(ledger)
        decision = decided.at(ledger, pending)
        made, arms = secrets.token_hex(8), ledger.problem.arms
        pulls = {arm.name: n for arm, n in zip(arms, decision.pulls, strict=True) if n}
        data = {
            "allocation": made,
            "arm": sole_arm(pulls),
            "pulls": pulls,
            "number": ledger.asks,
            "reason": decision.reason,
            "decision": decision_record(decision, pending, self.settings),
            **request.said(),
        }
        later = self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[made]

    def _change_of(
        self, request: Request, key: str | None, by: str, by_code: bool = False
    ) -> Change[Allocation]:
        def write(
            connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
        ) -> Allocation | Conflict:
            slot, outcomes = ledger.allocation(request.allocation), request.outcomes()
            counts = told_counts(slot, ledger.kinds, outcomes) if outcomes else ()
            if is_on_record(slot, request.kind, counts, ledger.kinds):
                return slot
            data: dict[str, Any] = {"allocation": slot.id, **outcomes, **request.said()}
            if request.implausible:
                if not request.confirm_range:
                    raise OutOfRange(request.implausible)
                data["out_of_range"] = True
            try:
                later = self._event_log.append(
                    connection, ledger, request.kind, data, by=by, key=key
                )
            except Contradiction as error:
                why = error.said(self._called(by_code))
                return self._refuse(connection, ledger, request, key, by, why)
            return later.allocations[slot.id]

        return self._moving(request, write, key, by)

    # -- outcomes as they are given -----------------------------------------------------------

    def _with_outcomes(
        self, request: Request, given: GivenOutcomes, by_code: bool = False
    ) -> Request:
        """The request with its outcomes; `TrialError` where something is wrong with them."""
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            kind, arm = self._single(request.allocation or "")
            outcome = outcome_of(given, kind)
            return replace(request, outcome=outcome, implausible=_implausible(arm, [outcome]))
        by_arm, from_rows = given, not isinstance(given, Mapping)
        if not isinstance(by_arm, Mapping):
            by_arm = _rows_by_arm(by_arm)
        kinds, names = kinds_by_name(self.settings.problem), self._names(by_code)
        arms = {arm.name: arm for arm in self.settings.problem.arms}
        counts, implausible = [], ""
        for called, told in by_arm.items():
            if called not in names:
                raise TrialError(f"no arm is called {called!r}; arms: {_listed(names)}")
            kind, arm = kinds[names[called]], arms[names[called]]
            outcomes = [outcome_of(outcome, kind) for outcome in told] if from_rows else []
            tally = kind.format.tally(outcomes) if from_rows else _tally(kind, called, told)
            pulls = kind.format.tally_pulls(tally)
            if pulls:
                counts.append((arm.name, _told(kind, called, tally)))
            if pulls and arm.range is not None:
                values = outcomes if from_rows else [tally[1] / pulls]
                implausible = implausible or _implausible(arm, values, f" of {called}")
        if not counts:
            raise TrialError("counts: there are no outcomes in them")
        return replace(request, counts=tuple(sorted(counts)), implausible=implausible)

    def _called(self, by_code: bool) -> dict[str, str]:
        """What the sender calls the arms, by their names."""
        return self._codes if by_code else {name: name for name in self._codes}

    def _names(self, by_code: bool) -> dict[str, str]:
        """Names of the arms, by what the sender calls them; codes in their own order.

        Whoever sees codes in the order of the arms, or of their names, knows which is which.
        """
        names = {called: name for name, called in self._called(by_code).items()}
        return dict(sorted(names.items(), key=lambda one: in_order(one[0]))) if by_code else names


def _implausible(arm: Arm | None, values: Iterable[Outcome], called: str = "") -> str:
    """The sentence about outcomes, or a mean, outside the plausible range of an arm; else empty."""
    if arm is None or arm.range is None:
        return ""
    low, high = arm.range
    for value in map(float, values):
        if not low <= value <= high:
            return (
                f"outcome{called}: {value:g} is outside the plausible range, {low:g} to "
                f"{high:g}; check it, and if it is right, confirm it (--confirm-range, "
                "confirm_range)"
            )
    return ""


def _rows_by_arm(rows: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    by_arm: dict[str, list[Any]] = {}
    for arm, outcome in rows:
        by_arm.setdefault(arm, []).append(outcome)
    return by_arm


def _tally(kind: ArmModel, arm: str, given: object) -> Stats:
    """The tally of an arm, from what was given of it."""
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
