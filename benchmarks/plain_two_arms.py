"""The optimum of two uniform arms as one would first write it, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit
def plain_two_arms(horizon: int) -> float:
    """Values of all (n1, g1, g2) with n2 = pulls - n1, two levels, no symmetry, no blocking."""
    size = horizon + 2
    later = np.zeros((size, size, size))
    now = np.zeros((size, size, size))
    for pulls in range(horizon - 1, -1, -1):
        for n1 in range(pulls + 1):
            n2 = pulls - n1
            for g1 in range(n1 + 1):
                p1 = (g1 + 1.0) / (n1 + 2.0)
                for g2 in range(n2 + 1):
                    p2 = (g2 + 1.0) / (n2 + 2.0)
                    first = p1 * (1.0 + later[n1 + 1, g1 + 1, g2])
                    first += (1.0 - p1) * later[n1 + 1, g1, g2]
                    second = p2 * (1.0 + later[n1, g1, g2 + 1])
                    second += (1.0 - p2) * later[n1, g1, g2]
                    now[n1, g1, g2] = max(first, second)
        now, later = later, now
    return float(later[0, 0, 0])
