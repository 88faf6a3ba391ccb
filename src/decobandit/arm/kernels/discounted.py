"""Gittins indices of a Bernoulli arm whose rewards are discounted for ever, of all states at once.

    V(s; c) = max( c / (1 - d),  p_s + d E[V(s'; c)] )        the index of s: the c that makes both
                                                              terms equal
The second term less the first falls in c and has one root. It is followed over a grid of charges,
all states in one backward pass each; between two charges it is taken as a line. A state whose mean
is far from c in its posterior standard deviations is not followed: it pulls for ever, or never.

Notations
    a, b, d      prior, discount factor
    most         largest number of pulls n whose indices are asked for
    depth        pulls beyond `most` at which an arm is taken as known
    charges (C,) ascending, from below all indices to above them
    table        index of state (n, g) at n (n + 1) / 2 + g
"""

import numpy as np

from ...support.kernels.compiled import compiled

DEVIATIONS, SKEW = 7.0, 25.0  # of what is far: by Bernstein's inequality, below 1e-9


@compiled(inline="always")
def _edge(a, b, n, c, side):
    """The first (side -1) or last (side 1) g that is followed at n pulls."""
    m = a + b + n
    far = DEVIATIONS * np.sqrt(c * (1.0 - c) / m) + SKEW / m
    return min(max(int((c + side * far) * m - a), 0), n)


@compiled
def discounted_indices(a, b, d, most, depth, charges, table):
    """Fill `table`."""
    last = most + depth
    before, V = np.ones((most + 1) * (most + 2) // 2), np.empty(last + 2)
    for i in range(charges.shape[0]):
        c = charges[i]
        retired = c / (1.0 - d)
        low, high = _edge(a, b, last, c, -1.0), _edge(a, b, last, c, 1.0)
        for g in range(low, high + 1):
            V[g] = max((a + g) / (a + b + last), c) / (1.0 - d)
        for n in range(last - 1, -1, -1):
            lower, higher = _edge(a, b, n, c, -1.0), _edge(a, b, n, c, 1.0)
            V[lower:low] = retired
            for g in range(high + 1, higher + 2):
                V[g] = (a + g) / (a + b + n + 1) / (1.0 - d)
            start, low, high = n * (n + 1) // 2, lower, higher
            for g in range(low, high + 1):
                p = (a + g) / (a + b + n)
                more = p + d * (p * V[g + 1] + (1.0 - p) * V[g]) - retired
                V[g] = retired + max(more, 0.0)
                if n <= most:
                    if before[start + g] > 0.0 and more <= 0.0:
                        share = before[start + g] / (before[start + g] - more)
                        table[start + g] = charges[i - 1] + share * (c - charges[i - 1])
                    before[start + g] = more
