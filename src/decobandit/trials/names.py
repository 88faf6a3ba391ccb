"""Names of trials: which are allowed."""

from __future__ import annotations

import re

from ..problem import is_name
from ..support import BLANK_LETTERS
from .errors import TrialError

MAX_SHOWN = 60  # of what is refused


def trial_name(name: str) -> str:
    """A valid name of a trial: not like an id, an option or a path."""
    like_an_id = re.fullmatch("[0-9a-f]{16}", name) if isinstance(name, str) else None
    if (
        not is_name(name)
        or name.startswith("-")
        or name in (".", "..")
        or any(sign in name for sign in "/" + BLANK_LETTERS)
        or like_an_id
    ):
        shown = repr(name) if len(str(name)) <= MAX_SHOWN else "too long"
        raise TrialError(
            f"name: {shown}; must be 1 to 100 printable characters without a slash, "
            "must not begin with a dash, must not be '.' or '..', and must not look like an id"
        )
    return name
