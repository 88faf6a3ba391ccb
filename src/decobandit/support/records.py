"""Records: frozen dataclasses whose fields are documented where they are declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
LAST_SECTIONS = re.compile(r"^(?=(?:Raises|See Also|Examples)\n-)", re.MULTILINE)


def with_section(text: str | None, title: str, entries: Iterable[tuple[str, str, str]]) -> str:
    """Return a docstring with one more section: name, type and description of every entry."""
    summary, *rest = LAST_SECTIONS.split(cleandoc(text or ""), maxsplit=1)
    section = [f"{title}\n{'-' * len(title)}"]
    for name, kind, about in entries:
        lines = fill(about, 100, initial_indent="    ", subsequent_indent="    ")
        section.append(f"{name} : {kind}\n{lines}")
    return "\n\n".join([summary.rstrip(), "\n".join(section), *rest])


def doc(text: str, **settings: Any) -> Any:
    """Return a field of a record with its description; `settings` as in `dataclasses.field`."""
    return field(metadata={"doc": text}, **settings)


@dataclass_transform(frozen_default=True, field_specifiers=(doc,))
def record_class(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Make a frozen dataclass; the descriptions of its fields become a section of its docstring."""

    def make(cls: type[T]) -> type[T]:
        record: Any = dataclass(frozen=True, eq=eq, repr=not hasattr(cls, "_card"))(cls)
        documented = [one for one in fields(record) if "doc" in one.metadata]
        entries = [(one.name, str(one.type), one.metadata["doc"]) for one in documented]
        record.__doc__ = with_section(cls.__doc__, "Attributes", entries)
        return record  # type: ignore[no-any-return]

    return make
