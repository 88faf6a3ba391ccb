"""What a benchmark returns, and how times are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` says how many times better ours is than what is beside it."""

    what: str
    ours: float
    unit: str
    beside: str  # a peer in the same run, or our own limit
    beside_value: float | None  # None: the peer is not there
    ratio: float | None
    target: str = ""
    met: bool | None = None  # None: there is no target


def at_most(what: str, ours: float, unit: str, limit: float) -> Row:
    """A figure that must not exceed our own limit."""
    target = f"at most {limit:g} {unit}".strip()
    ratio = limit / ours if ours > 0.0 else None
    return Row(what, ours, unit, "limit", limit, ratio, target, ours <= limit)


def times_better(
    what: str, ours: float, unit: str, beside: str, value: float, ratio: float, least: float
) -> Row:
    """A figure that must be so many times better than the one beside it."""
    target = f"ratio at least {least:g}"
    return Row(what, ours, unit, beside, value, ratio, target, ratio >= least)


def best_times(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """The shortest time of each job in seconds; jobs take turns, so that all see the same noise."""
    best = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for i, job in enumerate(jobs):
            began = time.perf_counter()
            job()
            best[i] = min(best[i], time.perf_counter() - began)
    return best
