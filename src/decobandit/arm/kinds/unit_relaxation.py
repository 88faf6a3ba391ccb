"""One-arm problems of arms of any kind in batches, at given prices: what units are worth.

The counterpart of `BatchRelaxation`, on states in rows. Between two points of a grid values are on
their chord, beyond its ends those of the end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...problem import Problem, check_problem, unit_pulls
from ...support import Floats, refuse_over
from ..kernels.batches import raise_values
from ..kernels.rows import stage_worths
from ..price_checks import price_array
from .makers import arm_rows
from .relaxation import between
from .rewards import RowRewards
from .rows import ArmRows


class UnitRelaxation:
    """One-arm problems of all groups of a problem with `repeat`, at fixed prices (stages,)."""

    def __init__(self, problem: Problem, prices: npt.ArrayLike, *, refine: int = 0) -> None:
        self.prices = price_array(prices, check_problem(problem))
        self.problem = unit_pulls(problem)  # on which all is computed
        self._scale = np.array([self.problem.unit / problem.unit, 1.0])  # of pulls and sums
        problem = self.problem
        self.rows = [arm_rows(g.model, problem.most_pulls, refine) for g in problem.groups]
        m, T = problem.pulls_per_stage, problem.horizon
        states = sum(float(rows.start[1 : m * T + 1 : m].sum()) for rows in self.rows)
        refuse_over(
            8.0 * states * (problem.units + 1),
            f"tables of {states:.2g} states in all stages, {problem.units} units each",
            "use larger units, fewer stages, fewer classes",
        )
        self._worth = [self._swept(k) for k in range(len(problem.groups))]

    def _swept(self, k: int) -> list[Floats]:
        """Q of 0, 1, .. units in all states by stage, (units + 1, states)."""
        problem, rows = self.problem, self.rows[k]
        rewards, m, found = RowRewards(problem, problem.groups[k]), problem.pulls_per_stage, []
        later = self._last(rewards, rows)
        for t in range(problem.horizon - 1, -1, -1):
            size = int(rows.start[m * t + 1])
            worth, now = np.empty((size, problem.units)), np.empty(size)
            stage_worths(
                *rows.arrays, rows.up, rows.down, problem.units, problem.unit, t,
                *rewards.of_stage(t), rows.widest, 0, 1, later, worth,
            )  # fmt: skip
            raise_values(worth, self.prices[t], later, now)
            found.append(np.vstack([later[None, :size], worth.T]))
            later = now
        return found[::-1]

    def _last(self, rewards: RowRewards, rows: ArmRows) -> Floats:
        """V after all stages, (states,)."""
        later = rewards.last(rows)
        if self.problem.terminal is None:
            return later
        worth = self.problem.terminal.deploy * rows.mean
        return np.asarray(later + np.maximum(worth - self.prices[-1], 0.0))

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """V of arms with these statistics, from a stage on, (..., width) -> (...)."""
        if stage < self.problem.horizon:
            worth = self.unit_values(stage, group, stats)
            paid = self.prices[stage] * np.arange(self.problem.units + 1)
            return np.asarray((worth - paid).max(axis=-1))
        rows, own = self.rows[group], self.problem.groups[group]
        last = self._last(RowRewards(self.problem, own), rows)
        stats = self._in_units(stats)
        return between(last, rows, own.model.pulls(stats), rows.locate(stats))[0]

    def unit_values(self, stage: int, group: int, stats: Floats) -> Floats:
        """Q of 0, 1, .. units of arms with these statistics, (..., width) -> (..., units + 1)."""
        rows, kind = self.rows[group], self.problem.groups[group].model
        stats = self._in_units(stats)
        pulls, place = kind.pulls(stats), rows.locate(stats)
        each = [between(table, rows, pulls, place)[0] for table in self._worth[group][stage]]
        return np.stack(each, axis=-1)

    def _in_units(self, stats: Floats) -> Floats:
        """Statistics with units for pulls, where sums of units are all that is followed."""
        if self._scale[0] == 1.0:
            return stats
        scaled = stats * self._scale
        if np.any(scaled[..., 0] != np.rint(scaled[..., 0])):
            raise ValueError(f"pulls of an arm: must be units of {round(1.0 / self._scale[0])}")
        return np.asarray(scaled)
