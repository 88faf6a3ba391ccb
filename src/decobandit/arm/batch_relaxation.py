"""The relaxed problem of batches at given prices: values of all states, and of a number of units.

The counterpart of `Relaxation` for problems whose stages are shared in units. Values of all stages
are kept: a stage has units * stage rows of states.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..problem import Group, Problem, check_problem
from ..support import Cache, Floats, obeys_workers, pool, worker_count
from .batch_sizes import check_points, grid_of
from .batch_states import UnitStates, unit_states
from .kernels.batches import raise_values, stage_values, unit_values_many
from .price_checks import price_array

TABLE_BYTES = 1 << 30  # tables of what units are worth, of all stages and kinds of arms


class Earnings:
    """What a unit of an arm earns at each stage: base + spread * mean, each (horizon,)."""

    def __init__(self, problem: Problem, group: Group) -> None:
        T, unit = problem.horizon, float(problem.unit)
        self.base = unit * group.reward_bad[:T]
        self.spread = unit * (group.reward_good - group.reward_bad)[:T]


def final_values(group: Group, states: UnitStates) -> Floats:
    """Last rewards after all stages, (states,): those of a table, between entries on chords."""
    if group.terminal is None:
        return np.zeros(states.size)
    pulls = np.repeat(np.arange(states.rows + 1) * states.unit, np.diff(states.start))
    row = pulls * (pulls + 1) // 2
    low = np.minimum(states.good.astype(np.int64), np.maximum(pulls - 1, 0))
    part = states.good - low
    entry, after = group.terminal[row + low], group.terminal[row + np.minimum(low + 1, pulls)]
    return np.asarray((1.0 - part) * entry + part * after)


class BatchRelaxation:
    """One-arm problems of all groups at fixed prices, of units.

    Parameters
    ----------
    problem : Problem
        One with `repeat`.
    prices : array_like
        One per stage, of a unit, and one for the deployment where there is one, (stages,).
    grid : int, optional
        States per row, 0 for all; by default as `solve` chooses.
    kept_bytes : int
        Of tables of what units are worth.
    """

    @obeys_workers
    def __init__(
        self,
        problem: Problem,
        prices: npt.ArrayLike,
        *,
        grid: int | None = None,
        workers: int | None = None,
        kept_bytes: int = TABLE_BYTES,
    ) -> None:
        self.problem = check_problem(problem)
        self.prices = price_array(prices, problem)
        groups = len(problem.groups)
        self.grid = grid_of(problem, check_points(grid, problem))
        self.states = [unit_states(problem, group, self.grid) for group in problem.groups]
        self.earnings = [Earnings(problem, group) for group in problem.groups]
        self._tables = Cache[tuple[int, int], Floats](kept_bytes, size=lambda table: table.nbytes)
        with pool(min(worker_count(workers), groups)) as threads:
            self._values = list(threads.map(self._swept, range(groups)))

    def _swept(self, k: int) -> list[Floats]:
        problem, states = self.problem, self.states[k]
        values = [final_values(problem.groups[k], states)]
        if problem.terminal is not None:
            values[0] += np.maximum(problem.terminal.deploy * states.mean - self.prices[-1], 0.0)
        for t in range(problem.horizon - 1, -1, -1):
            table = self._tabulated(t, k, values[-1])
            now = np.empty(table.shape[0])
            raise_values(table, self.prices[t], values[-1], now)
            values.append(now)
        return values[::-1]

    def values(self, stage: int, group: int) -> Floats:
        """V of the states of a group at a stage 0 .. horizon."""
        return self._values[group][stage]

    def value(self) -> float:
        """The dual function at these prices."""
        counts = np.array([group.count for group in self.problem.groups])
        first = np.array([self.values(0, k)[0] for k in range(counts.size)])
        return float(counts @ first + self.problem.pulls @ self.prices)

    def unit_values(self, stage: int, group: int, good: int, bad: int) -> Floats:
        """Q(s; a): what 0, 1, .. units of an arm are worth at a stage before their price.

        The arm has taken whole units so far.
        """
        found: Floats = self.many_unit_values(stage, group, [good + bad], [good])[0]
        return found

    def many_unit_values(
        self, stage: int, group: int, pulls: npt.ArrayLike, good: npt.ArrayLike
    ) -> Floats:
        """`unit_values` of many states of one kind of arm, (states, units + 1).

        pulls, good: (states,). The first call of a stage tabulates all its states.
        """
        states = self.states[group]
        taken, x = np.asarray(pulls, dtype=np.int64), np.asarray(good, dtype=np.float64)
        rows, rest = np.divmod(taken, states.unit)
        if rest.any():
            raise ValueError(f"{taken[rest > 0][0]} pulls of an arm: not units of {states.unit}")
        if rows.size and rows.max() > self.problem.units * stage:
            raise ValueError(f"{taken.max()} pulls of an arm: too many before stage {stage}")
        if np.any((x < 0.0) | (x > taken)):
            raise ValueError("good: must be from 0 to the pulls of an arm")
        found = np.empty((rows.size, self.problem.units + 1))
        unit_values_many(
            states.start, states.good, self.values(stage + 1, group), self._table(stage, group),
            rows, x, found,
        )  # fmt: skip
        return found

    def _table(self, stage: int, group: int) -> Floats:
        """Q(s; a), a = 1 .. units, of all states of a group at a stage."""
        later = self.values(stage + 1, group)
        return self._tables.get_or_make(
            (stage, group), lambda: self._tabulated(stage, group, later)
        )

    def _tabulated(self, stage: int, group: int, later: Floats) -> Floats:
        states, earned, units = self.states[group], self.earnings[group], self.problem.units
        table = np.empty((int(states.start[units * stage + 1]), units))
        stage_values(
            states.start, states.mean, states.weights, states.reach, units, stage,
            earned.base[stage], earned.spread[stage], later, states.widest, 0, 1, table,
        )  # fmt: skip
        return table
