"""A problem of batches as a market: the passes of `market.py` over arms that are pulled in units.

The a-th unit of an arm in a state has an index (`arm/kernels/batches.py`), not increasing in a, so
a stage is priced and cleared as with single pulls: units in order of their index. A backward pass
gives the dual function at its prices; a clearing pass gives the reward of a feasible relaxed
solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ..arm import Earnings, Grid, UnitStates, final_values, unit_states
from ..arm.kernels.batches import advance, follow_stage, raise_values, stage_values
from ..problem import Group, Problem
from ..support import Floats, Pool, pool
from .kernels.selection import margin
from .kernels.smooth import AROUND
from .market import Flow
from .stage_tables import StageTables

SHORT_STATES = 2_000_000  # of all stages, up to which a pass takes some tenths of a second
THREADED_PULLS = 100  # that one arm may take; below, threads cost more than they save


class Trader(Protocol):
    """Equal arms in a market: values, what units are worth, and masses, by stage."""

    group: Group
    values: list[Floats]
    shares: list[Floats]  # masses, averaged over rounds
    mass: Floats

    @property
    def largest(self) -> float:
        """The largest reward there is, in size."""

    @property
    def left_out(self) -> float:
        """What the values of all its arms may lack, at most."""

    def begin(self, softly: bool = False) -> None:
        """Nothing is left after the last stage, but last rewards; softly: with `settle_softly`."""

    def price(self, stage: int, part: int, parts: int) -> None:
        """What units are worth at a stage, from the values after it; one part of this work."""

    def settle(self, stage: int, price: float) -> None:
        """Values at a stage, at its price."""

    def settle_softly(self, stage: int, price: float, width: float) -> None:
        """Values at a stage where taking a part x of a unit is charged width / 2 x^2."""

    def slopes(self, stage: int) -> Floats:
        """Index of every unit in every state of a stage, (states, units)."""

    def take(self, stage: int, part: Floats) -> float:
        """Take these parts of every unit, (states, units); units taken."""

    def offer(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        """Indices and masses of all units that arms could take at a stage."""

    def reset(self) -> None:
        """All arms fresh."""

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        """Over one stage; units taken and reward."""

    def finish(self) -> float:
        """Last rewards of a table."""


class UnitTrader(StageTables):
    """Arms with good and bad outcomes that are pulled in units."""

    left_out = 0.0

    def __init__(self, problem: Problem, group: Group, grid: Grid) -> None:
        self.states: UnitStates = unit_states(problem, group, grid)
        self.earned = Earnings(problem, group)
        A, start = problem.units, self.states.start
        sizes = [int(start[A * t + 1]) for t in range(problem.horizon + 1)]
        last = final_values(group, self.states)
        super().__init__(problem, group, sizes, A, A, last, self.states.mean)

    def _arrays(self) -> tuple[object, ...]:
        states = self.states
        return states.start, states.mean, states.weights, states.reach, self.problem.units

    def begin(self, softly: bool = False) -> None:
        self.values[-1][:] = self._last

    def price(self, stage: int, part: int, parts: int) -> None:
        if stage < self.problem.horizon:
            stage_values(
                *self._arrays(), stage, self.earned.base[stage], self.earned.spread[stage],
                self.values[stage + 1], self.states.widest, part, parts, self.worth[stage],
            )  # fmt: skip

    def settle(self, stage: int, price: float) -> None:
        raise_values(self.worth[stage], price, self._later(stage), self.values[stage])

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        if stage == self.problem.horizon:
            return self._deploy(price, slack, part)
        spent, reward = follow_stage(
            *self._arrays(), stage, self.earned.base[stage], self.earned.spread[stage],
            self.values[stage + 1], self.worth[stage], price, slack, part, self.mass,
            self._under_way,
        )  # fmt: skip
        return float(spent), float(reward)

    def advance(self, stage: int) -> None:
        states, units = self.states, self.problem.units
        advance(
            states.start, states.weights, states.reach, units, stage, self.mass, self._under_way
        )

    @property
    def largest(self) -> float:
        group = self.group
        tables = (group.reward_good, group.reward_bad, group.terminal)
        return max(float(np.abs(table).max()) for table in tables if table is not None)


def unit_market(problem: Problem, grid: Grid, *, workers: int = 2) -> BatchMarket:
    """The market of a problem of good and bad outcomes, in batches."""
    return BatchMarket(problem, lambda group: UnitTrader(problem, group, grid), workers=workers)


class BatchMarket:
    """Kinds of arms that trade units of pulls over the stages, with the masses of past rounds."""

    def __init__(
        self, problem: Problem, trader: Callable[[Group], Trader], *, workers: int = 2
    ) -> None:
        kinds = len(problem.groups)
        self.problem = problem
        self.pulls = np.array(problem.pulls)
        self.groups, self.stages = kinds, problem.stages
        self.workers = workers if problem.most_pulls >= THREADED_PULLS else 1
        self.calls = 0
        self.mu = np.zeros(self.stages)
        with pool(min(self.workers, kinds)) as threads:
            self._arms: Sequence[Trader] = threads.map(trader, problem.groups)

    def release(self) -> None:
        """Forget all tables: there are no more passes."""
        self._arms = []

    @property
    def unit(self) -> float:
        """The largest reward there is: what linear programs are scaled by."""
        return max(arms.largest for arms in self._arms) or 1.0

    @property
    def left_out(self) -> float:
        """What the values of all arms may lack, at most: it is part of the dual."""
        return sum(arms.left_out for arms in self._arms)

    @property
    def scale(self) -> float:
        """What ties are measured by."""
        return self.unit

    @property
    def largest_price(self) -> float:
        """No price need be larger: all that units of a stage can change, for each of them.

        The relaxed value is concave in the units of a stage, so that its slope is at most twice the
        largest total reward, of pulls, of a deployment or of all tables, divided by these units.
        """
        last = max(1.0, self.problem.n_arms / self.problem.units)
        return 2.0 * self.unit * (self.problem.unit * self.problem.horizon + last)

    @property
    def states(self) -> int:
        """Of all stages."""
        return sum(values.size for arms in self._arms for values in arms.values)

    @property
    def short(self) -> bool:
        """Whether some passes take about a second together."""
        return self.states <= SHORT_STATES

    def rough_bounds(self, prices: Floats) -> None:
        """There are none without a pass."""

    # Passes

    def remember_around(self, mu: Floats) -> None:
        """All states are remembered, whatever the prices."""

    def remember_signs(self, mu: Floats) -> None:
        """Nor is anything laid out for one pass."""

    def dual(self) -> float:
        """The dual function at the prices of the last backward pass."""
        first = sum(arms.group.count * float(arms.values[0][0]) for arms in self._arms)
        return float(first + self.pulls @ self.mu + self.left_out)

    def value_at(self, mu: Floats) -> float:
        """Backward at given prices. Returns the dual there."""
        return self._backward(lambda stage, threads: float(mu[stage]))

    def reprice(self) -> float:
        """Backward: new prices at which the remembered masses clear. Returns the dual there."""
        return self._backward(self._clearing_price)

    def soft_value_at(self, mu: Floats, width: float) -> float:
        """Backward at given prices, taking parts of units charged; the smoothed dual there."""
        return self._backward(lambda stage, threads: float(mu[stage]), width)

    def _backward(self, price_of: Callable[[int, Pool], float], width: float = 0.0) -> float:
        self.calls += 1
        self.mu = np.zeros(self.stages)
        for arms in self._arms:
            arms.begin(width > 0.0)
        parts = -(-self.workers // self.groups)  # of each kind of arms
        shared = [(arms, part) for arms in self._arms for part in range(parts)]
        with pool(self.workers) as threads:
            for stage in range(self.stages - 1, -1, -1):
                threads.map(lambda each, stage=stage: each[0].price(stage, each[1], parts), shared)
                self.mu[stage] = price_of(stage, threads)
                for arms in self._arms:
                    if width > 0.0:
                        arms.settle_softly(stage, float(self.mu[stage]), width)
                    else:
                        arms.settle(stage, float(self.mu[stage]))
        return self.dual()

    def _clearing_price(self, stage: int, threads: Pool) -> float:
        masses = [arms.shares[min(stage, self.problem.horizon)] for arms in self._arms]
        key, weight = self._offers(stage, masses, threads)
        price, _ = margin(key, weight, float(self.pulls[stage]))
        return price if np.isfinite(price) else float(key.min(initial=0.0))

    def _offers(self, stage: int, masses: list[Floats], threads: Pool) -> tuple[Floats, Floats]:
        pairs = threads.map(lambda arms, mass: arms.offer(stage, mass), self._arms, masses)
        key, weight = (np.concatenate(each) for each in zip(*pairs, strict=True))
        return key, weight

    def clear(self, blend: float) -> Flow:
        """Forward: exactly the units of every stage are spent; masses join the averages."""

        def decide(stage: int, threads: Pool) -> tuple[float, float, float]:
            masses = [arms.mass for arms in self._arms]
            price, part = margin(*self._offers(stage, masses, threads), float(self.pulls[stage]))
            for arms in self._arms:
                share = arms.shares[stage]
                share += blend * (arms.mass[: share.size] - share)
            return price, 0.0, part

        return self._forward(decide, True)

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Forward under the relaxed policy at the current prices."""
        return self._forward(lambda stage, threads: (float(self.mu[stage]), slack, at_price), False)

    def soft_flow(self, width: float) -> tuple[Floats, Floats]:
        """Forward after `soft_value_at`: units spent and loose ones, of every stage, (T,)."""
        spent, loose = np.zeros(self.stages), np.zeros(self.stages)
        for arms in self._arms:
            arms.reset()
        for stage in range(self.stages):
            for arms in self._arms:
                over = arms.slopes(stage) - self.mu[stage]
                near = np.abs(over - 0.5 * width) < (0.5 + AROUND) * width
                loose[stage] += float((arms.mass[: len(over), None] * near).sum())
                spent[stage] += arms.take(stage, np.clip(over / width, 0.0, 1.0))
        return spent, loose

    def _forward(
        self, decide: Callable[[int, Pool], tuple[float, float, float]], feasible: bool
    ) -> Flow:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        for arms in self._arms:
            arms.reset()
        with pool(min(self.workers, self.groups)) as threads:
            for stage in range(self.stages):
                how = decide(stage, threads)
                moves = threads.map(
                    lambda arms, stage=stage, how=how: arms.move(stage, *how), self._arms
                )
                for k, (taken, gained) in enumerate(moves):
                    spent[k, stage] = taken
                    reward[k] += gained
        for k, arms in enumerate(self._arms):
            reward[k] += arms.finish()
        return Flow(reward, spent, feasible)
