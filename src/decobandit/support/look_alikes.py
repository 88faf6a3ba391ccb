"""Names that a reader cannot tell apart."""

from __future__ import annotations

import re
import unicodedata

# letters that print as nothing, though they count as printable
BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5"
# Cyrillic and Greek letters that print like Latin ones, and the Latin ones below them
_LIKE_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u04ae"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03c1\u03b9\u03ba\u03c5\u03f2\u03f9\u0131\u0251\u0261\u03b1",
    "aeopcyxijsdhqwl"
    "ABESIJKMHOPCTYXY"
    "ABEZHIKMNOPTYX"
    "ovpikucCiaga",
)  # fmt: skip
_DASHES = re.compile("[\u2010-\u2015\u2212\u2043]")
# between two digits a blank separates numbers; elsewhere "S 2" is "S2"
_BLANKS = re.compile(rf"(?<=\d)[\s{BLANK_LETTERS}]+(?=\d)|([\s{BLANK_LETTERS}]+)")


def appearance(name: str) -> str:
    """Return the same text for names that print alike.

    Letters of other alphabets that look Latin count as Latin; so do their wide, bold and other
    forms, and an accent counts the same as a letter's part and by itself.
    """
    plain = unicodedata.normalize("NFKC", name).translate(_LIKE_LATIN)
    return "".join(sign for sign in plain if not _is_variation(sign))


def look_alike_keys(name: str) -> frozenset[str]:
    """Return keys of which two names share one if they differ only in case, blanks or appearance.

    Two keys where capital and small letters resemble different Latin ones.
    """
    if name.isascii():
        return frozenset([_without_blanks(name.casefold())])
    folded = unicodedata.normalize("NFKC", name).casefold()
    return frozenset(
        _without_blanks(_DASHES.sub("-", text))
        for text in (appearance(name).casefold(), appearance(folded).casefold())
    )


def _without_blanks(text: str) -> str:
    return _BLANKS.sub(lambda blank: "" if blank[1] else " ", text).strip()


def _is_variation(sign: str) -> bool:
    return "\ufe00" <= sign <= "\ufe0f" or "\U000e0100" <= sign <= "\U000e01ef"
