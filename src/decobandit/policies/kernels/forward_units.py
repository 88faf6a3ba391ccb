"""Units of a batch drawn by looking forward: the arm that an index would take at a drawn position.

Notations
    E, K        episodes; arms
    index (groups, states)   of a state (n, g) at n (n + 1) / 2 + g
    alpha, beta (K,)         priors
    pulls, good (E, K)       known outcomes
    allowed (E, K)           arms that may be given some
    given (E, K)             units of every arm
"""

import numpy as np

from ...problem.kernels.ties import drawn
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled


@compiled
def forward_units(
    index, group_of_arm, alpha, beta, pulls, good, allowed, unit, units, tolerance, rng, given
):
    """For each unit a block is imagined, up to a position drawn evenly: given the arm there.

    Outcomes of the block are drawn from what is known: P(good) = (alpha + g) / (alpha + beta + n).
    """
    E, K = pulls.shape
    n, g, score = np.empty(K, np.int64), np.empty(K, np.int64), np.empty(K)
    for e in range(E):
        given[e] = 0
        for _ in range(units):
            position = int(rng.random() * units)
            copy(pulls[e], n)
            copy(good[e], g)
            for k in range(K):
                own = index[group_of_arm[k], n[k] * (n[k] + 1) // 2 + g[k]]
                score[k] = own if allowed[e, k] else -np.inf
            arm = drawn(score, score.max() - tolerance, rng)
            for _ in range(position):
                for _ in range(unit):
                    p = (alpha[arm] + g[arm]) / (alpha[arm] + beta[arm] + n[arm])
                    n[arm] += 1
                    g[arm] += rng.random() < p
                score[arm] = index[group_of_arm[arm], n[arm] * (n[arm] + 1) // 2 + g[arm]]
                arm = drawn(score, score.max() - tolerance, rng)
            given[e, arm] += 1
