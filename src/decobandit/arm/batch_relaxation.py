"""The relaxed problem of batches at given prices: values of all states, and of a number of units.

The counterpart of `Relaxation` for problems whose stages are shared in units. Values of all stages
are kept: a stage has units * stage rows of states.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..problem import Group, Problem, State, check_problem
from ..support import Floats, Ints, obeys_workers, pool, refuse_over, worker_count
from .batch_states import UnitStates, states_of_rows, unit_states
from .kernels.batches import raise_values, stage_slopes, unit_values
from .price_checks import price_array


class Earnings:
    """What a unit of an arm earns at each stage: base + spread * mean, each (horizon,)."""

    def __init__(self, problem: Problem, group: Group) -> None:
        T, unit = problem.horizon, float(problem.unit)
        self.base = unit * group.reward_bad[:T]
        self.spread = unit * (group.reward_good - group.reward_bad)[:T]


def final_values(problem: Problem, group: Group, states: UnitStates) -> Floats:
    """Last rewards after all stages, (states,): those of a table, or none."""
    if group.terminal is not None:
        pulls = np.repeat(np.arange(states.rows + 1) * states.unit, np.diff(states.start))
        row = pulls * (pulls + 1) // 2
        return np.asarray(group.terminal[row + states.good.astype(np.int64)])
    return np.zeros(states.size)


def stage_sizes(problem: Problem) -> Ints:
    """Number of states at stages 0 .. horizon, where every number of good outcomes is one."""
    rows = range(0, (problem.horizon + 1) * problem.units, problem.units)
    return np.array([states_of_rows(problem.unit, each) for each in rows])


class BatchRelaxation:
    """One-arm problems of all groups at fixed prices, of units.

    Parameters
    ----------
    problem : Problem
        One with `repeat`.
    prices : array_like
        One per stage, of a unit, and one for the deployment where there is one, (stages,).
    """

    @obeys_workers
    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, workers: int | None = None
    ) -> None:
        self.problem = check_problem(problem)
        self.prices = price_array(prices, problem)
        groups = len(problem.groups)
        refuse_over(
            8.0 * groups * float(stage_sizes(problem).sum()),
            f"values of {groups} kinds of arms over {problem.horizon} batches",
            "use a larger unit",
        )
        self.states = [unit_states(problem, group) for group in problem.groups]
        self.earnings = [Earnings(problem, group) for group in problem.groups]
        with pool(min(worker_count(workers), groups)) as threads:
            self._values = list(threads.map(self._swept, range(groups)))

    def _swept(self, k: int) -> list[Floats]:
        problem, states, earned = self.problem, self.states[k], self.earnings[k]
        values = [final_values(problem, problem.groups[k], states)]
        if problem.terminal is not None:
            values[0] += np.maximum(problem.terminal.deploy * states.mean - self.prices[-1], 0.0)
        widest = int(np.diff(states.start).max())
        for t in range(problem.horizon - 1, -1, -1):
            size = int(states.start[problem.units * t + 1])
            now, slopes = np.empty(size), np.empty((size, problem.units))
            stage_slopes(
                states.start, states.mean, states.weights, states.first, problem.units, t,
                earned.base[t], earned.spread[t], values[-1], slopes, widest,
            )  # fmt: skip
            raise_values(slopes, self.prices[t], values[-1][:size], now)
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
        states, earned, units = self.states[group], self.earnings[group], self.problem.units
        row = states.row_of(good + bad)
        if row is None:
            raise ValueError(f"{good + bad} pulls of an arm: not whole units of {states.unit}")
        found = np.empty(units + 1)
        unit_values(
            states.alpha, states.beta, states.unit, units, row, float(good), earned.base[stage],
            earned.spread[stage], states.start, states.good, self.values(stage + 1, group),
            np.empty(units * states.unit + 1), found,
        )  # fmt: skip
        return found

    def arm_values(self, stage: int, state: State) -> Floats:
        """`unit_values` of every arm, (arms, units + 1)."""
        own = zip(self.problem.group_of_arm, state.good, state.bad, strict=True)
        known: dict[tuple[int, int, int], Floats] = {}
        for k, good, bad in own:
            key = (int(k), good, bad)
            if key not in known:
                known[key] = self.unit_values(stage, *key)
        own = zip(self.problem.group_of_arm, state.good, state.bad, strict=True)
        return np.array([known[int(k), good, bad] for k, good, bad in own])
