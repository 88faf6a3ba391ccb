"""Minimising a smooth convex function by L-BFGS, and the smoothed dual of a market with it.

`Descent` needs values, gradients and curvatures: estimates of the second derivative along each
entry, from which L-BFGS starts. A nearly diagonal Hessian is described well by them.

With a charge of d/2 x^2 on pulling a part x of the arms in a state, the dual function becomes
smooth, and its minimum lower by at most d/2 times all pulls. If many states share the price of a
stage, its gradient says how to split the pulls among them, which an order by index cannot. Prices
are nearly linear in the width d: `Smoothing` extrapolates them from two widths to the next, and to
zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..support import Floats
from .market import Flow, Market

MEMORY = 30  # pairs of steps and changes of the gradient
MIN_DECREASE = 1e-4  # of the decrease that the gradient promises
SHORTEST = 1e-6  # part of a step at which the line search gives up
LEAST_CURVATURE = 0.1  # along an entry, in parts of the mean
FLAT = 0.01  # curvature where there is none, in parts of what leads as far as allowed
LONGEST_STEP = 4.0  # of an entry with a dense matrix, times what it moves by its curvature alone
TINIEST = 1e-300  # curvature that is divided by
FIRST_WIDTH = 4.0  # times the gap, divided by all pulls
NARROWER = 0.25  # a width, in parts of the one before
STEPS_AT_ONCE = 8  # steps from one candidate to the next
MAX_CANDIDATES = 25  # at one width
SETTLED = 0.3  # gap of the smoothed problem at which a width is done, in parts of the true gap

Function = Callable[[Floats], tuple[float, Floats, Floats]]


class Descent:
    """L-BFGS: a point, the function's value and gradient there, and past steps."""

    rounding = 0.0  # by which values may differ, in parts of them

    def __init__(self, function: Function, start: Floats, *, farthest: float) -> None:
        self._function = function
        self._farthest = farthest  # that an entry moves in a step by its curvature alone
        self._pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
        self.point = start.copy()
        self.value, self.gradient, self.curvature = function(self.point)

    def step(self) -> bool:
        """Take one step down; return False if there is none."""
        direction = -self._scaled(self.gradient)
        slope = _dot(direction, self.gradient)
        if slope >= 0.0:
            return False
        length = 1.0
        while True:
            point = self.point + length * direction
            value, gradient, curvature = self._function(point)
            slack = self.rounding * abs(self.value)
            if value <= self.value + MIN_DECREASE * length * slope + slack:
                break
            if not length > SHORTEST:  # false for nan, too
                return False
            parabola = -slope * length**2 / (2.0 * (value - self.value - length * slope))
            length = min(max(parabola, 0.1 * length), 0.5 * length)
        shift, change = point - self.point, gradient - self.gradient
        if _dot(shift, change) > 1e-14 * np.sqrt(_dot(shift, shift) * _dot(change, change)):
            self._learn(shift, change)
        self.point, self.value, self.gradient, self.curvature = point, value, gradient, curvature
        return True

    def _learn(self, shift: Floats, change: Floats) -> None:
        """Record a step and the change of the gradient along it."""
        self._pairs.append((shift, change))

    def _scaled(self, gradient: Floats) -> Floats:
        """Return the gradient times the approximate inverse Hessian (two-loop recursion)."""
        result, parts = gradient.copy(), []
        for shift, change in reversed(self._pairs):
            part = _dot(shift, result) / _dot(shift, change)
            result -= part * change
            parts.append(part)
        steps = 1.0 / self._curvature_of_steps()
        if self._pairs:
            shift, change = self._pairs[-1]
            steps *= _dot(shift, change) / _dot(change, steps * change)
        result *= steps
        for (shift, change), part in zip(self._pairs, reversed(parts), strict=True):
            result += (part - _dot(change, result) / _dot(shift, change)) * shift
        return result

    def _curvature_of_steps(self) -> Floats:
        """Return the curvature, raised where the step would be too long."""
        slopes = np.abs(self.gradient) / self._farthest
        least = max(LEAST_CURVATURE * float(self.curvature.mean()), FLAT * float(slopes.max()))
        return np.maximum(np.maximum(self.curvature, slopes), max(least, TINIEST))


class DenseDescent(Descent):
    """BFGS with the whole inverse Hessian, to rounding: for few entries, and many digits."""

    rounding = 4e-16

    def __init__(self, function: Function, start: Floats, *, farthest: float) -> None:
        super().__init__(function, start, farthest=farthest)
        self._inverse = np.diag(1.0 / self._curvature_of_steps())

    def _learn(self, shift: Floats, change: Floats) -> None:
        across = np.sum(self._inverse * change, axis=1)
        product = _dot(shift, change)
        self._inverse += (1.0 + _dot(change, across) / product) / product * np.outer(shift, shift)
        self._inverse -= (np.outer(across, shift) + np.outer(shift, across)) / product

    def _scaled(self, gradient: Floats) -> Floats:
        step = np.sum(self._inverse * gradient, axis=1)
        farthest = LONGEST_STEP * self._farthest
        return np.asarray(step * min(1.0, farthest / float(np.abs(step).max())))

    def _curvature_of_steps(self) -> Floats:
        return np.maximum(self.curvature, np.abs(self.gradient) / self._farthest)


def _dot(x: Floats, y: Floats) -> float:
    """Return the inner product without BLAS, whose digits depend on its threads."""
    return float(np.sum(x * y))


@dataclass(frozen=True)
class Candidate:
    """Prices and a flow that give bounds."""

    prices: Floats  # extrapolated to width 0
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
        """Smoothing width of the current step."""
        return self._smooth.width

    @property
    def value(self) -> float:
        """Smoothed dual at the current point."""
        return self._descent.value

    def _begin(self, start: Floats, width: float) -> None:
        self._smooth.width = width
        self._descent = Descent(self._smooth.value_at, start, farthest=width)
        self._candidates, self._moving = 0, True

    def advance(self) -> Candidate:
        """Take some steps and return their candidate."""
        descent = self._descent
        self._candidates += 1
        self._moving = all(descent.step() for _ in range(STEPS_AT_ONCE))
        flow, charge = self._smooth.clear()
        return Candidate(self._extrapolated(0.0), flow, descent.value - flow.total + charge)

    def go_on(self, candidate: Candidate, gap: float) -> None:
        """Narrow the width, unless this one still leaves much of the true gap."""
        if self._moving and self._candidates < MAX_CANDIDATES and candidate.gap > SETTLED * gap:
            return
        narrower = NARROWER * self.width
        start = self._extrapolated(narrower)
        self._before = (self.width, self._descent.point)
        self._begin(start, narrower)

    def _extrapolated(self, width: float) -> Floats:
        """Return prices at another width, on the line through this one and the one before."""
        prices = self._descent.point
        if self._before is None:
            return prices
        wider, earlier = self._before
        return np.asarray(prices + (width - self.width) / (self.width - wider) * (prices - earlier))
