"""Numbers from text that people write: ASCII digits, no underscores.

Python's `int` and `float` also read the digits of other scripts, and 1_0 as ten.
"""

from __future__ import annotations


def int_from(text: str) -> int:
    """A whole number, with or without a sign; a ValueError where the text is none."""
    return int(_plain(text))


def float_from(text: str) -> float:
    """A number, nan and inf among them; a ValueError where the text is none."""
    return float(_plain(text))


def is_count(text: str) -> bool:
    """Whether the text is digits only."""
    return text.isascii() and text.isdecimal()


def _plain(text: str) -> str:
    if not text.isascii() or "_" in text:
        raise ValueError(f"{text!r} is not a number in ASCII digits")
    return text
