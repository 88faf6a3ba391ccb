"""Finite-horizon Gittins indices of arms of any kind: the flat price at which a pull is worth it.

The advantage of a pull is its worth less the value of the state and the price; the index is the
largest price at which it crosses zero. For tables it is found at a range of flat prices, and
crosses on a parabola through three of them: to a thousandth of the standard deviation of the prior.
There it is what a pull is worth less the price, as far as waiting is worth nothing: the advantage
itself bends where waiting begins to be. For one state it is found by bisection. A deployment costs
the price as often as it is worth pulls.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...problem import Problem
from ...support import Floats, heed_interrupt
from ..kernels.batches import raise_values
from ..kernels.rows import stage_worths
from .makers import arm_rows
from .relaxation import index_at
from .rewards import RowRewards
from .rows import ArmRows

PRICES = 96  # that the advantage is tabulated for, evenly over all rewards
LIKELY = 48  # more of them, where the mean of the arm is likely to be
FAR = 4.0  # normal scores of the least and the most likely of these
SCANNED = 16  # prices that the largest crossing of one state is looked for between
ACCURACY = 1e-9  # of the index of one state, in units of the range of rewards
COARSER = -1  # grids of half the usual points: indices differ by less than between two prices


class RowGittins:
    """Indices of one group of arms: of all states by stage, once they are asked for; of one."""

    def __init__(self, problem: Problem, group: int, *, refine: int = COARSER) -> None:
        self.problem, own = problem, problem.groups[group]
        self.rows: ArmRows = arm_rows(own.kind, problem.most_pulls, refine)
        self._rewards = RowRewards(problem, own)
        ends = [self.rows.mean.min(), self.rows.mean.max()]
        earned = self._rewards.base[:, None] + self._rewards.factor[:, None] * np.array(ends)
        table = 2.0 * float(np.abs(self._rewards.last(self.rows)).max())
        low, high = float(earned.min()) - table, float(earned.max()) + table
        margin = 1e-9 * max(abs(low), abs(high), 1e-300)
        self._ends = low - margin, high + margin

    @cached_property
    def _index(self) -> list[Floats]:
        """Of all states at stages before any deployment."""
        T, prices = self.problem.horizon, self._prices()
        index = [np.full(int(self.rows.start[t + 1]), prices[0]) for t in range(T)]
        seen: list[tuple[list[Floats], list[Floats]]] = []  # of the last three prices
        for i, price in enumerate(prices):
            seen = [*seen[-2:], self._advantages(float(price))]
            for t in range(T if i else 0):
                gone = (seen[-2][0][t] > 0.0) & (seen[-1][0][t] <= 0.0)
                # where waiting has come to be worth nothing, it is so at the crossing, too
                free = seen[-1][1][t][gone] <= 0.0
                gains = [now[t][gone] + np.where(free, wait[t][gone], 0.0) for now, wait in seen]
                index[t][gone] = crossing(prices[max(i - 2, 0) : i + 1], gains)
        for t in range(T):
            index[t][seen[-1][0][t] > 0.0] = prices[-1]
        return index

    def _prices(self) -> Floats:
        """Flat prices of the tables, in order."""
        even, kind = np.linspace(*self._ends, PRICES), self._rewards.group.kind
        if kind.ordered:  # own states: no law of a mean
            return even
        from scipy.special import ndtr  # late: scipy takes half a second to load

        fresh = np.broadcast_to(np.array(kind.fresh(), dtype=float), (LIKELY, kind.width))
        mean = kind.quantile(fresh, ndtr(np.linspace(-FAR, FAR, LIKELY)))
        earned = self._rewards.base[:, None] + self._rewards.factor[:, None] * mean
        likely = np.quantile(earned, np.linspace(0.0, 1.0, LIKELY))
        return np.union1d(even, likely.clip(*self._ends))

    def root(self, stage: int, stats: Floats) -> float:
        """Index of one arm, (width,): the largest price at which the advantage crosses zero."""
        kind, factor = self._rewards.group.kind, float(self._rewards.factor[stage])

        def advantage(price: float) -> float:
            table = self._advantages(price, stage)[0][0]
            return float(index_at(table, self.rows, kind, factor, stats[None])[0])

        prices = np.linspace(*self._ends, SCANNED)[::-1]
        i = next((i for i, price in enumerate(prices) if advantage(float(price)) > 0.0), 0)
        low, high = float(prices[i]), float(prices[max(i - 1, 0)])
        while high - low > ACCURACY * (self._ends[1] - self._ends[0]):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if advantage(middle) > 0.0 else (low, middle)
        return 0.5 * (low + high)

    def _advantages(self, price: float, first: int = 0) -> tuple[list[Floats], list[Floats]]:
        """Advantage of a pull in all states, by stage from `first` on, at a flat price.

        And what they are worth where they wait for the next stage.
        """
        rows, rewards = self.rows, self._rewards
        found: list[Floats] = []
        waiting: list[Floats] = []
        later = rewards.last(rows) + np.maximum(rewards.deploy * (rows.mean - price), 0.0)
        for t in range(self.problem.horizon - 1, first - 1, -1):
            heed_interrupt()
            size = int(rows.start[t + 1])
            worth, now = np.empty((size, 1)), np.empty(size)
            stage_worths(
                *rows.arrays, rows.up, rows.down, 1, 1, t, *rewards.of_stage(t), rows.widest, 0, 1,
                later, worth,
            )  # fmt: skip
            raise_values(worth, price, later, now)
            found.append(worth[:, 0] - later[:size] - price)
            waiting.append(later[:size])
            later = now
        return found[::-1], waiting[::-1]

    def index(self, stage: int, stats: Floats) -> Floats:
        """Index of arms with these statistics, (..., width) -> (...)."""
        kind, factor = self._rewards.group.kind, float(self._rewards.factor[stage])
        return index_at(self.table(stage), self.rows, kind, factor, stats)

    def table(self, stage: int) -> Floats:
        """Index of the states at a stage before any deployment."""
        return self._index[stage]


def crossing(prices: Floats, gains: list[Floats]) -> Floats:
    """Where gains are zero between the last two prices: on a chord, bent by the price before."""
    (low, high), (above, below) = prices[-2:], gains[-2:]
    slope = (below - above) / (high - low)
    found = low - above / slope
    if len(prices) == 3:
        earlier = (above - gains[0]) / (low - prices[0])
        bend = (slope - earlier) / (high - prices[0])
        off = bend * (found - low) * (found - high)
        steep = slope + bend * (2.0 * found - low - high)
        with np.errstate(over="ignore"):  # beyond the prices: clipped
            found = np.where(steep < 0.0, found - off / np.minimum(steep, -1e-300), found)
    return np.asarray(found.clip(low, high))
