"""From a validation error of pydantic to one line: `where: what was found; what is allowed`.

Models check files, requests, forms and options. Their errors have the same wording everywhere; only
the name of the place differs, and the caller gives it by `where`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

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
    """Refuse the first unknown key of a table that has more keys than `model` has fields.

    pydantic reports every unknown key: the time for that grows with what was sent.
    """
    if isinstance(tree, dict) and len(tree) > len(model.model_fields):
        unknown = next(key for key in tree if key not in model.model_fields)
        details = InitErrorDetails(type="extra_forbidden", loc=(unknown,), input=tree[unknown])
        raise ValidationError.from_exception_data(model.__name__, [details])


def without_defaults(properties: dict[str, dict[str, Any]]) -> None:
    """Say the defaults of a JSON schema's properties in their descriptions.

    Programs that write clients refuse tables as defaults, or demand every key that has one.
    """
    for field in properties.values():
        default = field.pop("default", None)
        if default not in (None, {}, [], "") and not isinstance(default, dict):
            said = f"{json.dumps(default)} where it is left out."
            field["description"] = f"{field.get('description', '')} {said}".strip()


def one_line(
    error: ValidationError | Sequence[ErrorDetails],
    model: type[BaseModel] | None = None,
    *,
    where: Naming | None = None,
    show_value: bool = True,
) -> str:
    """The first error in one line; unknown keys first, for a misspelt key is also missing.

    `model` is what was validated: it knows which keys are allowed. `where` names a place (default
    `place_of`). Without `show_value` the line does not repeat what was found.
    """
    details: Sequence[ErrorDetails] = (
        error.errors(include_url=False) if isinstance(error, ValidationError) else error
    )
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    place = (where or place_of)(first["loc"])
    said = _complaint(first, model, show_value)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {said}{more}" if place else f"{said}{more}"


def place_of(keys: Place) -> str:
    """arms[1].prior.good, with quotes around keys that are not plain words."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            word = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shown(key)
            text += f".{word}" if text else word
    return text


def dotted(keys: Place) -> str:
    """multipliers.4: the places of requests, and of the JSON files that the program writes."""
    return ".".join(map(str, keys))


def shown(value: object) -> str:
    """A refused value as a file would write it, on one line, shortened."""
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
    """Errors as pydantic takes them to make an exception of them again."""
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
    if detail["type"] == "one_of" and not show_value:
        return f"given {_sort_of(detail['input'])}; {rule}"
    return f"{shown(detail['input'])} is not allowed; {rule}" if show_value else rule


def _sort_of(value: object) -> str:
    """What was found, without the texts in it."""
    if isinstance(value, str):
        return "text" if value else "empty text"
    return shown(value)


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """The model of the table at a place of `model`."""
    found: type[BaseModel] | None = model
    for key in place:
        if found is not None and isinstance(key, str):
            field = found.model_fields.get(key)
            found = None if field is None else _model_in(field.annotation)
    return found


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model in a type such as `tuple[Arm, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_in(part) for part in get_args(annotation))
    return next((model for model in inner if model is not None), None)
