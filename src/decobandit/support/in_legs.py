"""Long work in legs: between two of them the keyboard is heard, and progress can be told.

A kernel runs without the interpreter, which raises KeyboardInterrupt only when the kernel returns.
Whoever calls kernels over many stages cuts the stages into legs of some tenths of a second. Threads
of a pool never see the exception: they end between legs when whoever waits for the pool has
(`workers.heed_interrupt`).
"""

from __future__ import annotations

from collections.abc import Iterator

from .workers import heed_interrupt

STATES_AT_ONCE = 200_000_000  # that a kernel goes through in one call


def legs(first: int, last: int, states: float) -> Iterator[tuple[int, int]]:
    """The stages from `first` to `last`, falling where `last` is smaller, cut into legs.

    states: that a kernel goes through at one stage.
    """
    at_once = max(1, int(STATES_AT_ONCE / max(states, 1.0)))
    step = at_once if first <= last else -at_once
    for start in range(first, last, step):
        heed_interrupt()
        stop = start + step
        yield start, min(stop, last) if step > 0 else max(stop, last)
