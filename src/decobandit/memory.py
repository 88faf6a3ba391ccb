"""How much memory there is, and the refusal of work that needs more."""

from __future__ import annotations

import os

PART = 0.7  # of the available memory that one computation may use
UNKNOWN = 4 * 2**30  # where the system does not tell


def available_bytes() -> int:
    """Memory that can be had now."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            kilobytes = next(int(line.split()[1]) for line in file if line.startswith("MemAvail"))
        return 1024 * kilobytes
    except (OSError, StopIteration):
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return UNKNOWN


def limit_bytes() -> int:
    """What one computation may use."""
    return int(PART * available_bytes())


def refuse_over(needed: float, what: str, instead: str) -> None:
    """A ValueError where `what` needs more bytes than there are."""
    limit = limit_bytes()
    if needed > limit:
        raise ValueError(
            f"{what} needs {needed / 1e9:.1f} GB (limit {limit / 1e9:.1f} GB); {instead}"
        )
