"""Joint states of two arms, one pull per stage: a dense array, rewritten in place level by level.

    W_t = max( gain1 + E[ W_{t+1} after a pull of arm 1 ], gain2 + E[ W_{t+1} after one of arm 2 ] )

Notations, beyond those of `kernels/joint.py`
    k1, k2  groups of the arms; equal when they are exchangeable: then only n1 <= n2 is kept
    slab    the states with n1 pulls of arm 1, so that n2 = t - n1; row g1 of slab n1 begins at
            start[n1] + g1 width[n1] and holds g2 = 0..n2

Slab n1 needs its own old values (arm 2 pulled) and those of slab n1 + 1 (arm 1 pulled).
"""

import numpy as np

from ...support.kernels.compiled import compiled
from .joint import pull_row, value_of_pull


@compiled(fastmath={"contract", "nsz"})
def _step_row(own, bad, good, p1, gain1, p2, gain2):
    """Rewrite the states of one g1 in place; bad, good: rows g1, g1 + 1 of slab n1 + 1."""
    for g in range(p2.shape[0]):
        first = value_of_pull(gain1, p1, bad[g], good[g])
        second = value_of_pull(gain2[g], p2[g], own[g], own[g + 1])
        own[g] = first if first > second else second


@compiled
def _step_slab(n1, n2, start, width, values, p1, gain1, p2, gain2):
    """Take slab n1 back by one stage."""
    wide, beyond = width[n1], width[n1 + 1]
    for g in range(n1 + 1):
        at, to = start[n1] + g * wide, start[n1 + 1] + g * beyond
        _step_row(
            values[at : at + n2 + 2],
            values[to : to + n2 + 1],
            values[to + beyond : to + beyond + n2 + 1],
            p1[g],
            gain1[g],
            p2[: n2 + 1],
            gain2[: n2 + 1],
        )


@compiled(fastmath={"contract", "nsz"})
def _step_equal(n, start, width, values, p, gain):
    """Take the slab of exchangeable arms with n pulls each back by one stage."""
    for g in range(n + 1):
        own = values[start[n] + g * width[n] :]
        for h in range(n + 1):
            own[h] = value_of_pull(gain[h], p[h], own[h], own[h + 1])
    for g in range(n + 1):
        for h in range(g):
            x, y = start[n] + g * width[n] + h, start[n] + h * width[n] + g
            values[x] = values[y] = max(values[x], values[y])


@compiled
def last_slabs(arms, k1, k2, level, start, width, values):
    """W at the last stage, in all slabs."""
    p, gain1, gain2 = np.empty(level + 1), np.empty(level + 1), np.empty(level + 1)
    for n1 in range(level // 2 + 1 if k1 == k2 else level + 1):
        n2 = level - n1
        pull_row(arms, k1, level, n1, p, gain1)
        pull_row(arms, k2, level, n2, p, gain2)
        for g in range(n1 + 1):
            row = values[start[n1] + g * width[n1] :]
            for h in range(n2 + 1):
                row[h] = max(gain1[g], gain2[h])


@compiled
def step_fronts(arms, k1, k2, level, depth, first, last, start, width, values):
    """Fronts first..last-1 of `depth` levels, from `level` down.

    Front f takes slab f back to `level`, f - 1 to level - 1, f - 2 to level - 2, ...: each finds
    slab n1 + 1 just rewritten, in cache, and its own rewritten by the front before.
    """
    p1, gain1 = np.empty(level + 1), np.empty(level + 1)
    p2, gain2 = np.empty(level + 1), np.empty(level + 1)
    for front in range(first, last):
        for j in range(min(depth, front + 1)):
            t, n1, n2 = level - j, front - j, level - front
            if k1 == k2 and n1 > n2:
                continue
            pull_row(arms, k2, t, n2, p2, gain2)
            if k1 == k2 and n1 == n2:
                _step_equal(n1, start, width, values, p2, gain2)
            else:
                pull_row(arms, k1, t, n1, p1, gain1)
                _step_slab(n1, n2, start, width, values, p1, gain1, p2, gain2)
