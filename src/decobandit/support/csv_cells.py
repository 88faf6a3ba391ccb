"""Cells of CSV files that a spreadsheet would compute, written so that it does not.

An apostrophe is put before a formula, wherever a spreadsheet may begin a cell: at the start, and
after a semicolon, a tab or a line break, by which some split a line. It is added also where
apostrophes, quotes and blanks stand before the formula, so that it can be taken away again.
"""

from __future__ import annotations

import re

_START = r"(?:^|(?<=[;\t\r\n]))"  # of a cell, for some spreadsheet
_FORMULA = r"(?=['\"\s]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"
_TO_ESCAPE = re.compile(_START + _FORMULA)
_ESCAPED = re.compile(f"{_START}'{_FORMULA}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def harmless(cell: object) -> object:
    """Return what to write for a value: numbers, also as text, as they are."""
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    return _TO_ESCAPE.sub("'", cell)


def original(cell: str) -> str:
    """Return the text that `harmless` was given."""
    return _ESCAPED.sub("", cell)
