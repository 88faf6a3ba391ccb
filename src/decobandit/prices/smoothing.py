"""The smoothed dual of a market, and its minimum at one width after the other.

With a charge of d/2 x^2 on pulling a part x of the arms in a state, the dual function becomes
smooth, and its minimum lower by at most d/2 times all pulls. Where many states share the price of a
stage, its gradient says how to split the pulls among them, which an order by index cannot. Prices
are nearly linear in the width d: from two widths those of the next, and of none, are foretold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..problem.kernels.layout import slab_size
from ..support import Floats, pool
from .batch_market import BatchMarket
from .descent import Descent
from .in_step import group_slice
from .kernels.smooth import AROUND, soft_clearing, soft_flow, soft_pass, states_before
from .market import Flow, Market

FIRST_WIDTH = 4.0  # times the gap, divided by all pulls
NARROWER = 0.25  # a width, in parts of the one before
STEPS_AT_ONCE = 8  # steps from one candidate to the next
MOST_CANDIDATES = 25  # at one width
SETTLED = 0.3  # gap of the smoothed problem at which a width is done, in parts of the true gap
MOST_STATES = 150_000_000  # of all groups and stages, 4 bytes each


@dataclass(frozen=True)
class Candidate:
    """Prices and a flow that bounds can be had of."""

    prices: Floats  # foretold for width 0
    flow: Flow  # spends the pulls of every stage
    gap: float  # of the smoothed problem


class SmoothMarket:
    """A market whose dual function is smoothed by a width; every state is kept."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._Z = np.empty((market.groups, states_before(market.stages)), np.float32)
        self._V, self._mass = (
            np.empty((market.groups, slab_size(market.stages))) for _ in range(2)
        )
        self.width = 1.0

    def value_at(self, mu: Floats) -> tuple[float, Floats, Floats]:
        """The smoothed dual at prices mu, its gradient, and the curvature along each price."""
        market = self._market
        market.calls += 1
        reward = np.zeros(market.groups)
        spent, loose = (np.zeros((market.groups, market.stages)) for _ in range(2))

        def one(k: int) -> None:
            part = slice(k, k + 1)
            arms = group_slice(market.arms, part)
            soft_pass(arms, mu, self.width, self._V[part], self._Z[part])
            soft_flow(
                arms,
                self.width,
                self._Z[part],
                self._mass[part],
                reward[part],
                spent[part],
                loose[part],
            )

        with pool(market.workers) as threads:
            threads.map(one, range(market.groups))
        value = float(market.arms.counts @ self._V[:, 0] + market.pulls @ mu)
        return (
            value,
            market.pulls - spent.sum(axis=0),
            loose.sum(axis=0) / ((1.0 + 2.0 * AROUND) * self.width),
        )

    def clear(self) -> tuple[Flow, float]:
        """A flow near that of the last prices that spends exactly the pulls; and its charge."""
        market = self._market
        reward, spent = np.zeros(market.groups), np.zeros((market.groups, market.stages))
        charge = soft_clearing(
            market.arms, market.pulls, self.width, self._Z, self._mass, reward, spent
        )
        return Flow(reward, spent, True), float(charge)


class SmoothTraders:
    """A market of traders whose dual function is smoothed by a width."""

    def __init__(self, market: BatchMarket) -> None:
        self._market = market
        self.width = 1.0

    def value_at(self, mu: Floats) -> tuple[float, Floats, Floats]:
        """The smoothed dual at prices mu, its gradient, and the curvature along each price."""
        value = self._market.soft_value_at(mu, self.width)
        spent, loose = self._market.soft_flow(self.width)
        return value, self._market.pulls - spent, loose / ((1.0 + 2.0 * AROUND) * self.width)


def fits(market: Market) -> bool:
    """Whether all states of a market can be kept."""
    return bool(market.groups * states_before(market.stages) <= MOST_STATES)


class Smoothing:
    """Descents from prices `start` at narrower and narrower widths; the gap there says how wide."""

    def __init__(self, market: Market, start: Floats, gap: float) -> None:
        self._smooth = SmoothMarket(market)
        self._before: tuple[float, Floats] | None = None
        self._begin(start, FIRST_WIDTH * gap / float(market.pulls.sum()))

    @property
    def width(self) -> float:
        """What the dual is smoothed by now."""
        return self._smooth.width

    @property
    def value(self) -> float:
        """The smoothed dual where the descent stands."""
        return self._descent.value

    def _begin(self, start: Floats, width: float) -> None:
        self._smooth.width = width
        self._descent = Descent(self._smooth.value_at, start, farthest=width)
        self._candidates, self._moving = 0, True

    def advance(self) -> Candidate:
        """Some steps down, and what has come of them."""
        descent = self._descent
        self._candidates += 1
        self._moving = all(descent.step() for _ in range(STEPS_AT_ONCE))
        flow, charge = self._smooth.clear()
        return Candidate(self._foretold(0.0), flow, descent.value - flow.total + charge)

    def go_on(self, found: Candidate, gap: float) -> None:
        """To a narrower width, unless this one still leaves much of the true gap."""
        if self._moving and self._candidates < MOST_CANDIDATES and found.gap > SETTLED * gap:
            return
        narrower = NARROWER * self.width
        start, now = self._foretold(narrower), (self.width, self._descent.point)
        self._before = now
        self._begin(start, narrower)

    def _foretold(self, width: float) -> Floats:
        """Prices at another width, on the line through those of this one and the one before."""
        prices = self._descent.point
        if self._before is None:
            return prices
        wider, others = self._before
        return np.asarray(prices + (width - self.width) / (self.width - wider) * (prices - others))
