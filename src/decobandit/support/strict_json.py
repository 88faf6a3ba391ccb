"""Strict JSON: text that two programs might read differently is refused, with one sentence why.

Python's reader accepts NaN, keeps the last of two equal keys, reads 1e999 as infinity and accepts
half a surrogate pair. The size of a request's body is limited before it is read.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 20
MAX_DIGITS = 40  # of one number; a double needs 17
MAX_WHOLE = 2**53  # up to which doubles are exact


class JsonError(ValueError):
    """Not JSON, or JSON that is refused."""


def parse(body: bytes, *, max_depth: int = MAX_DEPTH, whole: bool = False) -> Any:
    """The tree of a body in UTF-8. Raises JsonError, and nothing else.

    `whole`: 20.0 is read as 20; to JSON Schema both are the same integer.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonError("the text is not UTF-8") from None
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_constant,
            parse_float=_number if whole else _float,
            parse_int=_int,
        )
    except json.JSONDecodeError as error:
        raise JsonError(f"not JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None
    _check(tree, max_depth)
    return tree


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise JsonError("a key occurs twice")
    return table


def _no_constant(name: str) -> NoReturn:
    raise JsonError("NaN and Infinity are not JSON")


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonError("a number has too many digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise JsonError("a number has too many digits")
    number = float(digits)
    if not math.isfinite(number):
        raise JsonError("a number is too large")
    return number


def _number(digits: str) -> float:
    number = _float(digits)
    return int(number) if number.is_integer() and abs(number) <= MAX_WHOLE else number


def _check(tree: Any, max_depth: int) -> None:
    """Depth and strings; with an explicit stack: the tree may be deeper than Python's."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, str):
            _check_text(node)
        elif isinstance(node, dict | list):
            if depth > max_depth:
                raise JsonError("nested too deeply")
            if isinstance(node, dict):
                for key in node:
                    _check_text(key)
            children = node.values() if isinstance(node, dict) else node
            waiting.extend((child, depth + 1) for child in children)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise JsonError("a string has a NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise JsonError("a string has half a surrogate pair") from None
