"""Processors and memory that this process may use, its control groups on Linux included."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from .errors import TooLarge

MEMBERSHIP = Path("/proc/self/cgroup")
TREES = Path("/sys/fs/cgroup")
UNLIMITED = 2**60  # bytes; version 1 writes a huge number where there is no limit


MEMORY_FILES = {  # limit, use, and what of it is files that were read once, by version
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def memory_left(membership: Path = MEMBERSHIP, trees: Path = TREES) -> int | None:
    """Return the bytes that the groups of this process have left, or None without a limit."""
    left = [
        _left(group, *names)
        for resource, names in MEMORY_FILES.items()
        for group in _groups(resource, membership, trees)
    ]
    return min((number for number in left if number is not None), default=None)


def _left(group: Path, limit: str, usage: str, inactive: str) -> int | None:
    most, used = _number(group / limit), _number(group / usage)
    if most is None or most >= UNLIMITED or used is None:
        return None
    # what was read once stays in memory until that is needed: it does not count
    words = (line.split() for line in _lines(group / "memory.stat"))
    cached = next((int(pair[1]) for pair in words if pair[:1] == [inactive]), 0)
    return max(most - max(used - cached, 0), 0)


@functools.cache
def cpu_limit(membership: Path = MEMBERSHIP, trees: Path = TREES) -> int | None:
    """Return the processors allowed to this process, rounded up, or None; read once."""
    shares = [_words(group / "cpu.max") for group in _groups("", membership, trees)]
    for group in _groups("cpu", membership, trees):
        shares.append(_words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"))
    limits = [_processors(share) for share in shares]
    return min((limit for limit in limits if limit is not None), default=None)


def _groups(resource: str, membership: Path, trees: Path) -> Iterator[Path]:
    """Folders of the process's group and of those above it; `resource` "" is version 2."""
    for line in _lines(membership):
        _, _, rest = line.partition(":")
        resources, _, path = rest.partition(":")
        if resource not in resources.split(","):
            continue
        # version 1 mounts a tree for each resource; beside it, version 2 stands under `unified`
        roots = [trees / resources, trees / resource] if resource else [trees, trees / "unified"]
        group = PurePosixPath(path.lstrip("/"))
        # inside a container the path may be that of the host: then only the top is there
        for root in dict.fromkeys(roots):
            yield from (root / part for part in dict.fromkeys((group, *group.parents)))


def _processors(share: list[str]) -> int | None:
    """Return the cores of a quota and its period, both in microseconds."""
    if len(share) != 2 or not all(digits.isdecimal() for digits in share) or int(share[1]) == 0:
        return None  # "max" or "-1": no limit
    return max(1, math.ceil(int(share[0]) / int(share[1])))


def _number(file: Path) -> int | None:
    words = _words(file)
    return int(words[0]) if words and words[0].isdecimal() else None


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
    """Return the processor, and a hash of the installed packages and their versions.

    The packages are those that a lock file fixes: the same list has the same hash.
    """
    folders = [Path(path) for path in sys.path if Path(path).is_dir()]
    packages = sorted({folder.stem for path in folders for folder in path.glob("*.dist-info")})
    text = hashlib.sha256("\n".join(packages).encode()).hexdigest()
    return {"cpu": _processor(), "packages": text[:16]}


def _processor() -> str:
    facts = dict(line.partition(":")[::2] for line in _lines(Path("/proc/cpuinfo")))
    named = {key.strip(): value.strip() for key, value in facts.items()}
    name = named.get("model name") or platform.processor() or platform.machine()
    flags = set(f"{named.get('flags', '')} {named.get('Features', '')}".split())
    target = os.environ.get("NUMBA_CPU_NAME")
    return " ".join(
        [
            f"{name},",
            *sorted(flags & set(VECTORS)),
            *([] if target is None else [f"(compiled for {target})"]),
        ]
    )
