"""The smoothed dual of a market, and its minimum at one width after the other.

With a charge of d/2 x^2 on pulling a part x of the arms in a state, the dual function becomes
smooth, and its minimum lower by at most d/2 times all pulls. Where many states share the price of a
stage, its gradient says how to split the pulls among them, which an order by index cannot. Prices
are nearly linear in the width d: from two widths those of the next, and of none, are foretold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support import Floats
from .descent import Descent
from .market import Flow, Market

FIRST_WIDTH = 4.0  # times the gap, divided by all pulls
NARROWER = 0.25  # a width, in parts of the one before
STEPS_AT_ONCE = 8  # steps from one candidate to the next
MOST_CANDIDATES = 25  # at one width
SETTLED = 0.3  # gap of the smoothed problem at which a width is done, in parts of the true gap


@dataclass(frozen=True)
class Candidate:
    """Prices and a flow that bounds can be had of."""

    prices: Floats  # foretold for width 0
    flow: Flow  # spends the pulls of every stage
    gap: float  # of the smoothed problem


class Smoothing:
    """Descents from prices `start` at narrower and narrower widths; the gap there says how wide."""

    def __init__(self, market: Market, start: Floats, gap: float) -> None:
        self._smooth = market.smoothed()
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
