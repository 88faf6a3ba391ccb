"""Chances of arms by their indices in many joint states, with ties and pending outcomes.

An arm with k pending outcomes has the index that it will have once they are known, on average:

    sum_x P(x good of k) index(n + k, g + x)        x beta-binomial, from the posterior Beta(a, b)

Notations
    E, K, G   joint states; arms; groups
    allowed   (E, K) arms that may be pulled
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...problem.kernels.ties import NO_RANK, wins_tie
from ...support.kernels.compiled import compiled


@compiled(inline="always")
def mean_index(index, a, b, n, g, k):
    """Index of one arm, averaged over its k pending outcomes; index (slab,)."""
    if k == 0:
        return index[row_start(n) + g]
    chance = 1.0
    for i in range(k):
        chance *= (b + i) / (a + b + i)
    total, at = 0.0, row_start(n + k) + g
    for x in range(k + 1):
        total += chance * index[at + x]
        if x < k:
            chance *= (k - x) * (a + x) / ((x + 1.0) * (b + k - x - 1.0))
    return total


@compiled(inline="always")
def share_ties(score, held, least, by_pulls, by_position, chance):
    """Chances in one joint state: 1 for the arm that the rule takes, or shared evenly."""
    K, best, lowest, tied = score.shape[0], -1, NO_RANK, 0
    for a in range(K):
        chance[a] = 0.0
        if score[a] >= least:
            tied += 1
            rank = by_pulls * held[a]
            if wins_tie(rank, lowest, by_position):
                best, lowest = a, rank
    if by_position != 0:
        chance[best] = 1.0
        return
    for a in range(K):
        if score[a] >= least:
            chance[a] = 1.0 / tied


@compiled
def index_chances(
    indices,
    group,
    alpha,
    beta,
    pulls,
    good,
    pending,
    allowed,
    tolerance,
    by_pulls,
    by_position,
    chance,
):
    """Chance of every arm, (E, K); indices (G, slab), group, alpha, beta (K,)."""
    E, K = pulls.shape
    score, held = np.empty(K), np.empty(K, np.int64)
    for e in range(E):
        top = -np.inf
        for a in range(K):
            n, g, k = pulls[e, a], good[e, a], pending[e, a]
            held[a] = n + k
            score[a] = -np.inf
            if allowed[e, a]:
                score[a] = mean_index(indices[group[a]], alpha[a] + g, beta[a] + n - g, n, g, k)
                top = max(top, score[a])
        share_ties(score, held, top - tolerance, by_pulls, by_position, chance[e])
