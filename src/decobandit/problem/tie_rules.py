"""The names of the rules by which ties are broken; `ties.py` has what they do.

Without numpy: `deco --help` shows them.
"""

from __future__ import annotations

from typing import Literal, get_args

from ..support import InvalidArgument

TieRule = Literal["least-pulled", "most-pulled", "first", "last", "random"]
TIE_RULES: tuple[TieRule, ...] = get_args(TieRule)
DEFAULT_TIES: TieRule = "least-pulled"


def tie_rule(text: str) -> TieRule:
    """Return the tie rule of this name."""
    for rule in TIE_RULES:
        if rule == text:
            return rule
    raise InvalidArgument(
        f"ties: {text!r} is not a rule; choose one of {', '.join(TIE_RULES)}", field="ties"
    )
