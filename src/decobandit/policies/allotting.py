"""Pulls of every arm at a stage: of one state, and of many at once.

Notations
    E, K    states, or episodes that are in them; arms
    pulls, good (E, K)      known outcomes; fewer than the stage implies where some are pending
    allotment (E, K)        pulls to make now
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..problem import TIE_SIGNS, State, TieRule
from ..support import Floats, Ints

Counts = npt.NDArray[np.integer]  # of outcomes: whole numbers of any width


def once_each(arms: Sequence[int], n_arms: int) -> tuple[int, ...]:
    """One pull of each of these arms."""
    pulls = [0] * n_arms
    for arm in arms:
        pulls[arm] += 1
    return tuple(pulls)


def state_of(pulls: Counts, good: Counts) -> State:
    """The state of one row."""
    return State(tuple(good.tolist()), tuple((pulls - good).tolist()))


def ask_each(
    ask: Callable[[State], tuple[int, ...]], pulls: Counts, good: Counts, *, drawn: bool
) -> Ints:
    """Ask in every state, once in equal ones unless the answer is drawn."""
    known: dict[bytes, tuple[int, ...]] = {}
    out = np.empty(pulls.shape, dtype=np.int64)
    for e, (n, g) in enumerate(zip(pulls, good, strict=True)):
        key = n.tobytes() + g.tobytes()
        if drawn or key not in known:
            known[key] = ask(state_of(n, g))
        out[e] = known[key]
    return out


def largest_arms(
    values: Floats,
    pulls: Counts,
    number: int,
    tolerance: float,
    ties: TieRule,
    rng: np.random.Generator | None,
) -> Ints:
    """One pull of each of the `number` arms of largest value in every row; ties by the rule."""
    E, K = values.shape
    by_pulls, by_position = TIE_SIGNS[ties]
    drawn = (by_pulls, by_position) == (0, 0)
    if drawn and rng is None:
        raise ValueError("ties are broken at random: pass a random generator as rng")
    rank = by_pulls * K * pulls.astype(np.int64) + by_position * np.arange(K)
    left, given, rows = values.copy(), np.zeros((E, K), dtype=np.int64), np.arange(E)
    for _ in range(number):
        tied = left >= left.max(axis=1, keepdims=True) - tolerance
        order = rng.random((E, K)) if drawn and rng is not None else rank.astype(np.float64)
        arm = np.where(tied, order, np.inf).argmin(axis=1)
        given[rows, arm] = 1
        left[rows, arm] = -np.inf
    return given


def from_table(table: Floats, group_of_arm: Ints, pulls: Counts, good: Counts) -> Floats:
    """Index of every arm, (E, K), from that of every state of every group, (groups, slab)."""
    n = pulls.astype(np.int64)
    return np.asarray(table[group_of_arm, n * (n + 1) // 2 + good])


def sole_arm(pulls: Sequence[int], policy: str) -> tuple[int]:
    """The arm of a deployment, or of a stage that is one pull; a ValueError where it is a batch."""
    if sum(pulls) != 1:
        raise ValueError(
            f"policy {policy!r} shares {sum(pulls)} pulls among arms at a stage: ask for the pulls "
            "of every arm, allocate(state)"
        )
    return (list(pulls).index(1),)
