"""The calibrated index: the surcharge at which an arm is indifferent between a pull and none.

Prices are base_s + c weight_s for s >= t. The advantage of a pull at stage t in state (n, g),

    A(c) = index_t[base + c weight](n, g) - (base_t + c weight_t),

falls from positive to negative as c grows; the calibrated index is where it crosses zero (the
largest such c, should there be several: with a deployment there are, in one state of five). Values
of a pull and of waiting are both convex in c. Between two surcharges the first is below its chord
and the second above its neighbouring secants, which tells where the sign may still change
(`may_rise`). base = 0 and weight = 1 give the finite-horizon Gittins
index. One backward sweep at a surcharge serves all states of all stages at once (tables); a single
state needs only the states that can still be reached from it (`advantage`).

Notations, besides those of the package
    base, weight (T,)   price path and what the surcharge is multiplied with
    c                   surcharge
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.arrays import ONE, ZERO, copy
from ...support.kernels.compiled import compiled
from .backward import sweep
from .indices import index_terms

MOST_STEPS = 200
NOISE = 0.1  # an advantage below this part of the accuracy asked for is none: waiting is as good


@compiled
def advantage(alpha, beta, good, bad, base, weight, terminal, c, tol, V):
    """A(c) at the first of the stages given, for an arm in state (0, 0) of a prior (alpha, beta).

    A state further on is a fresh arm with a better known prior: pass alpha + g, beta + n - g, and
    the arrays from stage t on. terminal: V after the last stage; V: work space, a slab.
    """
    T = good.shape[0]
    copy(terminal, V)
    prices = base + c * weight
    sweep(alpha, beta, good, bad, prices, V, T, ONE)
    ell, delta = index_terms(alpha, beta, good[0], bad[0], ZERO, ZERO, V)
    return ell + delta - prices[0] - NOISE * tol


@compiled
def root(alpha, beta, good, bad, base, weight, terminal, low, high, tol, V):
    """The crossing of A in [low, high], where A(low) > 0 >= A(high), to within tol.

    The Illinois rule: the secant step, with the value at an end that stays put halved; bisection
    where three steps have not halved the bracket.
    """
    at_low = advantage(alpha, beta, good, bad, base, weight, terminal, low, tol, V)
    at_high = advantage(alpha, beta, good, bad, base, weight, terminal, high, tol, V)
    side, width = 0, high - low
    for step in range(MOST_STEPS):
        if high - low <= tol or at_high == 0.0:
            break
        middle = low + (high - low) * (at_low / (at_low - at_high))
        if step % 3 == 2:
            if high - low > 0.5 * width:
                middle = 0.5 * (low + high)
            width = high - low
        if not low < middle < high:
            break
        value = advantage(alpha, beta, good, bad, base, weight, terminal, middle, tol, V)
        if value > 0.0:
            at_high *= 0.5 if side == 1 else 1.0
            low, at_low, side = middle, value, 1
        else:
            at_low *= 0.5 if side == -1 else 1.0
            high, at_high, side = middle, value, -1
    return low + (high - low) * (at_low / (at_low - at_high)) if at_high < 0.0 else high


@compiled(inline="always")
def bracketed_root(alpha, beta, good, bad, base, weight, terminal, guess, step, tol, V):
    """The crossing of A near `guess`: the bracket grows by doubling steps from there."""
    low = high = guess
    at = advantage(alpha, beta, good, bad, base, weight, terminal, guess, tol, V)
    for _ in range(MOST_STEPS):
        if at > 0.0:
            low, high = high, high + step
            at = advantage(alpha, beta, good, bad, base, weight, terminal, high, tol, V)
            if at <= 0.0:
                break
        else:
            high, low = low, low - step
            at = advantage(alpha, beta, good, bad, base, weight, terminal, low, tol, V)
            if at > 0.0:
                break
        step *= 2.0
    return root(alpha, beta, good, bad, base, weight, terminal, low, high, tol, V)


@compiled(inline="always")
def may_rise(width, gain, wait, slope):
    """Whether the advantage may be positive inside an interval at whose ends it is not.

    gain, wait: advantage and value of waiting at both ends; slope: of the secants of the value of
    waiting before and after the interval.
    """
    x = 0.5 * width  # where the two secants meet, and the value of waiting may be lowest
    if slope[1] > slope[0]:
        x = (wait[0] - wait[1] + slope[1] * width) / (slope[1] - slope[0])
        x = min(max(x, 0.0), width)
    lowest = max(wait[0] + slope[0] * x, wait[1] + slope[1] * (x - width))
    first, last = gain[0] + wait[0], gain[1] + wait[1]
    return first + (last - first) * x / width > lowest


@compiled(inline="always")
def last_crossing(alpha, beta, good, bad, base, weight, terminal, whole, least, tol, V):
    """The largest crossing in an interval, or nan; `whole`: its ends, gains, waits and slopes.

    Halved down to `least`, the upper half first, where the sign may have changed.
    """
    stack = np.empty((MOST_STEPS, 8))
    stack[0] = whole
    size = 1
    while size > 0:
        size -= 1
        low, high, g0, g1, w0, w1, s0, s1 = stack[size]
        if g0 <= 0.0 and not may_rise(high - low, (g0, g1), (w0, w1), (s0, s1)):
            continue
        if high - low <= least:
            if g0 > 0.0:
                return root(alpha, beta, good, bad, base, weight, terminal, low, high, tol, V)
            continue
        half = 0.5 * (high - low)
        gain = advantage(alpha, beta, good, bad, base, weight, terminal, low + half, tol, V)
        wait = V[0]
        stack[size] = (low, low + half, g0, gain, w0, wait, s0, (w1 - wait) / half)
        stack[size + 1] = (low + half, high, gain, g1, wait, w1, (wait - w0) / half, s1)
        size += 2
    return np.nan


@compiled
def largest_root(alpha, beta, good, bad, base, weight, terminal, grid, least, tol, V):
    """The largest crossing of A over a rising grid, where intervals are halved down to `least`.

    A is positive at the first surcharge of the grid and not at the last, after which the value of
    waiting is constant.
    """
    M = grid.size
    gains, waits = np.empty(M), np.empty(M)
    ready = M
    for i in range(M - 2, -1, -1):
        for j in range(max(i - 1, 0), ready):
            gains[j] = advantage(alpha, beta, good, bad, base, weight, terminal, grid[j], tol, V)
            waits[j] = V[0]
        ready = min(ready, max(i - 1, 0))
        before, after = -np.inf, 0.0
        if i > 0:
            before = (waits[i] - waits[i - 1]) / (grid[i] - grid[i - 1])
        if i + 2 < M:
            after = (waits[i + 2] - waits[i + 1]) / (grid[i + 2] - grid[i + 1])
        whole = (
            grid[i], grid[i + 1], gains[i], gains[i + 1], waits[i], waits[i + 1], before, after,
        )  # fmt: skip
        found = last_crossing(
            alpha, beta, good, bad, base, weight, terminal, whole, least, tol, V
        )  # fmt: skip
        if not np.isnan(found):
            return found
    return grid[0]


@compiled
def stage_largest_roots(alpha, beta, good, bad, base, weight, terminal, t, grid, least, tol, out):
    """`largest_root` of every state of stage t; out (slab of t)."""
    pulls = good.shape[0] - t
    V, final = rooms(pulls)
    for i, (n, g) in enumerate(states_of(t)):
        terminal_from(terminal, n, g, pulls, final)
        out[i] = largest_root(
            alpha + g, beta + n - g, good[t:], bad[t:], base[t:], weight[t:], final, grid, least,
            tol, V,
        )  # fmt: skip


@compiled(inline="always")
def rooms(pulls):
    """Work space for the values of the states within `pulls` pulls, and their terminal rewards."""
    size = row_start(pulls + 1)
    return np.empty(size), np.zeros(size)


@compiled(inline="always")
def states_of(t):
    """Pulls and good outcomes of every state of stage t, in the order of a slab."""
    return [(n, g) for n in range(t + 1) for g in range(n + 1)]


@compiled
def terminal_from(terminal, n, g, pulls, part):
    """part: the terminal rewards of the states within `pulls` pulls of (n, g), as a slab."""
    for i in range(pulls + 1):
        for j in range(i + 1):
            part[row_start(i) + j] = terminal[row_start(n + i) + g + j]


@compiled
def stage_roots(alpha, beta, good, bad, base, weight, terminal, t, guess, step, tol, out):
    """Calibrated index of every state of stage t, exactly; guess, out (slab of t)."""
    pulls = good.shape[0] - t
    V, final = rooms(pulls)
    for i, (n, g) in enumerate(states_of(t)):
        terminal_from(terminal, n, g, pulls, final)
        out[i] = bracketed_root(
            alpha + g, beta + n - g, good[t:], bad[t:], base[t:], weight[t:], final, guess[i],
            step, tol, V,
        )  # fmt: skip
