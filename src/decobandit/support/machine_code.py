"""The cache of compiled kernels on disk: a folder for each file and each content of its sources."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
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
KEPT = 4  # folders of a file, the last used ones; about 15 MB for all files
IN_USE = 3600.0  # seconds since the last start of a program that uses a folder: it may still run
SOURCES = ("py", "pyc")  # the second where an installation has no sources
RECORD = b"(NamedTuple)"  # kernels take records without importing them
IMPORT = re.compile(rb"^from (\.+)([\w.]*) import", re.MULTILINE)


def content_of_kernels(versions: Iterable[str]) -> dict[str, str]:
    """Return, by kernel file ("room.name"), a hash of compilers and sources it depends on."""
    texts: dict[str, bytes] = {}
    for room in files(PACKAGE).iterdir():
        kernels = room / "kernels"
        for file in kernels.iterdir() if kernels.is_dir() else ():
            stem, _, ending = file.name.partition(".")
            if ending == "py" or (ending in SOURCES and f"{room.name}.{stem}" not in texts):
                texts[f"{room.name}.{stem}"] = file.read_bytes()
    records = {name for name, text in texts.items() if RECORD in text}
    contents = {}
    for name in texts:
        reached, ahead = set[str](), [name]
        while ahead:
            at = ahead.pop()
            if at not in reached:
                reached.add(at)
                ahead.extend(_imported(at, texts))
        digest = hashlib.sha256("\n".join(versions).encode())
        for needed in sorted(reached | records):
            digest.update(f"\n{needed} {len(texts[needed])}\n".encode() + texts[needed])
        contents[name] = digest.hexdigest()[:32]
    return contents


def _imported(name: str, texts: dict[str, bytes]) -> set[str]:
    """Return the kernel files that one imports; all for bytecode."""
    text, room, modules = texts[name], name.partition(".")[0], set[str]()
    for dots, path in IMPORT.findall(text):
        other = f"{room}.{path.decode()}" if dots == b"." else path.decode().replace(".kernels", "")
        if other in texts:
            modules.add(other)
        elif dots == b"." or path.endswith(b"kernels"):  # a whole folder of kernels
            return set(texts)
    return set(texts) if b"\0" in text else modules


def code_root(setting: str = "") -> Path | None:
    """Return the writable folder of machine code, or None; `setting`: that of numba, if any."""
    chosen = os.environ.get(ENVIRONMENT)
    for root in _roots(setting):
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=root).close()  # a full or read-only disk says so here
            return root
        if chosen and root == Path(chosen) / "kernels" and root.is_dir():
            # as in a container image: numba writes to it
            with contextlib.suppress(OSError):
                copy = Path(tempfile.mkdtemp(prefix="decobandit-"))
                atexit.register(_remove_copy, copy, os.getpid())
                shutil.copytree(root, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
                return copy
    return None


def _remove_copy(copy: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked off
        shutil.rmtree(copy, ignore_errors=True)


def _roots(setting: str) -> Iterable[Path]:
    if chosen := os.environ.get(ENVIRONMENT):
        yield Path(chosen) / "kernels"
    if setting:
        yield Path(setting) / PACKAGE / "kernels"
    with contextlib.suppress(RuntimeError):  # there is no home
        if sys.platform == "win32":
            caches = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            caches = Path.home() / "Library" / "Caches"
        else:
            caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        yield caches / PACKAGE / "kernels"
    yield Path(__file__).parents[1] / "__pycache__" / "kernels"


def use_folder(folder: Path) -> None:
    """Make the folder of one content of a file, without ones long unused, or note its use."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    if not new:
        return
    used = {}
    for other in folder.parent.iterdir():
        with contextlib.suppress(OSError):  # another program may have removed it just now
            used[other] = other.stat().st_mtime
    for other in sorted(used, key=used.__getitem__, reverse=True)[KEPT:]:
        if used[other] < time.time() - IN_USE:
            shutil.rmtree(other, ignore_errors=True)
