"""Tables of finite-horizon Gittins indices, for rewards that are the same at all stages.

For one state (n, g) the index is a function of the pulls left, and nearly a smooth one: a parabola
through three values predicts the next, and the root is found from there, mostly in one step. Where
n and h are large, roots are solved at every `step`-th number of pulls left, and cubics interpolate
the rest.

Notations, besides those of the package
    a, b, h   posterior, pulls left; most: the largest h that is asked for
    index     of one state by h, in units of reward_good - reward_bad; (most + 2 of the last step,)
    steps     (parts, 2): pulls left from which on roots are every so many apart, and how many. Each
              is a multiple of the one before, and so is what lies between their beginnings
    tol       a step of the root finder so short that it is the last
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.arrays import ONE
from ...support.kernels.compiled import compiled
from .calibrated_sweep import stage_start
from .stopping import gain

MOST_STEPS = 100
LONG_STEP = 8


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
    if step >= LONG_STEP:  # a cubic: over so many pulls left, bends matter more than kinks
        return 4.0 * (index[h - step] + index[h - 3 * step]) - (
            6.0 * index[h - 2 * step] + index[h - 4 * step]
        )
    return 3.0 * (index[h - step] - index[h - 2 * step]) + index[h - 3 * step]


@compiled(inline="always")
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


@compiled(inline="always")
def index_by_left(a, b, most, steps, tol, W, index):
    """Fill `index` for h = 1..most; without steps all are roots."""
    parts = 0
    while parts < steps.shape[0] and steps[parts, 0] < most:
        parts += 1
    index[0] = a / (a + b)
    for h in range(1, (most if parts == 0 else steps[0, 0]) + 1):
        index[h] = flat_root(a, b, h, _predicted(index, h, ONE), tol, W)
    for j in range(parts):
        step, end = steps[j, 1], most + 2 * steps[j, 1]
        if j + 1 < parts:
            end = steps[j + 1, 0] + 1
        for h in range(steps[j, 0] + step, end, step):
            index[h] = flat_root(a, b, h, _predicted(index, h, step), tol, W)
    end = most
    for j in range(parts - 1, -1, -1):  # the last of a part has a neighbour in the next
        for left in range(steps[j, 0], end, steps[j, 1]):
            _between(index, left, steps[j, 1])
        end = steps[j, 0]


@compiled
def flat_row(alpha, beta, good, bad, T, n, steps, tol, table):
    """Indices of all states with n pulls, at all stages, into `table` (all stages)."""
    most = T - n
    size = most + 2 * (1 if steps.size == 0 else steps[-1, 1])
    index, W = np.empty(size), np.empty(2 * size)
    least, spread = min(good, bad), abs(good - bad)
    for g in range(n + 1):
        a, b = alpha + g, beta + n - g
        if good < bad:
            a, b = b, a
        index_by_left(a, b, most, steps, tol, W, index)
        for h in range(1, most + 1):
            table[stage_start(T - h) + row_start(n) + g] = least + spread * index[h]
