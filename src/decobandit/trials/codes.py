"""Codes of arms: what blinded people see instead of names.

A, B, ... in an order that is drawn when the trial is created, and stands in its first event.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence


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


def codes_of(recorded: Sequence[str], arms: int) -> list[str]:
    """Check the codes on record; a ValueError unless every arm has its own."""
    if sorted(recorded) != sorted(letters(k) for k in range(arms)):
        raise ValueError("the codes are not those of its arms")
    return list(recorded)


def in_order(code: str) -> tuple[int, str]:
    """By which codes are sorted: Z comes before AA."""
    return len(code), code
