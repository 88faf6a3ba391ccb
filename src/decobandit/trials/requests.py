"""What can be asked of a trial: whether it can be read, is on record already, or contradicts it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ..problem import is_name
from .errors import TrialError
from .ledger import Allocation, Request

MOST_KEY = 100  # characters
MOST_SHOWN = 60  # of what is refused


def outcome_of(value: object) -> int:
    """1 or 0; other ways to say it are refused."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | np.integer) and value in (0, 1):
        return int(value)
    raise TrialError(f"outcome: {value!r}; must be 1 (good) or 0 (bad)")


def check_key(key: str | None) -> None:
    """Refuse a key that could not be stored or read."""
    if key is None:
        return
    if not (isinstance(key, str) and 1 <= len(key) <= MOST_KEY and key.isprintable()):
        raise TrialError(f"key: must be 1 to {MOST_KEY} printable characters")


def actor_of(by: str) -> str:
    """Who asks, as the log names them."""
    if not is_name(by):
        raise TrialError("by: must be a name of 1 to 100 printable characters, without a comma")
    return by


def trial_name(name: str) -> str:
    """A name by which a trial can be found again: not like an id, an option or a path."""
    like_an_id = re.fullmatch("[0-9a-f]{16}", name) if isinstance(name, str) else None
    if not is_name(name) or name.startswith("-") or "/" in name or like_an_id:
        shown = repr(name) if len(str(name)) <= MOST_SHOWN else "too long"
        raise TrialError(
            f"name: {shown}; must be 1 to 100 printable characters without comma or slash, "
            "must not begin with a dash, and must not look like an id"
        )
    return name


def on_record(slot: Allocation, request: Request) -> bool:
    """Whether the request asks for what is so already."""
    if request.kind == "cancelled":
        return slot.state == "cancelled"
    return slot.state == "told" and slot.outcome == request.outcome


def as_answered(slot: Allocation, request: Request) -> Allocation:
    """The allocation as it was when the request was answered first."""
    if request.kind == "asked":
        return replace(slot, state="open", outcome=None)
    if request.kind == "cancelled":
        return slot
    return replace(slot, state="told", outcome=request.outcome)


def contradiction(slot: Allocation, request: Request) -> str:
    """Why the request cannot be, without saying what is on record."""
    if slot.state == "cancelled":
        return "the allocation was cancelled"
    if request.kind == "corrected":
        return "the allocation has no outcome to correct; tell it"
    if request.kind == "cancelled":
        return "the allocation has an outcome and cannot be cancelled"
    return "another outcome is on record; an administrator can correct it"
