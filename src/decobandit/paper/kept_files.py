"""Numbers that are not simulated: computed once, and read again if nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter

from .._version import __version__
from ..support import write_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")


def kept(
    folder: Path | None,
    name: str,
    settings: DataclassInstance,
    kind: TypeAdapter[R],
    compute: Callable[[], R],
) -> R:
    """The record in the file `name`.json, if version and settings are the same; else a new one."""
    if folder is None:
        return compute()
    path = folder / f"{name}.json"
    head = {"version": __version__, "settings": asdict(settings)}
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        if {key: there.get(key) for key in head} == head:
            return kind.validate_python(there["figures"])
    folder.mkdir(parents=True, exist_ok=True)
    record = compute()
    tree = {**head, "figures": kind.dump_python(record)}
    write_whole(path, f"{json.dumps(tree, indent=1)}\n".encode())
    return record
