"""Minimising a smooth convex function by L-BFGS, or by BFGS with a dense matrix.

Functions return values, gradients and curvatures: estimates of the second derivative along each
entry, from which the method starts. A nearly diagonal Hessian is described well by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..support import Floats

MEMORY = 30  # pairs of steps and changes of the gradient
MIN_DECREASE = 1e-4  # of the decrease that the gradient promises
SHORTEST = 1e-6  # part of a step at which the line search gives up
LEAST_CURVATURE = 0.1  # along an entry, in parts of the mean
FLAT = 0.01  # curvature where there is none, in parts of what leads as far as allowed
LONGEST_STEP = 4.0  # of an entry with a dense matrix, times what it moves by its curvature alone
TINIEST = 1e-300  # curvature that is divided by

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
