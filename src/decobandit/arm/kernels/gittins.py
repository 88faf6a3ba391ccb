"""Tables of finite-horizon Gittins indices, for rewards that are the same at all stages.

For one state (n, g) the index is a function of the pulls left, and nearly a smooth one: a parabola
through three values predicts the next, and the root is found from there, mostly in one step. Where
n is large, roots beyond ALL_PULLS_LEFT pulls left are solved at every `step`-th number of pulls
left, and cubics interpolate the rest.

Notations, besides those of the package
    a, b, h   posterior, pulls left; most: the largest h that is asked for
    index     of one state by h, in units of reward_good - reward_bad; (most + 2 step,)
    tol       a step of the root finder so short that it is the last
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .calibrated_sweep import stage_start
from .stopping import gain

MOST_STEPS = 100
ALL_PULLS_LEFT = 128


@compiled
def flat_root(a, b, h, guess, tol, W):
    """The index of a posterior with h pulls left, by Newton's steps from `guess`."""
    c = guess
    for _ in range(MOST_STEPS):
        worth, pulls = gain(a, b, h, c, W)
        c += worth / pulls
        if abs(worth) <= tol * pulls:
            break
    return c


@compiled
def flat_index(a, b, good, bad, h, tol):
    """The index of one posterior with h pulls left, in the unit of the rewards."""
    W = np.empty(2 * h + 2)
    if good < bad:
        a, b = b, a
    # from below, where the steps of a convex function cannot overshoot
    return min(good, bad) + abs(good - bad) * flat_root(a, b, h, a / (a + b), tol, W)


@compiled
def _predicted(index, h, step):
    """The index at h from those at h - step, h - 2 step, ..."""
    if h < 8:
        return index[h - 1]
    return 3.0 * (index[h - step] - index[h - 2 * step]) + index[h - 3 * step]


@compiled
def _between(index, left, step):
    """Fill index between left and left + step, from these two and their neighbours."""
    right = left + step
    outer_left, outer_right = index[left - step], index[right + step]
    for h in range(left + 1, right):
        x = (h - left) / step
        y = 1.0 - x
        line = y * index[left] + x * index[right]
        bend_left = index[left] - 0.5 * (outer_left + index[right])
        bend_right = index[right] - 0.5 * (index[left] + outer_right)
        index[h] = line + x * y * ((1.0 + y) * bend_left + (1.0 + x) * bend_right) / 3.0


@compiled
def index_by_left(a, b, most, step, tol, W, index):
    """Fill `index` for h = 1..most; step = 1 finds all roots."""
    dense = most if step == 1 else min(most, ALL_PULLS_LEFT)
    index[0] = a / (a + b)
    for h in range(1, dense + 1):
        index[h] = flat_root(a, b, h, _predicted(index, h, 1), tol, W)
    if dense == most:
        return
    for h in range(ALL_PULLS_LEFT + step, most + 2 * step, step):
        index[h] = flat_root(a, b, h, _predicted(index, h, step), tol, W)
    for left in range(ALL_PULLS_LEFT, most, step):
        _between(index, left, step)


@compiled
def flat_row(alpha, beta, good, bad, T, n, step, tol, table):
    """Indices of all states with n pulls, at all stages, into `table` (all stages)."""
    most = T - n
    index, W = np.empty(most + 2 * step), np.empty(2 * (most + 2 * step))
    least, spread = min(good, bad), abs(good - bad)
    for g in range(n + 1):
        a, b = alpha + g, beta + n - g
        if good < bad:
            a, b = b, a
        index_by_left(a, b, most, step, tol, W, index)
        for h in range(1, most + 1):
            table[stage_start(T - h) + row_start(n) + g] = least + spread * index[h]
