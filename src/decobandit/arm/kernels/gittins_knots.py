"""The finite-horizon Gittins index between knots, for horizons at which tables do not fit.

The index depends on the posterior Beta(a, b) and on the pulls h that are left, nothing else. In
units of the posterior's standard deviation its excess over the mean,

    Z(a, b, h) = (index - p) / sd,   p = a / (a + b),   sd = sqrt(p (1 - p) / (a + b + 1)),

is nearly smooth in log a, log b and log h: cubics between few knots follow it.

Notations, besides those of the package
    a (I,), b (J,)   knots of the posterior
    Z (I, J)         excess at the knots, for one h
    start, weight    (counts,), (counts, 4): the first of four knots, and their Lagrange weights
"""

import math

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .gittins import flat_root


@compiled(inline="always")
def _sd(a, b):
    return math.sqrt(a * b / (a + b + 1.0)) / (a + b)


@compiled
def knot_excess(a, b, left, reach, tol, Z):
    """Fill Z (pulls left, J) of one a, pulls left rising: each root is the next one's first guess.

    Knots with a + b above `reach` (pulls left,) are not needed and stay as they are.
    """
    W = np.empty(2 * left[-1] + 2)
    for j in range(b.size):
        p, sd = a / (a + b[j]), _sd(a, b[j])
        guess = p
        for k in range(left.size):
            if a + b[j] <= reach[k]:
                guess = flat_root(a, b[j], left[k], guess, tol, W)
                Z[k, j] = (guess - p) / sd


@compiled
def knot_index(a, b, x, weight_a, y, weight_b, Z):
    """The index of one posterior, from the 4 x 4 knots that begin at x, y."""
    total = 0.0
    for i in range(4):
        for j in range(4):
            total += weight_a[i] * weight_b[j] * Z[x + i, y + j]
    return a / (a + b) + total * _sd(a, b)


@compiled
def knot_indices(alpha, beta, start_a, weight_a, start_b, weight_b, Z, counts_a, counts_b, out):
    """Index after so many outcomes of both kinds; counts, out (states,)."""
    for i in range(out.size):
        g, m = counts_a[i], counts_b[i]
        out[i] = knot_index(
            alpha + g, beta + m, start_a[g], weight_a[g], start_b[m], weight_b[m], Z
        )


@compiled
def knot_slab(alpha, beta, start_a, weight_a, start_b, weight_b, Z, t, out):
    """Index of every state with at most t pulls; out (slab of t)."""
    for n in range(t + 1):
        for g in range(n + 1):
            m = n - g
            out[row_start(n) + g] = knot_index(
                alpha + g, beta + m, start_a[g], weight_a[g], start_b[m], weight_b[m], Z
            )
