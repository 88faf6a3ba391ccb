"""Pending outcomes: values averaged over them, and states in which they are as expected.

Notations
    E, J      states; possible statistics of an arm after further outcomes
    stats     (E, width), as the outcome model has them
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import comb

import numpy as np

from ..problem import ArmModel, States
from ..support import Floats, Unsupported
from .allocation import Counts

MAX_POSSIBILITIES = 20_000  # possibilities of one arm
CHUNK_NUMBERS = 2_000_000  # numbers at a time


def mean_values(
    model: ArmModel, values: Callable[[Floats], Floats], stats: Floats, pending: Counts
) -> Floats:
    """`values` (..., width) -> (...), on average once all pending outcomes (E,) are known; (E,)."""
    both = np.column_stack([pending, stats])
    rows, place = np.unique(both, axis=0, return_inverse=True)
    means, counts = np.empty(len(rows)), rows[:, 1:]
    for count in np.unique(rows[:, 0]).astype(int):
        rows_of_count = np.flatnonzero(rows[:, 0] == count)
        if count == 0:
            means[rows_of_count] = values(counts[rows_of_count])
            continue
        # states of an arm's own are merged by `ahead` if they are asked for one by one
        size = 1 if model.ordered else max(1, CHUNK_NUMBERS // (model.width * _ways(model, count)))
        for begin in range(0, len(rows_of_count), size):
            part = rows_of_count[begin : begin + size]
            law = model.ahead(
                counts[part], count, MAX_POSSIBILITIES if model.finite else sys.maxsize
            )
            assert law is not None  # `_ways` has refused
            means[part] = (law[0] * values(law[1])).sum(axis=-1)
    return np.asarray(means[place.reshape(-1)])


def as_expected(states: States) -> States:
    """Nothing pending: as if pending outcomes had come as expected, in whole numbers."""
    if states.pending is None:
        return states
    stats, problem = states.stats.copy(), states.problem
    for arm, group in enumerate(problem.group_of_arm):
        model = problem.groups[group].model
        statistics = stats[:, arm, : model.width]
        statistics[:] = model.expected(statistics, states.pending[:, arm])
    return States(problem, stats, allowed=states.allowed, spent=states.spent)


def _ways(model: ArmModel, count: int) -> int:
    """Return about how many possibilities there are; refuse more than MAX_POSSIBILITIES."""
    number = comb(count + model.width - 1, count) if model.finite else 100
    if number > MAX_POSSIBILITIES:
        raise Unsupported(
            f"{model.word} arms: {count} pending outcomes may be {number:,} things, more than "
            f"{MAX_POSSIBILITIES:,}; a shorter delay, or fewer classes"
        )
    return number
