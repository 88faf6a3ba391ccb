"""Available memory, and the error for work that would need more."""

from __future__ import annotations

import functools

from . import cgroups

MEMORY_FRACTION = 0.7  # of the available memory that one computation may use


def available_bytes() -> int:
    """Memory available now: of the machine, and within the limits of this process."""
    import psutil  # late: most commands never ask

    machine = int(psutil.virtual_memory().available)
    left = cgroups.memory_left(_groups())
    return machine if left is None else min(machine, left)


@functools.cache
def _groups() -> list[cgroups.MemoryGroup]:
    """Read once per process: a search for them takes a millisecond or two."""
    return cgroups.memory_groups()


def limit_bytes() -> int:
    """What one computation may use."""
    return int(MEMORY_FRACTION * available_bytes())


class TooLargeError(ValueError):
    """Work that needs more memory than there is."""


def refuse_over(needed: float, what: str, instead: str) -> None:
    """`TooLargeError`, which is a ValueError, where `what` needs more bytes than there are."""
    limit = limit_bytes()
    if needed > limit:
        raise TooLargeError(
            f"{what} needs {needed / 1e9:.1f} GB (limit {limit / 1e9:.1f} GB); {instead}"
        )
