"""Pulls of every arm at a stage: of one state, and of many at once.

Notations
    E, K    joint states, as many as `States` has; arms
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..problem import TIE_SIGNS, State, States, TieRule
from ..support import Floats, Ints

Counts = npt.NDArray[np.integer]  # of outcomes: whole numbers of any width


def once_each(arms: Sequence[int], n_arms: int, unit: int = 1) -> tuple[int, ...]:
    """Pulls of every arm if each of these is given one unit."""
    pulls = [0] * n_arms
    for arm in arms:
        pulls[arm] += unit
    return tuple(pulls)


def ask_each(ask: Callable[[State], Sequence[int]], states: States, *, drawn: bool) -> Ints:
    """Ask for pulls of every arm in every state, once in equal ones unless they are drawn."""
    answers: dict[bytes, Sequence[int]] = {}
    pulls = np.empty(states.stats.shape[:2], dtype=np.int64)
    for e, stats in enumerate(states.stats):
        key = stats.tobytes()
        if drawn or key not in answers:
            answers[key] = ask(states.state(e))
        pulls[e] = answers[key]
    return pulls


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


def from_table(table: Floats, states: States) -> Floats:
    """Index of every arm, (E, K), from that of every state of every group, (groups, slab)."""
    n = states.pulls
    return np.asarray(table[states.problem.group_of_arm, n * (n + 1) // 2 + states.good])


def sole_arm(pulls: Sequence[int], policy: str) -> tuple[int]:
    """The arm of a deployment, or of a stage that is one pull; a ValueError where it is a batch."""
    if sum(pulls) != 1:
        raise ValueError(
            f"policy {policy!r} shares {sum(pulls)} pulls among arms at a stage: ask for the pulls "
            "of every arm, allocate(state)"
        )
    return (list(pulls).index(1),)
