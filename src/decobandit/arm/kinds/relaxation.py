"""One-arm problems of arms of any kind at given prices: values, indices of states, their terms.

The counterpart of `Relaxation`, on states in rows. Between two points of a grid an index is that on
their chord; beyond its ends it changes as the reward of a pull does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...problem import ArmModel, Problem, check_problem, refuse_kind_batches
from ...support import Floats, refuse_over
from ..kernels.batches import raise_values
from ..kernels.rows import look_up, stage_worths
from ..price_checks import price_array
from .makers import arm_rows
from .rewards import RowRewards
from .rows import ArmRows


def between(table: Floats, rows: ArmRows, pulls: Floats, place: Floats) -> tuple[Floats, int]:
    """A table over states at numbers `place` in the rows of so many pulls, all (...).

    And how many of them are beyond the ends of their rows.
    """
    found = np.empty(place.size)
    outside = look_up(table, rows.start, np.ravel(pulls), np.ravel(place), found)
    return found.reshape(place.shape), int(outside)


def index_at(table: Floats, rows: ArmRows, kind: ArmModel, factor: float, stats: Floats) -> Floats:
    """Index of arms with these statistics, (..., width) -> (...), from that of all states.

    factor: what a pull earns more where the mean is larger by one.
    """
    pulls, place = kind.pulls(stats), rows.locate(stats)
    found, outside = between(table, rows, pulls, place)
    if outside:
        found += factor * (kind.mean(stats) - between(rows.mean, rows, pulls, place)[0])
    return found


class RowRelaxation:
    """One-arm problems of all groups, single pulls, at fixed prices (stages,)."""

    def __init__(self, problem: Problem, prices: npt.ArrayLike, *, refine: int = 0) -> None:
        self.problem = check_problem(problem)
        refuse_kind_batches(problem, "tables of single pulls")
        self.prices = price_array(prices, problem)
        self.rows = [arm_rows(g.model, problem.most_pulls, refine) for g in problem.groups]
        self.rewards = [RowRewards(problem, group) for group in problem.groups]
        states = sum(float(rows.start[1:].sum()) for rows in self.rows)
        refuse_over(
            16.0 * states, f"tables of {states:.2g} states in all stages", "use fewer stages"
        )
        swept = [self._swept(k) for k in range(len(problem.groups))]
        self._index = [index for index, _ in swept]
        self._first = [value for _, value in swept]

    def _swept(self, k: int) -> tuple[list[Floats], float]:
        """Index of all states by stage, and the value of a fresh arm."""
        problem, rows, rewards = self.problem, self.rows[k], self.rewards[k]
        later, index = rewards.last(rows), []
        if problem.terminal is not None:
            worth = problem.terminal.deploy * rows.mean
            index.append(worth)
            later = later + np.maximum(worth - self.prices[-1], 0.0)
        for t in range(problem.horizon - 1, -1, -1):
            size = int(rows.start[t + 1])
            worth, now = np.empty((size, 1)), np.empty(size)
            stage_worths(
                *rows.arrays, rows.up, rows.down, 1, 1, t, *rewards.of_stage(t), rows.widest, 0, 1,
                later, worth,
            )  # fmt: skip
            raise_values(worth, self.prices[t], later, now)
            index.append(worth[:, 0] - later[:size])
            later = now
        return index[::-1], float(later[0])

    def value(self) -> float:
        """The dual function at these prices."""
        counts = [group.count for group in self.problem.groups]
        first = sum(n * v for n, v in zip(counts, self._first, strict=True))
        return float(first + self.problem.pulls @ self.prices)

    def table(self, stage: int, group: int) -> Floats:
        """Index of the states of a group at a stage."""
        return self._index[group][stage]

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """V of arms after equally many pulls, (J, width) -> (J,): what their indices have above.

        V_t = V_{t+1} + (I_t - mu_t)^+ in every state.
        """
        rows, kind = self.rows[group], self.problem.groups[group].model
        pulls = kind.pulls(stats)
        n = int(pulls[0])
        own = slice(int(rows.start[n]), int(rows.start[n + 1]))
        values = np.zeros(int(rows.start[n + 1]))
        values[own] = self.rewards[group].last(rows)[own]
        for t in range(max(stage, n), self.problem.stages):
            values[own] += np.maximum(self.table(t, group)[own] - self.prices[t], 0.0)
        return between(values, rows, pulls, rows.locate(stats))[0]

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        """Index of arms of a group with these statistics, (..., width) -> (...)."""
        own = self.problem.groups[group]
        factor = float(own.reward_factor[stage])
        return index_at(self.table(stage, group), self.rows[group], own.model, factor, stats)
