"""Where the machine code of compiled kernels is kept on disk.

One folder for each content of all kernel sources together, under the first of these that can be
written to:

    $DECO_CACHE                        where it is set
    the folder that numba is told      NUMBA_CACHE_DIR, where it is set
    the user's folder for caches       ~/.cache/decobandit and its like on other systems
    __pycache__ of the package

Code compiled from other sources is therefore never found, whichever kernel was edited, and
installations that have the same kernels share their code. Folders that were not used lately are
removed when a new one is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

Kernel: TypeAlias = Callable[..., Any]  # compiled functions are described by their docstrings
Decorator: TypeAlias = Callable[[Kernel], Kernel]
ENVIRONMENT = "DECO_CACHE"
PACKAGE = __name__.partition(".")[0]
KEPT = 4  # folders, the last used ones; about 15 MB each
IN_USE = 3600.0  # seconds since the last start of a program that uses a folder: it may still run
SOURCES = (".py", ".pyc")  # the second where an installation has no sources


def content_of_kernels(versions: Iterable[str]) -> str:
    """A hash of all kernel sources of the package and of the versions of what compiles them."""
    found = hashlib.sha256("\n".join(versions).encode())
    for room in sorted(files(PACKAGE).iterdir(), key=lambda entry: entry.name):
        kernels = room / "kernels"
        if not kernels.is_dir():
            continue
        for file in sorted(kernels.iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(SOURCES):
                text = file.read_bytes()
                found.update(f"\n{room.name}/{file.name} {len(text)}\n".encode())
                found.update(text)
    return found.hexdigest()[:32]


def code_folder(content: str, told: str = "") -> Path | None:
    """The folder for code of this content, ready to be written to; None where there is none.

    told: the folder that numba is told to use, if any.
    """
    for root in _roots(told):
        folder = root / content
        with contextlib.suppress(OSError):
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()  # a full or read-only disk says so here
            os.utime(folder)
            if new:
                _remove_old(root)
            return folder
    return None


def _roots(told: str) -> Iterable[Path]:
    if chosen := os.environ.get(ENVIRONMENT):
        yield Path(chosen) / "kernels"
    if told:
        yield Path(told) / PACKAGE / "kernels"
    with contextlib.suppress(RuntimeError):  # there is no home
        yield _user_caches() / PACKAGE / "kernels"
    yield Path(__file__).parents[1] / "__pycache__" / "kernels"


def _user_caches() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _remove_old(root: Path) -> None:
    """Remove all folders but the last used ones and those that may be in use."""
    used = {}
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # another program may have removed it just now
            used[folder] = folder.stat().st_mtime
    for folder in sorted(used, key=used.__getitem__, reverse=True)[KEPT:]:
        if used[folder] < time.time() - IN_USE:
            shutil.rmtree(folder, ignore_errors=True)
