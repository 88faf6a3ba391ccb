"""Processors and memory that this process may use, its control groups on Linux included."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
import sys
from pathlib import Path, PurePosixPath

from .errors import TooLarge

MEMBERSHIP = Path("/proc/self/cgroup")
TREE = Path("/sys/fs/cgroup")  # of control groups, version 2


def memory_left(membership: Path = MEMBERSHIP, tree: Path = TREE) -> int | None:
    """Return the bytes that the groups of this process have left, or None without a limit."""
    left = []
    for group in _groups(membership, tree):
        most, used = (_words(group / f"memory.{name}") for name in ("max", "current"))
        if [*map(str.isdecimal, most + used)] == [True, True]:
            # what was read once stays in memory until that is needed: it does not count
            words = map(str.split, _lines(group / "memory.stat"))
            cached = next((int(pair[1]) for pair in words if pair[:1] == ["inactive_file"]), 0)
            left.append(max(int(most[0]) - max(int(used[0]) - cached, 0), 0))
    return min(left, default=None)


@functools.cache
def cpu_limit(membership: Path = MEMBERSHIP, tree: Path = TREE) -> int | None:
    """Return the processors allowed to this process, rounded up, or None; read once."""
    limits = []
    for group in _groups(membership, tree):
        share = _words(group / "cpu.max")  # quota and period, in microseconds, or "max"
        if len(share) == 2 and all(map(str.isdecimal, share)) and int(share[1]) > 0:
            limits.append(max(1, math.ceil(int(share[0]) / int(share[1]))))
    return min(limits, default=None)


def _groups(membership: Path, tree: Path) -> list[Path]:
    """Return the folders of the process's group and of those above it."""
    paths = [line.removeprefix("0::/") for line in _lines(membership) if line.startswith("0::/")]
    groups = [PurePosixPath(path) for path in paths]
    return [tree / part for group in groups for part in (group, *group.parents)]


def _words(file: Path) -> list[str]:
    return " ".join(_lines(file)).split()


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux, or not a group that limits this
        return []


MEMORY_FRACTION = 0.7  # of the available memory that one computation may use


def available_bytes() -> int:
    """Return the memory available to this process, in bytes."""
    import psutil  # late: most commands never ask

    machine = int(psutil.virtual_memory().available)
    left = memory_left()
    return machine if left is None else min(machine, left)


def limit_bytes() -> int:
    """Return the bytes that one computation may use."""
    return int(MEMORY_FRACTION * available_bytes())


def refuse_over(needed: float, what: str, instead: str) -> None:
    """Raise `TooLarge` if `what` needs more bytes than are available."""
    limit = limit_bytes()
    if needed > limit:
        raise TooLarge(
            f"{what} needs {needed / 1e9:.1f} GB (limit {limit / 1e9:.1f} GB); {instead}"
        )


# instructions that change how sums are rounded
VECTORS = ("avx2", "avx512f", "fma", "asimd", "sve")


@functools.cache
def code_environment() -> dict[str, str]:
    """Return the processor, and a hash of the installed packages and their versions."""
    folders = [Path(path) for path in sys.path if Path(path).is_dir()]
    packages = sorted({folder.stem for path in folders for folder in path.glob("*.dist-info")})
    text = hashlib.sha256("\n".join(packages).encode()).hexdigest()
    return {"cpu": _processor(), "packages": text[:16]}


def _processor() -> str:
    facts = dict(line.partition(":")[::2] for line in _lines(Path("/proc/cpuinfo")))
    named = {key.strip(): value.strip() for key, value in facts.items()}
    name = named.get("model name") or platform.processor() or platform.machine()
    flags = {*named.get("flags", "").split(), *named.get("Features", "").split()}
    target = os.environ.get("NUMBA_CPU_NAME")
    compiled_for = [] if target is None else [f"(compiled for {target})"]
    return " ".join([f"{name},", *sorted(flags & set(VECTORS)), *compiled_for])
