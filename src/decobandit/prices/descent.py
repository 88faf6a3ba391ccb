"""Minimising a smooth convex function: L-BFGS with a backtracking line search.

It depends on nothing but values, gradients and curvatures: estimates of the second derivative along
each entry, from which L-BFGS starts. Where the Hessian is nearly diagonal they say most of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..support import Floats

MEMORY = 30  # pairs of steps and changes of the gradient
ENOUGH = 1e-4  # of the decrease that the gradient promises
SHORTEST = 1e-6  # part of a step at which the line search gives up
LEAST_CURVATURE = 0.1  # along an entry, in parts of the mean
FLAT = 0.01  # curvature where there is none, in parts of what leads as far as allowed
LONGEST_STEP = 4.0  # of an entry with a dense matrix, times what it moves by its curvature alone
TINIEST = 1e-300  # curvature that is divided by

Function = Callable[[Floats], tuple[float, Floats, Floats]]


class Descent:
    """A point, the function's value and gradient there, and what past steps have taught."""

    rounding = 0.0  # by which values may differ, in parts of them

    def __init__(self, function: Function, start: Floats, *, farthest: float) -> None:
        self._function = function
        self._farthest = farthest  # that an entry moves in a step by its curvature alone
        self._pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
        self.point = start.copy()
        self.value, self.gradient, self.curvature = function(self.point)

    def step(self) -> bool:
        """One step down; False where none is found."""
        direction = -self._scaled(self.gradient)
        slope = _dot(direction, self.gradient)
        if slope >= 0.0:
            return False
        length = 1.0
        while True:
            point = self.point + length * direction
            value, gradient, curvature = self._function(point)
            slack = self.rounding * abs(self.value)
            if value <= self.value + ENOUGH * length * slope + slack:
                break
            if not length > SHORTEST:  # nor where a value that is no number made it none
                return False
            parabola = -slope * length**2 / (2.0 * (value - self.value - length * slope))
            length = min(max(parabola, 0.1 * length), 0.5 * length)
        moved, turned = point - self.point, gradient - self.gradient
        if _dot(moved, turned) > 1e-14 * np.sqrt(_dot(moved, moved) * _dot(turned, turned)):
            self._learn(moved, turned)
        self.point, self.value, self.gradient, self.curvature = point, value, gradient, curvature
        return True

    def _learn(self, moved: Floats, turned: Floats) -> None:
        """Note a step and the change of the gradient along it."""
        self._pairs.append((moved, turned))

    def _scaled(self, gradient: Floats) -> Floats:
        """The gradient times the inverse Hessian that curvature and pairs stand for (two loops)."""
        result, parts = gradient.copy(), []
        for moved, turned in reversed(self._pairs):
            part = _dot(moved, result) / _dot(moved, turned)
            result -= part * turned
            parts.append(part)
        steps = 1.0 / self._curvature_of_steps()
        if self._pairs:
            moved, turned = self._pairs[-1]
            steps *= _dot(moved, turned) / _dot(turned, steps * turned)
        result *= steps
        for (moved, turned), part in zip(self._pairs, reversed(parts), strict=True):
            result += (part - _dot(turned, result) / _dot(moved, turned)) * moved
        return result

    def _curvature_of_steps(self) -> Floats:
        """The curvature, made larger where it would lead too far from here."""
        slopes = np.abs(self.gradient) / self._farthest
        least = max(LEAST_CURVATURE * float(self.curvature.mean()), FLAT * float(slopes.max()))
        return np.maximum(np.maximum(self.curvature, slopes), max(least, TINIEST))


class DenseDescent(Descent):
    """BFGS with the whole inverse Hessian, to rounding: for few entries, and many digits."""

    rounding = 4e-16

    def __init__(self, function: Function, start: Floats, *, farthest: float) -> None:
        super().__init__(function, start, farthest=farthest)
        self._inverse = np.diag(1.0 / self._curvature_of_steps())

    def _learn(self, moved: Floats, turned: Floats) -> None:
        across = np.sum(self._inverse * turned, axis=1)
        product = _dot(moved, turned)
        self._inverse += (1.0 + _dot(turned, across) / product) / product * np.outer(moved, moved)
        self._inverse -= (np.outer(across, moved) + np.outer(moved, across)) / product

    def _scaled(self, gradient: Floats) -> Floats:
        step = np.sum(self._inverse * gradient, axis=1)
        farthest = LONGEST_STEP * self._farthest
        return np.asarray(step * min(1.0, farthest / float(np.abs(step).max())))

    def _curvature_of_steps(self) -> Floats:
        return np.maximum(self.curvature, np.abs(self.gradient) / self._farthest)


def _dot(x: Floats, y: Floats) -> float:
    """Without BLAS, whose digits depend on its threads."""
    return float(np.sum(x * y))
