"""The calibrated index: the surcharge at which an arm is indifferent between a pull and none.

Prices are base_s + c weight_s for s >= t. The advantage of a pull at stage t in state (n, g),

    A(c) = index_t[base + c weight](n, g) - (base_t + c weight_t),

falls from positive to negative as c grows; the calibrated index is where it crosses zero (the
largest such c, should there be several: with a deployment there are, in one state of five;
`row_indices` looks for it). base = 0 and weight = 1 give the finite-horizon Gittins index. One
backward sweep at a surcharge serves all states of all stages at once (tables); a single state needs
only the states that can still be reached from it (`advantage`).

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
NOISE = 0.1  # part of the accuracy asked for: a pull that is worse by less is as good as none


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
    return ell + delta - prices[0] + NOISE * tol


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
            alpha + g,
            beta + n - g,
            good[t:],
            bad[t:],
            base[t:],
            weight[t:],
            final,
            guess[i],
            step,
            tol,
            V,
        )
