"""A problem of batches as a market: the passes of `market.py` over arms that are pulled in units.

The a-th unit of an arm in a state has an index (`arm/kernels/batches.py`), not increasing in a, so
a stage is priced and cleared as with single pulls: units in order of their index. A backward pass
gives the dual function at its prices; a clearing pass gives the reward of a feasible relaxed
solution.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arm import Earnings, UnitStates, final_values, stage_sizes, unit_states
from ..arm.kernels.batches import follow_stage, offers, raise_values, stage_slopes
from ..problem import Group, Problem
from ..support import Floats, pool, refuse_over
from .kernels.selection import margin
from .market import Flow


class _Arms:
    """One kind of arms: values by stage, indices of its units by stage, masses by stage."""

    def __init__(self, problem: Problem, group: Group) -> None:
        self.problem, self.group = problem, group
        self.states: UnitStates = unit_states(problem, group)
        self.earned = Earnings(problem, group)
        A, start = problem.units, self.states.start
        sizes = [int(start[A * t + 1]) for t in range(problem.horizon + 1)]
        self.values = [np.zeros(size) for size in sizes]
        self.slopes = [np.zeros((size, A)) for size in sizes[:-1]]
        self.shares = [np.zeros(size) for size in sizes]  # masses, averaged over rounds
        if problem.terminal is not None:
            self.slopes.append(problem.terminal.deploy * self.states.mean[:, None])
        for share in self.shares:
            share[0] = group.count
        self._last = final_values(problem, group, self.states)
        self._under_way = np.zeros((A + 1, sizes[-1]))
        self.mass = np.zeros(sizes[-1])

    def _arrays(self) -> tuple[object, ...]:
        states = self.states
        return states.start, states.mean, states.weights, states.first, self.problem.units

    def begin(self) -> None:
        """Nothing is left after the last stage, but last rewards."""
        self.values[-1][:] = self._last

    def price(self, stage: int) -> None:
        """Indices of the units at a stage, from the values after it."""
        if stage < self.problem.horizon:
            start = self.states.start
            widest = int(np.diff(start).max())
            stage_slopes(
                *self._arrays(), stage, self.earned.base[stage], self.earned.spread[stage],
                self.values[stage + 1], self.slopes[stage], widest,
            )  # fmt: skip

    def settle(self, stage: int, price: float) -> None:
        """Values at a stage, at its price."""
        if stage == self.problem.horizon:  # a deployment: it changes no state
            raise_values(self.slopes[stage], price, self._last, self.values[stage])
        else:
            now = self.values[stage]
            raise_values(self.slopes[stage], price, self.values[stage + 1][: now.size], now)

    def offer(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        """Indices and masses of all units that arms could take at a stage."""
        size, units = self.slopes[stage].shape
        present = int(np.count_nonzero(mass[:size]))
        key, weight = np.empty(present * units), np.empty(present * units)
        offers(self.slopes[stage], mass[:size], key, weight)
        return key, weight

    def reset(self) -> None:
        """All arms fresh."""
        self.mass[:] = 0.0
        self.mass[0] = self.group.count

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        """Over one stage; units taken and reward."""
        if stage < self.problem.horizon:
            spent, reward = follow_stage(
                *self._arrays(), stage, self.earned.base[stage], self.earned.spread[stage],
                self.slopes[stage], price, slack, part, self.mass, self._under_way,
            )  # fmt: skip
            return float(spent), float(reward)
        worth = self.slopes[stage][:, 0]
        taken = self.mass * np.where(worth > price + slack, 1.0, part * (worth >= price - slack))
        return float(taken.sum()), float(taken @ worth)

    def finish(self) -> float:
        """Last rewards of a table."""
        return 0.0 if self.group.terminal is None else float(self.mass @ self._last)


class BatchMarket:
    """Kinds of arms that trade units of pulls over the stages, with the masses of past rounds."""

    def __init__(self, problem: Problem, *, workers: int = 2) -> None:
        kinds, sizes = len(problem.groups), float(stage_sizes(problem).sum())
        refuse_over(
            8.0 * kinds * sizes * (problem.units + 2),
            f"solving {kinds} kinds of arms, {problem.horizon} batches of {problem.units} units",
            "use a larger unit or fewer kinds of arms",
        )
        self.problem = problem
        self.pulls = np.array(problem.pulls)
        self.groups, self.stages = kinds, problem.stages
        self.workers = min(workers, kinds)
        self.calls = 0
        self.mu = np.zeros(self.stages)
        self._arms = [_Arms(problem, group) for group in problem.groups]

    @property
    def unit(self) -> float:
        """The largest reward there is: what linear programs are scaled by."""
        tables = [
            table for group in self.problem.groups
            for table in (group.reward_good, group.reward_bad, group.terminal) if table is not None
        ]  # fmt: skip
        return max(float(np.abs(table).max()) for table in tables) or 1.0

    @property
    def scale(self) -> float:
        """What ties are measured by."""
        return self.unit

    @property
    def largest_price(self) -> float:
        """No price need be larger: all that one unit more or less of an arm can change."""
        return 2.0 * self.unit * (self.problem.unit * self.problem.horizon + 1.0)

    # Passes

    def remember_around(self, mu: Floats) -> None:
        """All states are remembered, whatever the prices."""

    def remember_signs(self, mu: Floats) -> None:
        """Nor is anything laid out for one pass."""

    def dual(self) -> float:
        """The dual function at the prices of the last backward pass."""
        first = sum(arms.group.count * float(arms.values[0][0]) for arms in self._arms)
        return float(first + self.pulls @ self.mu)

    def value_at(self, mu: Floats) -> float:
        """Backward at given prices. Returns the dual there."""
        return self._backward(lambda stage: float(mu[stage]))

    def reprice(self) -> float:
        """Backward: new prices at which the remembered masses clear. Returns the dual there."""
        return self._backward(self._clearing_price)

    def _backward(self, price_of: Callable[[int], float]) -> float:
        self.calls += 1
        self.mu = np.zeros(self.stages)
        for arms in self._arms:
            arms.begin()
        with pool(self.workers) as threads:
            for stage in range(self.stages - 1, -1, -1):
                threads.map(lambda arms, stage=stage: arms.price(stage), self._arms)
                self.mu[stage] = price_of(stage)
                for arms in self._arms:
                    arms.settle(stage, float(self.mu[stage]))
        return self.dual()

    def _clearing_price(self, stage: int) -> float:
        key, weight = self._offers(
            stage, [arms.shares[min(stage, self.problem.horizon)] for arms in self._arms]
        )
        price, _ = margin(key, weight, float(self.pulls[stage]))
        return price if np.isfinite(price) else float(key.min(initial=0.0))

    def _offers(self, stage: int, masses: list[Floats]) -> tuple[Floats, Floats]:
        pairs = [arms.offer(stage, mass) for arms, mass in zip(self._arms, masses, strict=True)]
        key, weight = (np.concatenate(each) for each in zip(*pairs, strict=True))
        return key, weight

    def clear(self, blend: float) -> Flow:
        """Forward: exactly the units of every stage are spent; masses join the averages."""

        def decide(stage: int) -> tuple[float, float, float]:
            masses = [arms.mass for arms in self._arms]
            price, part = margin(*self._offers(stage, masses), float(self.pulls[stage]))
            for arms in self._arms:
                share = arms.shares[stage]
                share += blend * (arms.mass[: share.size] - share)
            return price, 0.0, part

        return self._forward(decide, True)

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Forward under the relaxed policy at the current prices."""
        return self._forward(lambda stage: (float(self.mu[stage]), slack, at_price), False)

    def _forward(self, decide: Callable[[int], tuple[float, float, float]], feasible: bool) -> Flow:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        for arms in self._arms:
            arms.reset()
        for stage in range(self.stages):
            price, slack, part = decide(stage)
            for k, arms in enumerate(self._arms):
                spent[k, stage], gained = arms.move(stage, price, slack, part)
                reward[k] += gained
        for k, arms in enumerate(self._arms):
            reward[k] += arms.finish()
        return Flow(reward, spent, feasible)
