"""Bounds that are a mean plus a bonus, played without a table: the bonus is a level times a width.

    x_a = mean_a + level_t width(n_a)        mean_a = g_a / n_a, both moved when the arm is pulled

Some episodes are played side by side, stage by stage: their comparisons are then vector
instructions, where those of one episode would wait for each other.

Notations, besides those of `episodes` and `ties`
    mean, own (K, LANES)    of every arm, its mean and the width of its pulls
    level (B,)              of each stage of the block
    width (N,)              by pulls; `unpulled`: the mean of an arm never pulled
"""

import numpy as np

from ...problem.kernels.ties import tie_winner
from ...support.kernels.arrays import ZERO
from ...support.kernels.compiled import compiled
from .episodes import pull

LANES = 32


@compiled(inline="always")
def compare(mean, own, level, arm, largest, second):
    """In every lane the arm of the largest bound, that bound, and the second largest."""
    for i in range(LANES):
        arm[i], largest[i], second[i] = 0.0, -np.inf, -np.inf
    for a in range(mean.shape[0]):
        for i in range(LANES):
            x, above = mean[a, i] + level * own[a, i], largest[i]
            lower = above if x > above else x
            second[i] = lower if lower > second[i] else second[i]
            arm[i] = a if x > above else arm[i]
            largest[i] = x if x > above else above


@compiled
def play_bounds(episodes, level, width, unpulled, tolerance, by_pulls, by_position, rng):
    """Play a block of stages, one pull of the largest bound in each; tolerance: of equal bounds."""
    E, K = episodes.pulls.shape
    mean, own, score = np.zeros((K, LANES)), np.zeros((K, LANES)), np.empty(K)
    best, largest, second = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    pulls, good = episodes.pulls, episodes.good
    for first in range(0, E, LANES):
        lanes = min(LANES, E - first)
        for i in range(lanes):
            for a in range(K):
                n = pulls[first + i, a]
                mean[a, i] = good[first + i, a] / n if n > 0 else unpulled
                own[a, i] = width[n]
        for b in range(level.size):
            compare(mean, own, level[b], best, largest, second)
            for i in range(lanes):
                e, arm, least = first + i, int(best[i]), largest[i] - tolerance
                if second[i] >= least:
                    for a in range(K):
                        score[a] = mean[a, i] + level[b] * own[a, i]
                    arm = tie_winner(score, pulls, e, least, by_pulls, by_position, rng)
                pull(episodes, e, b, ZERO, arm)
                n = pulls[e, arm]
                mean[arm, i] = good[e, arm] / n
                own[arm, i] = width[n]
