"""Names of trials: which are allowed, and which look the same to a reader."""

from __future__ import annotations

import re
import unicodedata

from ..problem import is_name
from .errors import TrialError

MAX_SHOWN = 60  # of what is refused
# letters that print as nothing, though they count as printable
_BLANK = "\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5"
# Cyrillic and Greek letters that print like Latin ones, and the Latin ones below them
_LIKE_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u04ae"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03c1\u03b9\u03ba\u03c5\u03f2\u03f9\u0131\u0251\u0261",
    "aeopcyxijsdhqwl"
    "ABESIJKMHOPCTYXY"
    "ABEZHIKMNOPTYX"
    "ovpikucCiag",
)  # fmt: skip


def trial_name(name: str) -> str:
    """A valid name of a trial: not like an id, an option or a path."""
    like_an_id = re.fullmatch("[0-9a-f]{16}", name) if isinstance(name, str) else None
    if (
        not is_name(name)
        or name.startswith("-")
        or name in (".", "..")
        or any(sign in name for sign in "/" + _BLANK)
        or like_an_id
    ):
        shown = repr(name) if len(str(name)) <= MAX_SHOWN else "too long"
        raise TrialError(
            f"name: {shown}; must be 1 to 100 printable characters without a slash, "
            "must not begin with a dash, must not be '.' or '..', and must not look like an id"
        )
    return name


def appearance(name: str) -> str:
    """The same text for names that a reader cannot tell apart.

    Letters of other alphabets that look Latin count as Latin; so do their wide, bold and other
    forms, and an accent counts the same as a letter's part and by itself.
    """
    plain = unicodedata.normalize("NFKC", name).translate(_LIKE_LATIN)
    return "".join(sign for sign in plain if not _is_variation(sign))


def _is_variation(sign: str) -> bool:
    return "\ufe00" <= sign <= "\ufe0f" or "\U000e0100" <= sign <= "\U000e01ef"
