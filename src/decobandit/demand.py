"""The bandit market, stage by stage: who buys the pulls, and how many arms would.

Forward from fresh arms, the m_t pulls of stage t go to the arms of largest index, in expectation:
the masses are pulled in order of index until m_t are spent, and of the last index only a part.
This is a feasible point of the relaxed problem, at which the market clears. Where the prices solve
the dual, they are the indices at which the pulls run out, so that

    arms above the price  <=  m_t  <=  arms above or at the price

The policy of eq. (uar), which pulls where the index is strictly above the price, is of no use here:
at the best prices fresh arms are worth exactly the price for many stages, and it pulls none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._version import __version__
from .dual import DualSolution
from .kernels.layout import slab_size
from .policies.base import tie_tolerance
from .problem import Problem
from .relaxation import Relaxation

Floats = npt.NDArray[np.float64]
AT_PRICE = 1e-4  # an index is at the price within this part of the largest price, in size


@dataclass(frozen=True, eq=False)
class Demand:
    """Expected numbers of arms at each stage, where exactly the pulls of every stage are sold."""

    problem: Problem
    prices: Floats  # (stages,)
    fresh_index: Floats  # (groups, stages) index of an arm that was never pulled
    sold_fresh: Floats  # (stages,) pulls bought by arms never pulled before
    sold_touched: Floats  # (stages,) pulls bought by all others; the two add up to the pulls
    above: Floats  # (stages,) arms whose index is above the price
    at_price: Floats  # (stages,) arms whose index is the price, up to AT_PRICE
    reward: float  # expected, of this relaxed solution: at most the minimum of the dual

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        groups = [self.problem.arms[group.members[0]].name for group in self.problem.groups]
        return {
            "arms": self.problem.number_of_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "pulls": self.problem.pulls.tolist(),
            "prices": self.prices.tolist(),
            "fresh_index": dict(zip(groups, self.fresh_index.tolist(), strict=True)),
            "sold_fresh": self.sold_fresh.tolist(),
            "sold_touched": self.sold_touched.tolist(),
            "above": self.above.tolist(),
            "at_price": self.at_price.tolist(),
            "reward": self.reward,
        }


def demand(solution: DualSolution) -> Demand:
    """The market of a solution, exactly: masses are moved forward, nothing is simulated."""
    problem, prices = solution.problem, solution.prices
    relaxation = Relaxation(problem, prices)
    stages = problem.stages
    slack = AT_PRICE * float(np.abs(prices).max())
    tie = tie_tolerance(problem)
    mass = np.zeros((len(problem.groups), slab_size(stages)))
    mass[:, 0] = [group.count for group in problem.groups]
    fresh = np.zeros((len(problem.groups), stages))
    sold_fresh, sold_touched, above, at_price = np.zeros((4, stages))
    reward = 0.0
    for t in range(stages):
        index, now = relaxation.stage_index(t), mass[:, : slab_size(t)]
        fresh[:, t] = index[:, 0]
        above[t] = now[index > prices[t] + slack].sum()
        at_price[t] = now[np.abs(index - prices[t]) <= slack].sum()
        pulled = now * _parts(index, now, float(problem.pulls[t]), tie)
        sold_fresh[t] = pulled[:, 0].sum()
        sold_touched[t] = pulled[:, 1:].sum()
        reward += _move(problem, t, pulled, mass)
    for row, group in zip(mass, problem.groups, strict=True):
        reward += 0.0 if group.terminal is None else float(group.terminal @ row)
    return Demand(
        problem, prices, fresh, sold_fresh, sold_touched, above, at_price, float(reward)
    )  # fmt: skip


def _parts(index: Floats, mass: Floats, pulls: float, tie: float) -> Floats:
    """The part of every state that is pulled: all above a margin, one part of those at it."""
    held = mass > 0.0
    key, weight = index[held], mass[held]
    order = np.argsort(-key)
    spent = np.cumsum(weight[order])
    last = min(int(np.searchsorted(spent, pulls)), order.size - 1)
    margin = key[order[last]]
    over, at = index > margin + tie, np.abs(index - margin) <= tie
    left = max(pulls - float(mass[over].sum()), 0.0)
    return np.where(over, 1.0, np.where(at, min(left / float(mass[at].sum()), 1.0), 0.0))


def _move(problem: Problem, stage: int, pulled: Floats, mass: Floats) -> float:
    """Split what is pulled over the two outcomes, in place. Returns the expected reward."""
    n = np.repeat(np.arange(stage + 1), np.arange(1, stage + 2))
    g = np.arange(n.size) - n * (n + 1) // 2
    after = (n + 1) * (n + 2) // 2 + g
    reward = 0.0
    for k, group in enumerate(problem.groups):
        p = (group.alpha + g) / (group.alpha + group.beta + n)
        good = pulled[k] * p
        mass[k, : n.size] -= pulled[k]
        mass[k, after] += pulled[k] - good  # no two states have the same successor of one kind
        mass[k, after + 1] += good
        bad_reward = group.reward_bad[stage]
        spread = group.reward_good[stage] - bad_reward
        reward += float(pulled[k].sum() * bad_reward + good.sum() * spread)
    return reward
