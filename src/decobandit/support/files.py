"""Atomic file writes: a file appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def write_whole(
    path: str | Path, content: str | bytes | Iterable[str], *, mode: int = 0o666
) -> None:
    """Write a file atomically, also if the machine goes down.

    Text is written as UTF-8, and may come in pieces. A link stays one, and a file keeps its
    permissions; a new one has those of `mode` that the process may give.
    """
    pieces = [content] if isinstance(content, str | bytes) else content
    data = (piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a pipe, a device: nothing can take its place
        with target.open("wb") as file:
            file.writelines(data)
        return
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":  # the new name is on disk only when its folder is
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
