"""Totals of simulated episodes: rewards, mean rewards, the gap of Theorem 1, regret by stage.

Notations, besides those of `episodes`
    good, bad (K, B)     rewards of the block's stages
    mu (B,)              prices of the block's stages
    best (draws, B)      sum of the largest mean rewards of a stage: what is possible at most

Theorem 1: whatever the policy, upper bound - value is the expected sum over stages of

    sum_a (index - mu_t)^+  -  sum over pulled arms (index - mu_t)
"""

import numpy as np

from ...problem.kernels.layout import row_start, spot
from ...problem.kernels.worth import expected_reward
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
def lay_out_gap(index, price, t, b, most, short, rest):
    """Stage b of the tables that `book_gap` reads, that is stage t; index (groups, slab).

    short (groups, states, B): (mu - index)^+, what a pull costs. rest (groups, states, B + 1): sums
    of (index - mu)^+ over the stages of the block before b, what a rest costs, of any length.
    """
    for k in range(index.shape[0]):
        for n in range(t + 1):
            for g in range(n + 1):
                x, i = index[k, row_start(n) + g] - price, spot(g, n - g, most)
                short[k, i, b] = max(-x, 0.0)
                rest[k, i, b + 1] = rest[k, i, b] + max(x, 0.0)


@compiled
def book_gap(episodes, pulls, successes, short, rest, most, group, gap):
    """Add the gap terms of a block to gap (draws,), and move (pulls, successes) through it.

    pulls, successes (episodes, K): states at the beginning of the block. Arms are looked at only
    when they are pulled: for what they cost while they rested, and for the pull.
    """
    E, B, m = episodes.actions.shape
    K = group.shape[0]
    since = np.empty(K, np.int64)
    for e in range(E):
        total = 0.0
        since[:] = 0
        for b in range(B):
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action < 0:
                    continue
                a = action >> 1
                k, state = group[a], spot(successes[e, a], pulls[e, a] - successes[e, a], most)
                total += short[k, state, b]
                if since[a] < b:
                    total += rest[k, state, b] - rest[k, state, since[a]]
                since[a] = b + 1
                pulls[e, a] += 1
                successes[e, a] += action & 1
        for a in range(K):
            if since[a] < B:
                k, state = group[a], spot(successes[e, a], pulls[e, a] - successes[e, a], most)
                total += rest[k, state, B] - rest[k, state, since[a]]
        gap[e // episodes.per_draw] += total


@compiled
def book_gap_stages(episodes, pulls, successes, short, rest, most, group, terms):
    """Add the gap terms of a block by stage: terms (draws, B, 2), shortfall and congestion.

    All arms are looked at, at every stage. pulls, successes: as `book_gap`, but left alone.
    """
    E, B, m = episodes.actions.shape
    K = group.shape[0]
    n, g, pulled = np.empty(K, np.int64), np.empty(K, np.int64), np.zeros(K, np.bool_)
    for e in range(E):
        d = e // episodes.per_draw
        for a in range(K):
            n[a], g[a] = pulls[e, a], successes[e, a]
        for b in range(B):
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action >= 0:
                    pulled[action >> 1] = True
            for a in range(K):
                k, state = group[a], spot(g[a], n[a] - g[a], most)
                if pulled[a]:
                    terms[d, b, 0] += short[k, state, b]
                else:
                    terms[d, b, 1] += rest[k, state, b + 1] - rest[k, state, b]
            for i in range(m):
                action = episodes.actions[e, b, i]
                if action >= 0:
                    pulled[action >> 1] = False
                    n[action >> 1] += 1
                    g[action >> 1] += action & 1


@compiled
def book_regret(stage_means, best, controls, so_far, moments):
    """Moments over draws of the cumulative regret after each stage of a block.

    stage_means (draws, B): mean rewards per episode; so_far (draws,): regret before the block,
    moved to after it; moments (B, 2 + controls): sums of regret, its square, regret x control.
    """
    draws, B = stage_means.shape
    for d in range(draws):
        for b in range(B):
            so_far[d] += best[d, b] - stage_means[d, b]
            y = so_far[d]
            moments[b, 0] += y
            moments[b, 1] += y * y
            for q in range(controls.shape[1]):
                moments[b, 2 + q] += y * controls[d, q]
