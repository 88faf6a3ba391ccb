"""Minimising a smooth convex function: L-BFGS with a backtracking line search.

It depends on nothing but values and gradients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..support import Floats

MEMORY = 30  # pairs of steps and changes of the gradient
ENOUGH = 1e-4  # of the decrease that the gradient promises
SHORTEST = 1e-6  # part of a step at which the line search gives up

Function = Callable[[Floats], tuple[float, Floats]]


class Descent:
    """A point, the function's value and gradient there, and what past steps have taught."""

    def __init__(self, function: Function, start: Floats, *, first_step: float) -> None:
        self._function = function
        self._first_step = first_step  # largest change of an entry in the first step
        self._pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
        self.point = start.copy()
        self.value, self.gradient = function(self.point)

    def step(self) -> bool:
        """One step down; False where none is found."""
        direction = -self._scaled(self.gradient)
        slope = _dot(direction, self.gradient)
        if slope >= 0.0:
            return False
        length = 1.0
        while True:
            point = self.point + length * direction
            value, gradient = self._function(point)
            if value <= self.value + ENOUGH * length * slope:
                break
            if not length > SHORTEST:  # nor where a value that is no number made it none
                return False
            parabola = -slope * length**2 / (2.0 * (value - self.value - length * slope))
            length = min(max(parabola, 0.1 * length), 0.5 * length)
        moved, turned = point - self.point, gradient - self.gradient
        if _dot(moved, turned) > 1e-14 * np.sqrt(_dot(moved, moved) * _dot(turned, turned)):
            self._pairs.append((moved, turned))
        self.point, self.value, self.gradient = point, value, gradient
        return True

    def _scaled(self, gradient: Floats) -> Floats:
        """The gradient times the inverse Hessian that the pairs stand for (two loops)."""
        if not self._pairs:
            largest = float(np.abs(gradient).max())
            return gradient * (self._first_step / largest) if largest else gradient
        result, parts = gradient.copy(), []
        for moved, turned in reversed(self._pairs):
            part = _dot(moved, result) / _dot(moved, turned)
            result -= part * turned
            parts.append(part)
        moved, turned = self._pairs[-1]
        result *= _dot(moved, turned) / _dot(turned, turned)
        for (moved, turned), part in zip(self._pairs, reversed(parts), strict=True):
            result += (part - _dot(turned, result) / _dot(moved, turned)) * moved
        return result


def _dot(x: Floats, y: Floats) -> float:
    """Without BLAS, whose digits depend on its threads."""
    return float(np.sum(x * y))
