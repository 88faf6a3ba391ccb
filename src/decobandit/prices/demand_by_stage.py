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
from ..arm import Relaxation, RowRelaxation
from ..problem import Problem, arms_of, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import Floats, Tables, Tabular
from .kernels.bands import Bands
from .kernels.flow import fill, finish, move
from .kernels.selection import margin
from .row_masses import RowMasses
from .solution import DualSolution

AT_PRICE = 1e-4  # an index is at the price within this part of the largest price, in size


@dataclass(frozen=True, eq=False)
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
        names = ("sold_fresh", "sold_touched", "above", "at_price")
        return {
            "stages": lambda: {
                "stage": range(len(self.prices)), "pulls": self.problem.pulls,
                "price": self.prices, **{name: getattr(self, name) for name in names},
            }
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        groups = [self.problem.arms[group.members[0]].name for group in self.problem.groups]
        return {
            "arms": self.problem.n_arms,
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
    if not problem.is_binary:
        return _demand_of_kinds(problem, prices)
    relaxation, arms = Relaxation(problem, prices), arms_of(problem)
    groups, stages = arms.reward_good.shape
    slack = AT_PRICE * float(np.abs(prices).max())
    tie = tie_tolerance(problem)
    mass, reward = np.empty((groups, slab_size(stages))), np.empty(groups)
    spent, fresh = np.zeros((groups, stages)), np.zeros((groups, stages))
    sold_fresh, above, at_price = np.zeros((3, stages))
    forth = fill(arms, _whole_rows(np.empty((groups, 0)), 0), mass, reward)
    for t in range(stages):
        index, now = relaxation.stage_index(t), mass[:, : slab_size(t)]
        fresh[:, t] = index[:, 0]
        above[t] = now[index > prices[t] + slack].sum()
        at_price[t] = now[np.abs(index - prices[t]) <= slack].sum()
        before = now[:, 0].sum()
        move(
            arms, _whole_rows(index, t), 0, t, *_margin(index, now, float(problem.pulls[t]), tie),
            1.0, 0.0, mass, forth, reward, spent,
        )  # fmt: skip
        sold_fresh[t] = before - mass[:, 0].sum()  # no pull leads back to a fresh arm
    finish(arms, mass, reward)
    sold_touched = spent.sum(axis=0) - sold_fresh
    return Demand(
        problem, prices, fresh, sold_fresh, sold_touched, above, at_price, float(reward.sum())
    )  # fmt: skip


def _demand_of_kinds(problem: Problem, prices: Floats) -> Demand:
    """The same on states in rows; of measurements, on their grid."""
    tables, T = RowRelaxation(problem, prices), problem.horizon
    slack, tie = AT_PRICE * float(np.abs(prices).max()), tie_tolerance(problem)
    arms = [RowMasses(tables, k) for k in range(len(problem.groups))]
    fresh = np.zeros((len(arms), problem.stages))
    sold_fresh, spent, above, at_price = np.zeros((4, problem.stages))
    reward = 0.0
    for t in range(problem.stages):
        index = [tables.table(t, k) for k in range(len(arms))]
        now = np.concatenate([own.mass[: i.size] for own, i in zip(arms, index, strict=True)])
        together = np.concatenate(index)
        above[t] = now[together > prices[t] + slack].sum()
        at_price[t] = now[np.abs(together - prices[t]) <= slack].sum()
        price, _, share = _margin(together, now, float(problem.pulls[t]), tie)
        for k, (own, i) in enumerate(zip(arms, index, strict=True)):
            part = np.where(i > price + tie, 1.0, np.where(np.abs(i - price) <= tie, share, 0.0))
            fresh[k, t] = i[0]
            sold_fresh[t] += part[0] * own.mass[0]
            pulls, earned = own.pull(t, part, t < T)
            spent[t], reward = spent[t] + pulls, reward + earned
    reward += sum(own.last_rewards() for own in arms)
    return Demand(
        problem, prices, fresh, sold_fresh, spent - sold_fresh, above, at_price, reward
    )  # fmt: skip


def _margin(index: Floats, mass: Floats, pulls: float, tie: float) -> tuple[float, float, float]:
    """What is pulled: all that is more than `tie` above an index, one part of what is at it."""
    held = mass > 0.0
    price, _ = margin(index[held], mass[held], pulls)
    if price == -np.inf:  # more pulls than there are arms, by rounding: the last arm is at it
        price = index[held].min()
    left = max(pulls - float(mass[index > price + tie].sum()), 0.0)
    return price, tie, min(left / float(mass[np.abs(index - price) <= tie].sum()), 1.0)


def _whole_rows(index: Floats, stage: int) -> Bands:
    """Bands of one stage that remember every state; index (groups, slab)."""
    n = np.arange(stage + 1)
    low, high = np.zeros((len(index), n.size), np.int64), np.tile(n, (len(index), 1))
    start = n * (n + 1) // 2 + index.shape[1] * np.arange(len(index))[:, None]
    side, none = np.zeros(low.shape, np.uint8), np.zeros(0)
    room = np.zeros(len(index), np.int64)  # nothing is collected
    return Bands(low, high, side, side, start, index.ravel(), none, room, np.zeros((0, 0)))
