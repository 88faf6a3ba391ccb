"""Tables of finite-horizon Gittins indices, for rewards that are the same at all stages.

For one state (n, g) the index is a function of the pulls left, and nearly a smooth one: a parabola
through three values foretells the next, and the root is found from there, mostly in one step. Where
n is large, roots beyond DENSE pulls left are found `step` apart only, and cubics give the rest.

Notations, besides those of the package
    a, b, h   posterior, pulls left; most: the largest h that is asked for
    index     of one state by h, in units of reward_good - reward_bad; (most + 2 step,)
    tol       a step of the root finder so short that it is the last
"""

import numpy as np
from numba import njit

from .frontier import stage_start
from .layout import row_start
from .stopping import gain

MOST_STEPS = 100
DENSE = 128


@njit(cache=True, nogil=True)
def flat_root(a, b, h, guess, tol, W):
    """The index of a posterior with h pulls left, by Newton's steps from `guess`."""
    c = guess
    for _ in range(MOST_STEPS):
        worth, pulls = gain(a, b, h, c, W)
        c += worth / pulls
        if abs(worth) <= tol * pulls:
            break
    return c


@njit(cache=True, nogil=True)
def _foretold(index, h, step):
    """The index at h from those at h - step, h - 2 step, ..."""
    if h < 8:
        return index[h - 1]
    return 3.0 * (index[h - step] - index[h - 2 * step]) + index[h - 3 * step]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def index_by_left(a, b, most, step, tol, W, index):
    """Fill `index` for h = 1..most; step = 1 finds all roots."""
    dense = most if step == 1 else min(most, DENSE)
    index[0] = a / (a + b)
    for h in range(1, dense + 1):
        index[h] = flat_root(a, b, h, _foretold(index, h, 1), tol, W)
    if dense == most:
        return
    for h in range(DENSE + step, most + 2 * step, step):
        index[h] = flat_root(a, b, h, _foretold(index, h, step), tol, W)
    for left in range(DENSE, most, step):
        _between(index, left, step)


@njit(cache=True, nogil=True)
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
