"""Models of the API that are made from records: fields, types and descriptions are written once.

The record is a frozen dataclass with a numpydoc section `Attributes`; its first sentence describes
the model, and the text of each attribute describes the field.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model


class Out(BaseModel):
    """Base of responses: made from our own values."""

    model_config = ConfigDict(from_attributes=True, extra="forbid")


class OpenOut(Out):
    """Base of responses with more keys than are listed, whose names follow from those."""

    model_config = ConfigDict(from_attributes=True, extra="allow")


def model_of(
    record: type[Any],
    name: str,
    *,
    base: type[Out] = Out,
    doc: str | None = None,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    types: Mapping[str, Any] | None = None,
    more: Mapping[str, tuple[Any, str]] | None = None,
) -> type[Out]:
    """A response model with the fields of a record.

    `doc`: of the model, instead of the record's. `only`, `without`: which fields. `types`: of
    fields whose model differs, such as nested records. `more`: further fields by name, with type
    and description. Every field is required: a response has all of its keys.
    """
    hints, said = get_type_hints(record) | dict(types or {}), attribute_texts(record)
    names = [each.name for each in fields(record) if only is None or each.name in only]
    taken = {key: (hints[key], said[key]) for key in names if key not in without}
    definitions: dict[str, Any] = {
        key: (type_, Field(description=text))
        for key, (type_, text) in (taken | dict(more or {})).items()
    }
    about = doc or (inspect.getdoc(record) or "").partition("\n")[0]
    return create_model(name, __base__=base, __module__=__name__, __doc__=about, **definitions)


def attribute_texts(record: type[Any]) -> dict[str, str]:
    """The text of every attribute in the numpydoc section of a record and of its bases."""
    texts: dict[str, str] = {}
    for each in reversed(record.__mro__):  # a record may extend another
        _, _, section = inspect.cleandoc(each.__doc__ or "").partition("Attributes\n----------\n")
        found = re.findall(r"^(\w+(?:, \w+)*) : .*\n((?:    .*\n?)+)", section, re.MULTILINE)
        for names, text in found:  # several may share one text
            texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return texts
