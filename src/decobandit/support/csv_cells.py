"""Text in CSV files that a spreadsheet would take for a formula.

Such a cell gets an apostrophe in front, and so does one that already looks like this, so that every
text can be read back.
"""

from __future__ import annotations

# the wide forms are taken for formulas, too, where they are typed
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def _begins_a_formula(text: str) -> bool:
    return text.lstrip("' ").startswith(_FORMULA)


def harmless(cell: object) -> object:
    """What to write for a value: numbers as they are."""
    return f"'{cell}" if isinstance(cell, str) and _begins_a_formula(cell) else cell


def original(cell: str) -> str:
    """The text that `harmless` was given."""
    return cell[1:] if cell.startswith("'") and _begins_a_formula(cell) else cell
