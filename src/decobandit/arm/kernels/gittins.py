"""Gittins indices of an arm with good and bad outcomes, the same rewards at all stages.

*Finite horizon.* If every pull has the same price, an arm that stops has no reason to restart, so
the stage drops out: the advantage of a pull depends on the posterior Beta(a, b) and the pulls h
that are left. In units of reward_good - reward_bad,

    A(c) = max over stopping times 1 <= tau <= h of E[sum of p - c over the pulls before tau].

A is convex and piecewise linear in c with slope -E[tau]: Newton's method reaches its root, the
index, in finitely many steps. After k more pulls, i of them good, p = (a + i) / (a + b + k).
Stopping there saves

    W(k, i) = V(k, i) - (h - k)(p - c) = (h - k)(c - p)   in a stopped state,
                                         the mean of W over both outcomes in any other.

Two things make a pass over the rows k fast. *The edge*: stopped are the states i < edge of a row,
and from row k + 1 to row k the edge falls by 0 or 1. *The coin*: multiplied with the likelihood of
its outcomes relative to that under a coin of bias c, W becomes a mean with weights c and 1 - c in
all states. Far above the edge W is negligible, and rows are cut there.

*Tables.* For one state the index is a nearly smooth function of h: a parabola through three values
predicts the next, and the root is mostly found from there in one step. Where n and h are large,
roots are solved at every `step`-th h, and cubics interpolate the rest.

*Knots*, for horizons at which tables do not fit: the excess of the index over the mean in
posterior standard deviations, Z(a, b, h) = (index - p) / sd, sd = sqrt(p (1 - p) / (a + b + 1)), is
nearly smooth in log a, log b and log h; cubics between few knots follow it.

*Discounted for ever*, all states at once:

    V(s; c) = max( c / (1 - d),  p_s + d E[V(s'; c)] )        the index of s makes both terms equal

The second term less the first falls in c. It is followed over a grid of charges, all states in one
backward pass each; between two charges it is taken as a line. A state whose mean is many posterior
standard deviations from c is not followed: it pulls for ever, or never.

Notations, besides those of the package
    a, b, h    posterior, pulls left; most: the largest h (discounted: n) that is needed
    W          (W, dW/dc) of the states of one row, multiplied so, at positions 2i and 2i + 1
    likely     that likelihood at the highest stopped state, up to a factor that cancels
    top        W is zero from here on
    index      of one state by h, in units of reward_good - reward_bad; (most + 2 of the last step,)
    steps      (parts, 2): h from which on roots are `step` apart, and the step. Each is a multiple
               of the one before, and so is what lies between their beginnings
    tol        a step of the root finder so short that it is the last
    Z (I, J)   excess at the knots a (I,), b (J,), for one h
    start, weight   (counts,), (counts, 4): the first of four knots, and their Lagrange weights
    charges    (C,) ascending, from below all discounted indices to above them
"""

import math

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.arrays import ONE
from ...support.kernels.compiled import compiled
from .calibrated import stage_start

NEGLIGIBLE = 1e-13  # W below this is taken for zero
MAX_STEPS = 100
LONG_STEP = 8
MAX_DEVIATIONS, SKEW = 7.0, 25.0  # distance of followed means: 1e-9 by Bernstein's inequality


@compiled(fastmath={"contract"})
def _mean(row, c):
    """Take the mean over both outcomes; row: W of a run of states and of the one behind them.

    A slice, not the bounds of one: positions that count from 0 let the compiler use vectors.
    """
    stay = 1.0 - c
    for i in range(row.shape[0] - 2):
        row[i] = stay * row[i] + c * row[i + 2]


@compiled(inline="always")
def _row_back(a, b, h, c, k, edge, likely, top, W):
    """From row k + 1 to row k. Returns the new edge and `likely`."""
    pulls, stay = a + b + k, 1.0 - c
    if edge == 0:
        _mean(W[: 2 * top + 2], c)
        return 0, likely * stay * pulls / (b + k)
    i = edge - 1
    bads = b + k - i
    likely *= stay * pulls / bads
    stopped = likely * (h - k) * (c - (a + i) / pulls)
    if stay * W[2 * i] + c * W[2 * edge] <= stopped:
        _mean(W[2 * edge : 2 * top + 2], c)
    else:
        _mean(W[2 * i : 2 * top + 2], c)
        if i == 0:
            return 0, likely
        edge = i
        likely *= c * bads / (stay * (a + i - 1.0))
        stopped = likely * (h - k) * (c - (a + i - 1.0) / pulls)
    W[2 * edge - 2], W[2 * edge - 1] = stopped, likely * (h - k)
    return edge, likely


@compiled(inline="always")
def gain(a, b, h, c, W):
    """A(c) and E[tau]; W: work space, 2 h + 2."""
    p, k = a / (a + b), h - 1
    edge = int(math.floor(c * (a + b + k) - a)) + 1
    if edge > k:
        return p - c, 1.0
    if edge <= 0:
        return h * (p - c), float(h)
    top, likely = edge, 1.0
    W[2 * edge - 2], W[2 * edge - 1] = c - (a + edge - 1.0) / (a + b + k), 1.0
    W[2 * top] = W[2 * top + 1] = 0.0
    while k > 1 and edge <= k:
        k -= 1
        edge, likely = _row_back(a, b, h, c, k, edge, likely, top, W)
        # cutting one state per row is enough: the edge falls no faster
        if top > edge + 1 and (top > k + 1 or W[2 * top - 2] < NEGLIGIBLE):
            top -= 1
            W[2 * top] = W[2 * top + 1] = 0.0
    if edge > k:
        return p - c, 1.0
    likely *= (1.0 - c) * (a + b) / b
    saved = ((1.0 - c) * W[0] + c * W[2]) / likely
    return saved - h * (c - p), h - ((1.0 - c) * W[1] + c * W[3]) / likely


@compiled
def flat_root(a, b, h, guess, tol, W):
    """Return the index of a posterior with h pulls left, by Newton's method from `guess`."""
    c = guess
    for _ in range(MAX_STEPS):
        worth, pulls = gain(a, b, h, c, W)
        c += worth / pulls
        if abs(worth) <= tol * pulls:
            break
    return c


@compiled
def flat_index(a, b, good, bad, h, tol):
    """Return the index of one posterior with h pulls left, in the unit of the rewards."""
    W = np.empty(2 * h + 2)
    if good < bad:
        a, b = b, a
    # from below, where the steps of a convex function cannot overshoot
    return min(good, bad) + abs(good - bad) * flat_root(a, b, h, a / (a + b), tol, W)


@compiled
def _predicted(index, h, step):
    """Predict the index at h from those at h - step, h - 2 step, ..."""
    if h < 8:
        return index[h - 1]
    if step >= LONG_STEP:  # a cubic: with many pulls left, bends matter more than kinks
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
    """Fill `table` with the indices of all states with n pulls, at all stages."""
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


@compiled(inline="always")
def _sd(a, b):
    return math.sqrt(a * b / (a + b + 1.0)) / (a + b)


@compiled
def knot_excess(a, b, left, reach, tol, Z):
    """Fill Z (pulls left, J) of one a, pulls left rising: each root is the next one's first guess.

    Knots with a + b above `reach` (pulls left,) are not needed and stay as they are.
    """
    W = np.empty(2 * left[-1] + 2)
    for j in range(b.size):
        p, sd = a / (a + b[j]), _sd(a, b[j])
        guess = p
        for k in range(left.size):
            if a + b[j] <= reach[k]:
                guess = flat_root(a, b[j], left[k], guess, tol, W)
                Z[k, j] = (guess - p) / sd


@compiled
def knot_index(a, b, x, weight_a, y, weight_b, Z):
    """Return the index of one posterior, from the 4 x 4 knots that begin at x, y."""
    total = 0.0
    for i in range(4):
        for j in range(4):
            total += weight_a[i] * weight_b[j] * Z[x + i, y + j]
    return a / (a + b) + total * _sd(a, b)


@compiled
def knot_indices(alpha, beta, start_a, weight_a, start_b, weight_b, Z, counts_a, counts_b, out):
    """Index at these counts of good and bad outcomes; counts, out (states,)."""
    for i in range(out.size):
        g, m = counts_a[i], counts_b[i]
        out[i] = knot_index(
            alpha + g, beta + m, start_a[g], weight_a[g], start_b[m], weight_b[m], Z
        )


@compiled
def knot_slab(alpha, beta, start_a, weight_a, start_b, weight_b, Z, t, out):
    """Index of every state with at most t pulls; out (slab of t)."""
    for n in range(t + 1):
        for g in range(n + 1):
            m = n - g
            out[row_start(n) + g] = knot_index(
                alpha + g, beta + m, start_a[g], weight_a[g], start_b[m], weight_b[m], Z
            )


@compiled(inline="always")
def _edge(a, b, n, c, side):
    """Return the first (side -1) or last (side 1) g that is followed at n pulls."""
    m = a + b + n
    far = MAX_DEVIATIONS * np.sqrt(c * (1.0 - c) / m) + SKEW / m
    return min(max(int((c + side * far) * m - a), 0), n)


@compiled
def discounted_indices(a, b, d, most, depth, charges, table):
    """Fill `table` with indices, one charge at a time."""
    last = most + depth
    before, V = np.ones((most + 1) * (most + 2) // 2), np.empty(last + 2)
    for i in range(charges.shape[0]):
        c = charges[i]
        retired = c / (1.0 - d)
        low, high = _edge(a, b, last, c, -1.0), _edge(a, b, last, c, 1.0)
        for g in range(low, high + 1):
            V[g] = max((a + g) / (a + b + last), c) / (1.0 - d)
        for n in range(last - 1, -1, -1):
            lower, higher = _edge(a, b, n, c, -1.0), _edge(a, b, n, c, 1.0)
            V[lower:low] = retired
            for g in range(high + 1, higher + 2):
                V[g] = (a + g) / (a + b + n + 1) / (1.0 - d)
            start, low, high = n * (n + 1) // 2, lower, higher
            for g in range(low, high + 1):
                p = (a + g) / (a + b + n)
                more = p + d * (p * V[g + 1] + (1.0 - p) * V[g]) - retired
                V[g] = retired + max(more, 0.0)
                if n <= most:
                    if before[start + g] > 0.0 and more <= 0.0:
                        share = before[start + g] / (before[start + g] - more)
                        table[start + g] = charges[i - 1] + share * (c - charges[i - 1])
                    before[start + g] = more
