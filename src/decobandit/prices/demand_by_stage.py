"""The bandit market, stage by stage: which arms buy the pulls, and how many are worth the price.

Forward from fresh arms, the m_t pulls of stage t go to the arms of largest index, in expectation:
the masses are pulled in order of index until m_t are spent, and of the last index only a part.
This is a feasible point of the relaxed problem, at which the market clears. Where the prices solve
the dual, they are the indices at which the pulls run out, so that

    arms above the price  <=  m_t  <=  arms above or at the price

The policy of eq. (uar), which pulls where the index is strictly above the price, cannot be used
here: at the best prices the index of unpulled arms equals the price for many stages, and it pulls
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._version import __version__
from ..arm import OneArmValues, Rewards, arm_graph, grid_of
from ..arm.kernels.units import advance
from ..problem import (
    Group,
    Problem,
    refuse_features,
    tie_tolerance,
)
from ..support import Floats, Tables, Tabular
from .kernels.bands import margin
from .solution import DualSolution

AT_PRICE = 1e-4  # an index is at the price within this part of the largest price, in size
COLUMNS = ("sold_fresh", "sold_touched", "above", "at_price")  # by stage


@dataclass(frozen=True, eq=False, repr=False)
class Demand(Tabular):
    """Expected numbers of arms at each stage, where exactly the pulls of every stage are sold."""

    problem: Problem
    prices: Floats  # (stages,)
    fresh_index: Floats  # (groups, stages) index of an arm that was never pulled
    sold_fresh: Floats  # (stages,) pulls bought by arms never pulled before
    sold_touched: Floats  # (stages,) pulls bought by all others; the two add up to the pulls
    above: Floats  # (stages,) arms whose index is above the price
    at_price: Floats  # (stages,) arms whose index is the price, up to AT_PRICE
    reward: float  # expected, of this relaxed solution: at most the minimum of the dual (on a grid)

    def tables(self) -> Tables:
        """`stages`, one row each."""
        return {
            "stages": lambda: {
                "stage": range(len(self.prices)),
                "pulls": self.problem.pulls,
                "price": self.prices,
                **{name: getattr(self, name) for name in COLUMNS},
            }
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as plain values, for JSON."""
        groups = [self.problem.arms[group.members[0]].name for group in self.problem.groups]
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "pulls": self.problem.pulls.tolist(),
            "prices": self.prices.tolist(),
            "fresh_index": dict(zip(groups, self.fresh_index.tolist(), strict=True)),
            **{name: getattr(self, name).tolist() for name in COLUMNS},
            "reward": self.reward,
        }


class _Masses:
    """How many arms of a group are expected in each state, from fresh arms on."""

    def __init__(self, problem: Problem, group: Group) -> None:
        self._horizon, self._graph = problem.horizon, arm_graph(problem, group, grid_of(problem))
        self.rewards = Rewards(problem, group, self._graph)
        self.mass = np.zeros(self._graph.size)
        self.mass[0] = group.count

    def pull(self, stage: int, part: Floats) -> tuple[float, float]:
        """Pull a part of the mass of the first states: pulls spent, and what they earn."""
        now = self.mass[: part.size]
        pulled = part * now
        if stage == self._horizon:  # outcomes of a deployment move no mass
            earned = self.rewards.deploy * self._graph.mean[: part.size]
            return float(pulled.sum()), float((pulled * earned).sum())
        under_way = np.zeros((2, self.mass.size))
        under_way[0, : part.size], under_way[1, : part.size] = now - pulled, pulled
        base, factor, _, _ = self.rewards.of_stage(stage)
        how = (self._graph.arrays, 1, stage, base, factor)
        return float(pulled.sum()), float(advance(*how, self.mass, under_way))


def demand(solution: DualSolution) -> Demand:
    """Compute the market of a solution exactly, by moving masses forward."""
    problem, prices = solution.problem, solution.prices
    refuse_features(problem, "demand", "budget", "resources")
    refuse_features(problem, "the market of single pulls", "repeat")
    refuse_features(problem, "the market by stage", "is_restless")
    tables, arms = OneArmValues(problem, prices), [_Masses(problem, g) for g in problem.groups]
    slack, tie = AT_PRICE * float(np.abs(prices).max()), tie_tolerance(problem)
    fresh = np.zeros((len(arms), problem.stages))
    sold_fresh, spent, above, at_price = np.zeros((4, problem.stages))
    reward = 0.0
    for t in range(problem.stages):
        index = [tables.table(t, k)[: masses.mass.size] for k, masses in enumerate(arms)]
        now = np.concatenate([masses.mass[: i.size] for masses, i in zip(arms, index, strict=True)])
        together = np.concatenate(index)
        above[t] = now[together > prices[t] + slack].sum()
        at_price[t] = now[np.abs(together - prices[t]) <= slack].sum()
        price, share = _margin(together, now, float(problem.pulls[t]), tie)
        for k, (masses, i) in enumerate(zip(arms, index, strict=True)):
            part = np.where(i > price + tie, 1.0, np.where(np.abs(i - price) <= tie, share, 0.0))
            fresh[k, t] = i[0]
            sold_fresh[t] += part[0] * masses.mass[0]
            pulls, earned = masses.pull(t, part)
            spent[t], reward = spent[t] + pulls, reward + earned
    reward += sum(float((masses.mass * masses.rewards.last).sum()) for masses in arms)
    sold_touched = spent - sold_fresh
    return Demand(problem, prices, fresh, sold_fresh, sold_touched, above, at_price, reward)


def _margin(index: Floats, mass: Floats, pulls: float, tie: float) -> tuple[float, float]:
    """Return the price and the part pulled at it; more than `tie` above, all is pulled."""
    held = mass > 0.0
    price, _ = margin(index[held], mass[held], pulls)
    if price == -np.inf:  # more pulls than there are arms, by rounding: the last arm is at it
        price = index[held].min()
    left = max(pulls - float(mass[index > price + tie].sum()), 0.0)
    return price, min(left / float(mass[np.abs(index - price) <= tie].sum()), 1.0)
