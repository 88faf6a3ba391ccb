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
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

Kernel: TypeAlias = Callable[..., Any]  # compiled functions are described by their docstrings
Decorator: TypeAlias = Callable[[Kernel], Kernel]
ENVIRONMENT = "DECO_CACHE"
PACKAGE = __name__.partition(".")[0]
KEPT = 4  # folders of a file, the last used ones; about 15 MB for all files
IN_USE = 3600.0  # seconds since the last start of a program that uses a folder: it may still run
SOURCES = (".py", ".pyc")  # the second where an installation has no sources
RECORD = b"(NamedTuple)"  # kernels take records without importing them
IMPORT = re.compile(rb"^from (\.+)([\w.]*) import", re.MULTILINE)


def content_of_kernels(versions: Iterable[str]) -> dict[str, str]:
    """Return, by kernel file ("room.name"), a hash of the sources it depends on.

    versions: of what compiles it.
    """
    texts = _kernel_sources()
    records = {name for name, text in texts.items() if RECORD in text}
    needs = {name: _imported(name, text, texts) for name, text in texts.items()}
    return {name: _hash(versions, texts, _reached(name, needs) | records) for name in texts}


def _kernel_sources() -> dict[str, bytes]:
    texts: dict[str, bytes] = {}
    for room in files(PACKAGE).iterdir():
        kernels = room / "kernels"
        if kernels.is_dir():
            for file in sorted(kernels.iterdir(), key=lambda entry: entry.name):
                stem, _, ending = file.name.partition(".")
                if f".{ending}" in SOURCES:
                    texts.setdefault(f"{room.name}.{stem}", file.read_bytes())
    return texts


def _imported(name: str, text: bytes, texts: Mapping[str, bytes]) -> set[str]:
    """Return the kernel files that one imports; all for bytecode."""
    room, modules = name.partition(".")[0], set[str]()
    if b"\0" in text:
        return set(texts)
    for dots, path in IMPORT.findall(text):
        other = f"{room}.{path.decode()}" if dots == b"." else path.decode().replace(".kernels", "")
        if other in texts:
            modules.add(other)
        elif dots == b"." or path.endswith(b"kernels"):  # a whole folder of kernels
            return set(texts)
    return modules


def _reached(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    reached, ahead = set[str](), [name]
    while ahead:
        at = ahead.pop()
        if at not in reached:
            reached.add(at)
            ahead.extend(needs[at])
    return reached


def _hash(versions: Iterable[str], texts: Mapping[str, bytes], names: Iterable[str]) -> str:
    digest = hashlib.sha256("\n".join(versions).encode())
    for name in sorted(names):
        digest.update(f"\n{name} {len(texts[name])}\n".encode())
        digest.update(texts[name])
    return digest.hexdigest()[:32]


def code_root(setting: str = "") -> Path | None:
    """Return the writable folder of machine code, or None.

    told: the folder set for numba, if any.
    """
    chosen = os.environ.get(ENVIRONMENT)
    for root in _roots(setting):
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=root).close()  # a full or read-only disk says so here
            return root
        if chosen and root == Path(chosen) / "kernels" and root.is_dir():
            with contextlib.suppress(OSError):
                return _temporary_copy(root)
    return None


def _temporary_copy(root: Path) -> Path:
    """Copy machine code that cannot be written to, as in a container image: numba writes to it."""
    copy = Path(tempfile.mkdtemp(prefix="decobandit-"))
    atexit.register(_remove_copy, copy, os.getpid())
    shutil.copytree(root, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return copy


def _remove_copy(copy: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked off
        shutil.rmtree(copy, ignore_errors=True)


def use_folder(folder: Path) -> None:
    """Make the folder of one content of a file, or note that it is in use."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    if new:
        _remove_old(folder.parent)


def _roots(setting: str) -> Iterable[Path]:
    if chosen := os.environ.get(ENVIRONMENT):
        yield Path(chosen) / "kernels"
    if setting:
        yield Path(setting) / PACKAGE / "kernels"
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
    """Remove all folders of a file but the last used ones and those that may be in use."""
    used = {}
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # another program may have removed it just now
            used[folder] = folder.stat().st_mtime
    for folder in sorted(used, key=used.__getitem__, reverse=True)[KEPT:]:
        if used[folder] < time.time() - IN_USE:
            shutil.rmtree(folder, ignore_errors=True)
