"""The states of an arm that is pulled in units, and what one unit does to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..problem import Group, Problem
from ..support import Cache, Floats, Ints, refuse_over
from .kernels.batches import unit_weights

KEPT = 64  # kinds of arms
NO_FIRST = np.empty(0, dtype=np.int64)  # every number of good outcomes is a state


@dataclass(frozen=True, eq=False)
class UnitStates:
    """Rows of states: row i has those after i units. Arrays as in `kernels/batches.py`."""

    alpha: float
    beta: float
    unit: int
    start: Ints  # (rows + 2,)
    good: Floats  # (states,) good outcomes
    mean: Floats  # (states,) posterior mean of the success probability
    weights: Floats  # (successors, states) of one unit
    first: Ints  # (states,), or empty

    @property
    def rows(self) -> int:
        """Units that the arm may take."""
        return self.start.size - 2

    @property
    def size(self) -> int:
        """Number of states."""
        return int(self.start[-1])


def unit_states(problem: Problem, group: Group) -> UnitStates:
    """The states of an arm of a group; one object for all groups of the same prior."""
    rows = problem.horizon * problem.units
    return _CACHE.get_or_make(
        (group.alpha, group.beta, problem.unit, rows),
        lambda: _exact_states(group.alpha, group.beta, problem.unit, rows),
    )


_CACHE = Cache[tuple[float, float, int, int], UnitStates](KEPT)


def states_of_rows(unit: int, rows: int) -> int:
    """States with at most `rows` units, every number of good outcomes counted."""
    return (rows + 1) * (rows * unit + 2) // 2


def _exact_states(alpha: float, beta: float, unit: int, rows: int) -> UnitStates:
    size = states_of_rows(unit, rows)
    refuse_over(
        8.0 * size * (unit + 3),
        f"{rows} units of {unit} pulls of one arm",
        "use a larger unit, or fewer stages",
    )
    start = np.concatenate([[0], np.cumsum(np.arange(rows + 1) * unit + 1)])
    good = np.concatenate([np.arange(i * unit + 1.0) for i in range(rows + 1)])
    pulls = np.repeat(np.arange(rows + 1) * unit, np.diff(start))
    weights = np.zeros((unit + 1, size))
    unit_weights(alpha, beta, unit, rows, start, weights)
    mean = (alpha + good) / (alpha + beta + pulls)
    return UnitStates(alpha, beta, unit, start, good, mean, weights, NO_FIRST)
