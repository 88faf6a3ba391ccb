"""The states of an arm that is pulled in units, and what one unit does to them.

Either every number of good outcomes is a state, or each row has a grid of them: `batch_grids.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..problem import Group, Problem
from ..support import Cache, Floats, Ints
from .batch_grids import EXACT, Grid, knots_of, rows_of
from .batch_sizes import states_of_rows
from .kernels.batch_grids import grid_weights
from .kernels.batches import unit_weights

KEPT = 64  # kinds of arms
NO_REACH = np.empty((0, 2), dtype=np.int64)  # every number of good outcomes is a state


@dataclass(frozen=True, eq=False)
class UnitStates:
    """Rows of states: row i has those after i units. Arrays as in `kernels/batches.py`."""

    alpha: float
    beta: float
    unit: int
    start: Ints  # (rows + 2,)
    good: Floats  # (states,) good outcomes
    mean: Floats  # (states,) posterior mean of the success probability
    weights: Floats  # of the successors of one unit
    reach: Ints  # which they are

    @property
    def rows(self) -> int:
        """Units that the arm may take."""
        return self.start.size - 2

    @property
    def widest(self) -> int:
        """States of the longest row."""
        return int(np.diff(self.start).max())

    @property
    def size(self) -> int:
        """Number of states."""
        return int(self.start[-1])


def unit_states(problem: Problem, group: Group, grid: Grid = EXACT) -> UnitStates:
    """The states of an arm of a group; one object for all groups of the same prior."""
    rows = problem.horizon * problem.units
    make = _grid_states if grid.points else _exact_states
    return _CACHE.get_or_make(
        (group.alpha, group.beta, problem.unit, rows, grid),
        lambda: make(group.alpha, group.beta, problem.unit, rows, grid),
    )


_CACHE = Cache[tuple[float, float, int, int, Grid], UnitStates](KEPT)


def _exact_states(alpha: float, beta: float, unit: int, rows: int, grid: Grid) -> UnitStates:
    size = states_of_rows(unit, rows)
    start = np.concatenate([[0], np.cumsum(np.arange(rows + 1) * unit + 1)])
    good = np.concatenate([np.arange(i * unit + 1.0) for i in range(rows + 1)])
    weights = np.zeros((unit + 1, size))
    unit_weights(alpha, beta, unit, rows, start, weights)
    mean = _means(alpha, beta, unit, start, good)
    return UnitStates(alpha, beta, unit, start, good, mean, weights, NO_REACH)


def _grid_states(alpha: float, beta: float, unit: int, rows: int, grid: Grid) -> UnitStates:
    kept, first = rows_of(alpha, beta, unit, rows, knots_of(alpha, beta, grid.points), grid)
    start = np.concatenate([[0], np.cumsum([row.size for row in kept])])
    good = np.concatenate(kept)
    reach = np.zeros((good.size + 1, 2), dtype=np.int64)
    weights = grid_weights(alpha, beta, unit, rows, start, good, first, grid.below, reach)
    mean = _means(alpha, beta, unit, start, good)
    return UnitStates(alpha, beta, unit, start, good, mean, weights, reach)


def _means(alpha: float, beta: float, unit: int, start: Ints, good: Floats) -> Floats:
    pulls = np.repeat(np.arange(start.size - 1) * unit, np.diff(start))
    return np.asarray((alpha + good) / (alpha + beta + pulls))
