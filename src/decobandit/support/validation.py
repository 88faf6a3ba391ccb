"""Errors of pydantic in one line, strict JSON, names that look alike."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from .errors import DecoError

Place = tuple[int | str, ...]
Naming = Callable[[Place], str]

_SHOWN = 60  # characters of a refused value that are repeated in the message
_RULES = {
    "dict_type": "must be a table",
    "list_type": "must be a list",
    "model_attributes_type": "must be a table",
    "model_type": "must be a table",
    "tuple_type": "must be a list",
}


def refuse(rule: str, *, found: object, at: Place = ()) -> NoReturn:
    """Raise a validation error at the place `at`, relative to the value under validation."""
    error = PydanticCustomError("not_allowed", _literal(rule))
    details = InitErrorDetails(type=error, loc=at, input=found)
    raise ValidationError.from_exception_data("value", [details])


def refuse_many_keys(tree: object, model: type[BaseModel]) -> None:
    """Refuse the first unknown key where there are many: pydantic would report every one."""
    if isinstance(tree, dict) and len(tree) > len(model.model_fields):
        unknown = next(key for key in tree if key not in model.model_fields)
        details = InitErrorDetails(type="extra_forbidden", loc=(unknown,), input=tree[unknown])
        raise ValidationError.from_exception_data(model.__name__, [details])


def without_defaults(properties: dict[str, dict[str, Any]]) -> None:
    """Move defaults of JSON schema properties into texts: makers of clients demand such keys."""
    for field in properties.values():
        default = field.pop("default", None)
        if default not in (None, {}, [], "") and not isinstance(default, dict):
            note = f"{json.dumps(default)} where it is left out."
            field["description"] = f"{field.get('description', '')} {note}".strip()


def one_line(
    error: ValidationError | Sequence[ErrorDetails],
    model: type[BaseModel] | None = None,
    *,
    where: Naming | None = None,
    show_value: bool = True,
) -> str:
    """Return the first error in one line; `model`, what was validated, knows the allowed keys."""
    details: Sequence[ErrorDetails] = (
        error.errors(include_url=False) if isinstance(error, ValidationError) else error
    )
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    place = (where or place_of)(first["loc"])
    complaint = _complaint(first, model, show_value)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {complaint}{more}" if place else f"{complaint}{more}"


def place_of(keys: Place) -> str:
    """Format a place as arms[1].prior.good, with quotes where needed."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            word = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shown(key)
            text += f".{word}" if text else word
    return text


def dotted(keys: Place) -> str:
    """Format a place as multipliers.4."""
    return ".".join(map(str, keys))


def shown(value: object) -> str:
    """Format a refused value on one line, shortened."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=not value.isprintable())
    elif value is None or isinstance(value, bool):
        text = json.dumps(value)
    elif isinstance(value, list | tuple):
        text = f"a list of {len(value)}"
    elif isinstance(value, Mapping):
        text = "a table"
    elif isinstance(value, int) and value.bit_length() > 128:
        text = "a huge integer"  # Python refuses to print the largest
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def init_details(details: Sequence[ErrorDetails]) -> list[InitErrorDetails]:
    """Return errors in the form that pydantic raises."""
    return [
        InitErrorDetails(
            type=PydanticCustomError(detail["type"], _literal(detail["msg"])),
            loc=detail["loc"],
            input=detail["input"],
        )
        for detail in details
    ]


def _literal(text: str) -> Any:
    # pydantic's stubs ask for a literal string; a text without context is taken as it stands
    return text


def _complaint(detail: ErrorDetails, model: type[BaseModel] | None, show_value: bool) -> str:
    if detail["type"] == "missing":
        return "required key is missing"
    if detail["type"] == "extra_forbidden":
        table = None if model is None else _model_at(model, detail["loc"][:-1])
        return f"unknown key; allowed: {', '.join(table.model_fields)}" if table else "unknown key"
    rule = _RULES.get(detail["type"]) or re.sub(r"^\w+ should ", "must ", detail["msg"])
    value = detail["input"]
    if detail["type"] == "one_of" and not show_value:
        sort = ("text" if value else "empty text") if isinstance(value, str) else shown(value)
        return f"given {sort}; {rule}"
    return f"{shown(value)} is not allowed; {rule}" if show_value else rule


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """Return the model of the table at a place, or None."""
    nested: type[BaseModel] | None = model
    for key in place:
        if nested is not None and isinstance(key, str):
            field = nested.model_fields.get(key)
            nested = None if field is None else _model_in(field.annotation)
    return nested


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in a type such as `tuple[Arm, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_in(part) for part in get_args(annotation))
    return next((model for model in inner if model is not None), None)


MAX_DEPTH = 20
MAX_DIGITS = 40  # of one number; a double needs 17
MAX_WHOLE = 2**53  # up to which doubles are exact


class JsonError(DecoError, code="invalid_json"):
    """Not JSON, or JSON that is refused."""


def parse(body: bytes, *, max_depth: int = MAX_DEPTH, whole: bool = False) -> Any:
    """Parse strict JSON in UTF-8 or raise JsonError; with `whole`, 20.0 is read as 20."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonError("the text is not UTF-8") from None
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_constant,
            parse_float=lambda digits: _number(digits, float, whole=whole),
            parse_int=lambda digits: _number(digits, int),
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


def _number(digits: str, kind: type[int | float], *, whole: bool = False) -> float:
    if len(digits) > MAX_DIGITS:
        raise JsonError("a number has too many digits")
    number = kind(digits)
    if not math.isfinite(number):
        raise JsonError("a number is too large")
    return int(number) if whole and number % 1 == 0 and abs(number) <= MAX_WHOLE else number


def _check(tree: Any, max_depth: int) -> None:
    """Check depth and strings, with an explicit stack."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, dict | list):
            if depth > max_depth:
                raise JsonError("nested too deeply")
            children = [*node, *node.values()] if isinstance(node, dict) else node
            waiting.extend((child, depth + 1) for child in children)
        elif isinstance(node, str):
            if "\0" in node:
                raise JsonError("a string has a NUL character")
            try:
                node.encode("utf-8")
            except UnicodeEncodeError:
                raise JsonError("a string has half a surrogate pair") from None


# letters that print as nothing, though they count as printable
BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5"
# Cyrillic and Greek letters that print like Latin ones, and the Latin ones below them
_LIKE_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u04ae"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03c1\u03b9\u03ba\u03c5\u03f2\u03f9\u0131\u0251\u0261\u03b1",
    "aeopcyxijsdhqwlABESIJKMHOPCTYXYABEZHIKMNOPTYXovpikucCiaga",
)
_VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_DASHES = re.compile("[\u2010-\u2015\u2212\u2043]")
# between two digits a blank separates numbers; elsewhere "S 2" is "S2"
_BLANKS = re.compile(rf"(?<=\d)[\s{BLANK_LETTERS}]+(?=\d)|([\s{BLANK_LETTERS}]+)")


def appearance(name: str) -> str:
    """Return the same text for names that print alike: other alphabets and forms become Latin."""
    return _VARIATIONS.sub("", unicodedata.normalize("NFKC", name).translate(_LIKE_LATIN))


def look_alike_keys(name: str) -> frozenset[str]:
    """Return keys of which two names share one if they differ in case, blanks or look only."""
    if name.isascii():
        return frozenset([_without_blanks(name.casefold())])
    folded = unicodedata.normalize("NFKC", name).casefold()
    return frozenset(
        _without_blanks(_DASHES.sub("-", text))
        for text in (appearance(name).casefold(), appearance(folded).casefold())
    )


def _without_blanks(text: str) -> str:
    return _BLANKS.sub(lambda blank: "" if blank[1] else " ", text).strip()
