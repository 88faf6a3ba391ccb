"""Records: frozen dataclasses whose fields are documented where they are declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
TITLE = "Attributes\n----------\n"


def doc(text: str, **settings: Any) -> Any:
    """Return a field of a record with its description; `settings` as in `dataclasses.field`."""
    return field(metadata={"doc": text}, **settings)


@dataclass_transform(frozen_default=True, field_specifiers=(doc,))
def record_class(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Make a frozen dataclass; the descriptions of its fields become a section of its docstring."""

    def make(cls: type[T]) -> type[T]:
        record: Any = dataclass(frozen=True, eq=eq, repr=not hasattr(cls, "_card"))(cls)
        documented = [one for one in fields(record) if "doc" in one.metadata]
        texts = [f"{one.name} : {one.type}\n    {one.metadata['doc']}\n" for one in documented]
        summary, examples, rest = cleandoc(cls.__doc__ or "").partition("Examples\n")
        record.__doc__ = f"{summary.rstrip()}\n\n{TITLE}{''.join(texts)}\n{examples}{rest}".rstrip()
        return record  # type: ignore[no-any-return]

    return make
