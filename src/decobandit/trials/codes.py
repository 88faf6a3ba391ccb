"""Codes of arms: what blinded people see instead of names.

A, B, ... in an order that is drawn when the trial is created, and stands in its first event. Logs
that have none get an order from the hash of that event, which blinded people do not see.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from .events import digest


def letters(number: int) -> str:
    """0 is A, 25 is Z, 26 is AA, as in spreadsheets."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def drawn_codes(arms: int) -> list[str]:
    """A code for every arm, in an order that nobody can predict."""
    codes = [letters(k) for k in range(arms)]
    secrets.SystemRandom().shuffle(codes)
    return codes


def codes_of(recorded: Sequence[str] | None, names: Sequence[str], first_hash: str) -> list[str]:
    """The code of every arm: those on record, or those that follow from the first event."""
    expected = [letters(k) for k in range(len(names))]
    if recorded is not None:
        if sorted(recorded) != sorted(expected):
            raise ValueError("the codes are not those of its arms")
        return list(recorded)
    order = sorted(range(len(names)), key=lambda k: digest(f"{first_hash} {names[k]}"))
    codes = [""] * len(names)
    for code, arm in zip(expected, order, strict=True):
        codes[arm] = code
    return codes


def in_order(code: str) -> tuple[int, str]:
    """By which codes are sorted: Z comes before AA."""
    return len(code), code
