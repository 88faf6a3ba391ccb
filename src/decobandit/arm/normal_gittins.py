"""Gittins indices of normal arms, discounted for ever: where they are from their means.

The index of an arm that has been seen n times, the pulls that its prior is worth among them, is its
mean plus noise_sd v(n): moving all outcomes moves it as well. With noise of standard deviation 1
and a charge of 0, an arm of mean m is worth

    V_n(m) = max(0, m + discount E V_{n+1}(m + Z / sqrt(n (n + 1)))),    Z standard normal

and v(n) is minus the mean at which a pull comes to be worth nothing.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..support import Floats

POINTS = 1201  # of the means at which V_n is computed: v is 0.2% too large at 70 pulls, less before
WIDEST = 6.0  # standard deviations of what is not known, 1 / sqrt(n), that they reach to
NODES = 16  # of a quadrature over the next outcome, where it moves the mean by little
MANY = 24.0  # pulls from which on it does
NEGLIGIBLE = 2e-3  # discount of the pulls beyond those that are followed


@lru_cache(maxsize=64)
def normal_indices(prior_pulls: float, pulls: int, discount: float) -> Floats:
    """Index less mean after 0 .. `pulls` pulls, in standard deviations of the noise.

    Examples
    --------
    >>> from decobandit.arm.normal_gittins import normal_indices
    >>> normal_indices(1.0, 2, 0.8).round(4)
    array([0.505 , 0.3084, 0.2258])
    """
    from scipy.special import ndtr  # late: scipy takes half a second to load

    depth = int(np.ceil(np.log(NEGLIGIBLE) / np.log(discount)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    scores = np.linspace(-WIDEST, WIDEST, POINTS)
    later, worth = np.zeros(POINTS), np.zeros(POINTS)
    found = np.empty(pulls + 1)
    for k in range(pulls + depth, -1, -1):
        n = prior_pulls + k
        mean, spread = scores / np.sqrt(n), 1.0 / np.sqrt(n * (n + 1.0))
        if k == pulls + depth:
            worth = np.maximum(mean, 0.0) / (1.0 - discount)
        else:
            if n < MANY:  # V is a sum of (m - c)^+: each exactly
                bends = np.diff(worth, prepend=0.0) / np.diff(later, prepend=later[0] - 1.0)
                bends = np.diff(bends[1:], prepend=0.0, append=1.0 / (1.0 - discount))
                z = (later - mean[:, None]) / spread
                above = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)
                expected = spread * (above * bends).sum(axis=1)
            else:
                at = mean[:, None] + spread * nodes
                there = np.interp(at, later, worth)
                there = np.where(at > later[-1], at / (1.0 - discount), there)
                expected = (there * weights).sum(axis=1)
            gain = mean + discount * expected
            if k <= pulls:
                found[k] = -np.interp(0.0, gain, mean)
            worth = np.maximum(gain, 0.0)
        later = mean
    found.setflags(write=False)
    return found
