"""Totals of simulated episodes: rewards, mean rewards, the gap of Theorem 1.

Notations, besides those of `episodes`
    good, bad (K, B)     rewards of the block's stages
    mu (B,)              prices of the block's stages
"""

import numpy as np

from ...problem.kernels.layout import expected_reward, spot
from ...support.kernels.compiled import compiled


@compiled
def book(episodes, good, bad, deployed, reward, stage_means):
    """Add up what the actions of a block earned, per draw.

    reward (draws,): sums over the draw's episodes of what the outcomes earn. stage_means (draws,
    B): of what the pulled arms earn on average, by stage. A deployed arm earns by its success
    probability in both.
    """
    E, B, m = episodes.actions.shape
    for e in range(E):
        d = e // episodes.per_draw
        for b in range(B):
            mean = 0.0
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action < 0:
                    continue
                arm = action >> 1
                expected = expected_reward(episodes.p[e, arm], bad[arm, b], good[arm, b])
                mean += expected
                if deployed:
                    reward[d] += expected
                else:
                    reward[d] += good[arm, b] if action & 1 else bad[arm, b]
            stage_means[d, b] += mean


@compiled
def book_gap(episodes, pulls, successes, index, mu, most, group, terms):
    """Add the gap terms of a block, and move (pulls, successes) (episodes, K) through it.

    index: table of a block at the prices, as `lay_out` makes it. terms (draws, B, 2): shortfall,
    (mu - index)^+ of arms that are pulled, and congestion, (index - mu)^+ of the others.
    """
    E, B, m = episodes.actions.shape
    K = group.shape[0]
    pulled, state = np.zeros(K, np.bool_), np.empty(K, np.int64)
    for e in range(E):
        d = e // episodes.per_draw
        for a in range(K):
            state[a] = spot(successes[e, a], pulls[e, a] - successes[e, a], most)
        for b in range(B):
            for i in range(m):
                if episodes.actions[e, b, i] >= 0:
                    pulled[episodes.actions[e, b, i] >> 1] = True
            for a in range(K):
                excess = index[group[a], state[a], b] - mu[b]
                if pulled[a]:
                    terms[d, b, 0] += max(-excess, 0.0)
                else:
                    terms[d, b, 1] += max(excess, 0.0)
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action >= 0:
                    a = action >> 1
                    pulled[a] = False
                    pulls[e, a] += 1
                    successes[e, a] += action & 1
                    state[a] = spot(successes[e, a], pulls[e, a] - successes[e, a], most)
