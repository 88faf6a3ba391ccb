"""Requests to a trial: whether they are valid, already on record, or contradict the record."""

from __future__ import annotations

from dataclasses import replace

from ..problem import Arm, ArmModel, Outcome, is_name
from .allocations import Allocation
from .errors import BadOutcome, Closed, LimitReached, NoFreeSlot, OutOfRange, TrialError
from .ledger import Ledger
from .request_records import Request

MAX_KEY = 100  # characters
MAX_SUBJECT = 100
MAX_TEXT = 500  # of a note or a reason


def outcome_of(value: object, kind: ArmModel) -> Outcome:
    """An outcome of an arm of this kind, as the log has it; other values are refused."""
    try:
        return kind.plain(value)
    except ValueError as error:
        raise BadOutcome(str(error)) from None


def out_of_range(arm: Arm, outcome: float, request: Request, called: str = "") -> bool:
    """Whether an outcome, or a mean of several, is outside the plausible range of its arm.

    `OutOfRange` unless the request confirms it. `called`: the arm as the sender calls it.
    """
    if arm.range is None or arm.range[0] <= outcome <= arm.range[1]:
        return False
    if not request.confirm_range:
        low, high = arm.range
        raise OutOfRange(
            f"outcome{f' of {called}' if called else ''}: {outcome:g} is outside the plausible "
            f"range, {low:g} to {high:g}; check it, and if it is right, confirm it "
            "(--confirm-range, confirm_range)"
        )
    return True


def check_key(key: str | None) -> None:
    """Refuse a key that cannot be stored."""
    if key is None:
        return
    if not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY and key.isprintable()):
        raise TrialError(f"key: must be 1 to {MAX_KEY} printable characters")


def reason_of(value: object) -> str:
    """Why something is done, as the log has it."""
    return _line(value, "reason", MAX_TEXT)


def note_of(value: object) -> str | None:
    """What is noted with an ask, where anything is."""
    return None if value is None else _line(value, "note", MAX_TEXT)


def subject_of(value: object) -> str | None:
    """Who or what an arm is for, where that is said."""
    return None if value is None else _line(value, "subject", MAX_SUBJECT)


def _line(value: object, what: str, most: int) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= most
        or not value.isprintable()
        or value != value.strip()
    ):
        raise TrialError(
            f"{what}: must be one line of 1 to {most} printable characters, without blanks around"
        )
    return value


def actor_of(by: str) -> str:
    """Who sends the request, as the log names them."""
    if not is_name(by):
        raise TrialError(
            "by: must be a name of 1 to 100 printable characters, no blank at either end"
        )
    return by


def check_ask(ledger: Ledger, pulls: int = 1) -> None:
    """Refuse an allocation, or a batch of pulls, that the trial has no room for."""
    if ledger.state != "running":
        raise Closed("the trial is closed; an administrator can reopen it")
    if ledger.used + pulls > ledger.slots:
        raise NoFreeSlot("every slot of the trial is in use")
    if not ledger.has_room_for(pulls):
        raise LimitReached(
            "as many allocations are pending as the trial permits; record an outcome first"
        )


def other_spelling(ledger: Ledger, request: Request) -> str:
    """Why an ask is refused whose subject is spelt otherwise on record; empty if it is not."""
    known = ledger.look_alike(request.subject)
    if known is None or known == request.subject:
        return ""
    return (
        f"subject: {request.subject!r} is on record as {known!r}, which has an allocation; use "
        "that spelling, or one that differs in more than case, blanks or alphabet"
    )


def check_cancel(ledger: Ledger, pulls: int = 1) -> None:
    """Refuse more cancellations than the trial permits."""
    if not ledger.may_cancel(pulls):
        raise LimitReached(
            "as many allocations were cancelled as the trial permits; an administrator can "
            "permit more"
        )


def on_record(slot: Allocation, request: Request) -> bool:
    """Whether what the request asks for is on record already."""
    if request.kind == "cancelled":
        return slot.state == "cancelled"
    return slot.state == "told" and slot.outcome == request.outcome


def as_answered(slot: Allocation, request: Request) -> Allocation:
    """The allocation as it was when the request was answered first."""
    if request.kind == "asked":
        return replace(slot, state="open", outcome=None, change_reason=None)
    if request.kind in ("cancelled", "unmasked"):
        return slot
    return replace(slot, state="told", outcome=request.outcome, change_reason=request.reason)


def contradiction(slot: Allocation, request: Request) -> str:
    """Why the request is refused, without telling what is on record."""
    if slot.state == "cancelled":
        return "the allocation was cancelled"
    if request.kind == "corrected":
        return "the allocation has no outcome to correct; tell it"
    if request.kind == "cancelled":
        return "the allocation has an outcome and cannot be cancelled"
    return "another outcome is on record; an administrator can correct it"
