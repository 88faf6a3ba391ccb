"""Finite-horizon Gittins indices as one would first write them, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit


@njit
def plain_bisection(horizon: int, accuracy: float) -> npt.NDArray[np.float64]:
    """Indices of all states (t, n, g) of a uniform arm, each by halving an interval of its own.

    State (t, n, g) stands at t(t+1)(t+2)/6 + n(n+1)/2 + g.
    """
    table = np.empty(horizon * (horizon + 1) * (horizon + 2) // 6)
    value = np.empty(horizon + 1)
    k = 0
    for t in range(horizon):
        for n in range(t + 1):
            for g in range(n + 1):
                low, high = 0.0, 1.0
                while high - low > accuracy:
                    price = 0.5 * (low + high)
                    if gain(n, g, horizon - t, price, value) > 0.0:
                        low = price
                    else:
                        high = price
                table[k] = 0.5 * (low + high)
                k += 1
    return table


@njit
def gain(n: int, g: int, left: int, price: float, value: npt.NDArray[np.float64]) -> float:
    """What one pull at that price is worth, and the right to go on until nothing is left."""
    value[: left + 1] = 0.0
    best = 0.0
    for pulls in range(left - 1, -1, -1):
        for good in range(pulls + 1):
            p = (g + good + 1.0) / (n + pulls + 2.0)
            best = p - price + p * value[good + 1] + (1.0 - p) * value[good]
            value[good] = max(best, 0.0)
    return best
