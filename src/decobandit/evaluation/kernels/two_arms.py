"""Two arms, one pull per stage: all states of a stage in one dense array, followed forward.

Notations
    t         pulls so far; states as in `problem.kernels.two_arms`
    S         states that are reached
    moments   (S, C): probability w of a state; where X, the reward so far, matters, w E[X | state]
              and w E[X^2 | state] too
    chance    (S, 2) of pulling each arm
    p         (S, 2) of a good outcome
"""

import numpy as np

from ...problem.kernels.two_arms import slab_starts
from ...support.kernels.compiled import compiled


@compiled(inline="always")
def _add_moments(dense, i, moments, s, share, reward):
    """Add a share of the moments of state s to those at i, with `reward` on top."""
    w = moments[s, 0]
    dense[i, 0] += share * w
    if moments.shape[1] == 3:
        first, second = moments[s, 1], moments[s, 2]
        dense[i, 1] += share * (first + reward * w)
        dense[i, 2] += share * (second + reward * (2.0 * first + reward * w))


@compiled
def spread(t, pulls, good, moments, chance, p, reward_good, reward_bad, dense):
    """Moments of the states after one more pull, in `dense`; returns the expected reward."""
    start, earned = slab_starts(t + 1), 0.0
    for s in range(pulls.shape[0]):
        n1, g1, g2 = pulls[s, 0], good[s, 0], good[s, 1]
        for a in range(2):
            share = chance[s, a]
            if share == 0.0:
                continue
            q = p[s, a]
            m1 = n1 + 1 - a
            width = t + 2 - m1
            for x in range(2):
                likely = share * (q if x else 1.0 - q)
                if likely == 0.0:
                    continue
                h1, h2 = (g1 + x, g2) if a == 0 else (g1, g2 + x)
                reward = reward_good[a] if x else reward_bad[a]
                _add_moments(dense, start[m1] + h1 * width + h2, moments, s, likely, reward)
                earned += likely * moments[s, 0] * reward
    return earned


@compiled
def reached(t, dense, least):
    """Return the states more likely than `least`: pulls (S, 2), good (S, 2), moments (S, C)."""
    S = 0
    for i in range(dense.shape[0]):
        S += dense[i, 0] > least
    pulls, good = np.empty((S, 2), np.int64), np.empty((S, 2), np.int64)
    moments = np.empty((S, dense.shape[1]))
    i = s = 0
    for n1 in range(t + 1):
        for g1 in range(n1 + 1):
            for g2 in range(t - n1 + 1):
                if dense[i, 0] > least:
                    pulls[s, 0], pulls[s, 1] = n1, t - n1
                    good[s, 0], good[s, 1] = g1, g2
                    for c in range(dense.shape[1]):
                        moments[s, c] = dense[i, c]
                    s += 1
                i += 1
    return pulls, good, moments
