"""Two arms, one pull per stage: the states of a stage in dense boxes, followed forward.

Notations
    t         pulls so far
    box       the states with n1 pulls of arm 1: good outcomes low[n1, k]..high[n1, k] of arm k, the
              state (g1, g2) at start[n1] + (g1 - low1) (high2 - low2 + 1) + g2 - low2
    S         states that are reached
    moments   (S, C): probability w of a state; where X, the reward so far, matters, w E[X | state]
              and w E[X^2 | state] too
    chance    (S, 2) of pulling each arm
    p         (S, 2) of a good outcome
"""

import numpy as np

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
def boxes_after(t, pulls, good, chance):
    """Boxes of the states after one more pull: low, high (t + 2, 2) and start (t + 3,)."""
    low, high = np.full((t + 2, 2), t + 2), np.full((t + 2, 2), -1)
    for s in range(pulls.shape[0]):
        for a in range(2):
            if chance[s, a] == 0.0:
                continue
            m1 = pulls[s, 0] + 1 - a
            for k in range(2):
                low[m1, k] = min(low[m1, k], good[s, k])
                high[m1, k] = max(high[m1, k], good[s, k] + (k == a))
    start = np.zeros(t + 3, np.int64)
    for n in range(t + 2):
        size = 0
        if high[n, 0] >= 0:
            size = (high[n, 0] - low[n, 0] + 1) * (high[n, 1] - low[n, 1] + 1)
        start[n + 1] = start[n] + size
    return low, high, start


@compiled
def spread(pulls, good, moments, chance, p, reward_good, reward_bad, low, high, start, dense):
    """Moments of the states after one more pull, in `dense`; returns the expected reward."""
    earned = 0.0
    for s in range(pulls.shape[0]):
        n1, g1, g2 = pulls[s, 0], good[s, 0], good[s, 1]
        for a in range(2):
            share = chance[s, a]
            if share == 0.0:
                continue
            q = p[s, a]
            m1 = n1 + 1 - a
            width = high[m1, 1] - low[m1, 1] + 1
            for x in range(2):
                likely = share * (q if x else 1.0 - q)
                if likely == 0.0:
                    continue
                h1, h2 = (g1 + x, g2) if a == 0 else (g1, g2 + x)
                reward = reward_good[a] if x else reward_bad[a]
                i = start[m1] + (h1 - low[m1, 0]) * width + h2 - low[m1, 1]
                _add_moments(dense, i, moments, s, likely, reward)
                earned += likely * moments[s, 0] * reward
    return earned


@compiled
def reached(t, low, high, start, dense, least):
    """Return the states more likely than `least`: pulls (S, 2), good (S, 2), moments (S, C)."""
    S = 0
    for i in range(dense.shape[0]):
        S += dense[i, 0] > least
    pulls, good = np.empty((S, 2), np.int64), np.empty((S, 2), np.int64)
    moments = np.empty((S, dense.shape[1]))
    s = 0
    for n1 in range(t + 1):
        i = start[n1]
        if start[n1 + 1] == i:
            continue
        for g1 in range(low[n1, 0], high[n1, 0] + 1):
            for g2 in range(low[n1, 1], high[n1, 1] + 1):
                if dense[i, 0] > least:
                    pulls[s, 0], pulls[s, 1] = n1, t - n1
                    good[s, 0], good[s, 1] = g1, g2
                    for c in range(dense.shape[1]):
                        moments[s, c] = dense[i, c]
                    s += 1
                i += 1
    return pulls, good, moments
