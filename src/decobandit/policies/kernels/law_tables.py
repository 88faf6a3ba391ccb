"""Arms compared by tables of the distribution functions of their mean rewards.

A table has knots x_0 < x_1 < .. with values F and slopes of a distribution function: cubic between
two knots, 0 before the first and 1 after the last. Between knots of any two tables all are cubics,
and integrals of their products are taken by Gauss and Legendre.

Notations
    S, E, K     tables; joint states; arms
    x, f, m     knots, values and slopes of all tables, one after the other
    start       (S + 1,) first knot of each table
    where       (E, K) table of every arm; -1 for an arm that is left out
"""

import numpy as np

from ...support.kernels.compiled import compiled

NODES = np.array([-0.8611363115940526, -0.3399810435848563, 0.3399810435848563, 0.8611363115940526])
WEIGHTS = np.array([0.3478548451374538, 0.6521451548625461, 0.6521451548625461, 0.3478548451374538])


@compiled
def evaluate(x, f, m, first, last, at, y, step):
    """Value and slope of a table at y + step, between its knots at - 1 and at.

    The sum itself is not formed: between neighbouring numbers there is none.
    """
    if at <= first:
        return 0.0, 0.0
    if at >= last:
        return 1.0, 0.0
    h = x[at] - x[at - 1]
    s = ((y - x[at - 1]) + step) / h
    u, rise = 1.0 - s, f[at] - f[at - 1]
    one, two = m[at - 1] * h - rise, m[at] * h - rise
    value = f[at - 1] + s * rise + s * u * (u * one - s * two)
    slope = rise + (u * (u - 2.0 * s)) * one - (s * (2.0 * u - s)) * two
    return min(max(value, 0.0), 1.0), max(slope, 0.0) / h


@compiled
def largest_each(x, f, m, start, where, chance):
    """chance (E, K): that an arm has the largest mean reward of those that are not left out."""
    E, K = where.shape
    at, below, slope, share = np.empty(K, np.int64), np.empty(K), np.empty(K), np.empty(K)
    for e in range(E):
        chance[e] = 0.0
        y = restart(x, start, where[e], at)
        while True:
            end = advance(x, start, where[e], at, y)
            if end == np.inf:
                break
            half = 0.5 * (end - y)
            for g in range(NODES.size):
                step, total = half * (1.0 + NODES[g]), 1.0
                for k in range(K):
                    if where[e, k] >= 0:
                        s = where[e, k]
                        below[k], slope[k] = evaluate(
                            x, f, m, start[s], start[s + 1], at[k], y, step
                        )
                        share[k] = total  # product of those before it
                        total *= below[k]
                total = half * WEIGHTS[g]
                for k in range(K - 1, -1, -1):
                    if where[e, k] >= 0:
                        chance[e, k] += slope[k] * share[k] * total
                        total *= below[k]
            y = end
        total = chance[e].sum()
        if total > 0.0:
            chance[e] /= total


@compiled
def within_each(x, f, m, start, where, moved, chance):
    """chance (E,): that all mean rewards are within a margin; tables `moved` are lower by it."""
    E, K = where.shape
    both, at = np.empty(2 * K, np.int64), np.empty(2 * K, np.int64)
    near, slope, share = np.empty(K), np.empty(K), np.empty(K)
    for e in range(E):
        both[:K], both[K:], found = where[e], moved[e], 0.0
        y = restart(x, start, both, at)
        while True:
            end = advance(x, start, both, at, y)
            if end == np.inf:
                break
            half = 0.5 * (end - y)
            for g in range(NODES.size):
                step, total = half * (1.0 + NODES[g]), 1.0
                for k in range(K):
                    if where[e, k] >= 0:
                        s = where[e, k]
                        below, slope[k] = evaluate(x, f, m, start[s], start[s + 1], at[k], y, step)
                        s = moved[e, k]
                        above, _ = evaluate(x, f, m, start[s], start[s + 1], at[K + k], y, step)
                        near[k], share[k] = max(above - below, 0.0), total
                        total *= near[k]
                total = half * WEIGHTS[g]
                for k in range(K - 1, -1, -1):
                    if where[e, k] >= 0:
                        found += slope[k] * share[k] * total
                        total *= near[k]
            y = end
        chance[e] = min(max(found, 0.0), 1.0)


@compiled
def restart(x, start, where, at):
    """The first knot of all tables; at (K,): the next one of each."""
    y = np.inf
    for k in range(where.size):
        if where[k] >= 0:
            at[k] = start[where[k]]
            y = min(y, x[at[k]])
    return y


@compiled
def advance(x, start, where, at, y):
    """The next knot after y of all tables; infinite after the last. at: that of each."""
    end = np.inf
    for k in range(where.size):
        if where[k] >= 0:
            last = start[where[k] + 1]
            while at[k] < last and x[at[k]] <= y:
                at[k] += 1
            if at[k] < last:
                end = min(end, x[at[k]])
    return end
