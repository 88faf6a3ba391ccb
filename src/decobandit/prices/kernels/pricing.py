"""Backward through the market: values at given prices, or at prices that clear it.

Going backward, the price of stage t is set when all later prices are known. It is the index at
which the remembered masses (`bands.share`) spend exactly the pulls of that stage: the market
clears, given where the arms were found in the forward passes before.
"""

import numpy as np

from ...arm.kernels.backward import alive_rows, rewarding, step_row
from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import worth
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled


@compiled
def room_for_states(arms):
    """key, weight: room for all states that a stage may collect."""
    groups, T = arms.reward_good.shape
    return np.empty(groups * row_start(T + 1)), np.empty(groups * row_start(T + 1))


@compiled
def bid(arms, bands, t, V, key, weight):
    """Write the index of all band states at stage t (V is V_{t+1}); collect those with mass.

    Returns the number collected in key and weight.
    """
    count = 0
    base = row_start(t)
    for k in range(arms.alpha.shape[0]):
        alpha, beta = arms.alpha[k], arms.beta[k]
        bad = arms.reward_bad[k, t]
        spread = arms.reward_good[k, t] - bad
        for n in range(t + 1):
            first, last = bands.low[k, base + n], bands.high[k, base + n]
            if last < first:
                continue
            inverse = 1.0 / (alpha + beta + n)
            own = V[k, row_start(n) :]
            following = V[k, row_start(n + 1) :]
            at = bands.start[k, base + n] - first
            for g in range(first, last + 1):
                x = worth(
                    (alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1]
                )  # fmt: skip
                bands.index[at + g] = x
                if bands.share[at + g] > 0.0:
                    key[count] = x
                    weight[count] = bands.share[at + g]
                    count += 1
    return count


@compiled
def step(arms, t, price, V, low, high, ramp):
    """Take V from stage t+1 to stage t at this price; low, high (G, T+1): states with V != 0."""
    touched = 0
    for k in range(arms.alpha.shape[0]):
        spread = arms.reward_good[k, t] - arms.reward_bad[k, t]
        for n in range(t + 1):
            touched += step_row(
                arms.alpha[k], arms.beta[k], arms.reward_bad[k, t], spread, price, n,
                V[k], low[k], high[k], ramp,
            )  # fmt: skip
    return touched


@compiled
def begin(arms, V):
    """V = V_T. Returns what `step` needs: low, high, ramp."""
    groups, T = arms.reward_good.shape
    low = np.empty((groups, T + 1), np.int64)
    high = np.empty((groups, T + 1), np.int64)
    for k in range(groups):
        copy(arms.terminal[k], V[k])
        alive_rows(V[k], T, low[k], high[k])
    return low, high, np.arange(T + 1.0)


@compiled
def value_pass(arms, bands, mu, V):
    """Backward at given prices; also writes the index of the band states."""
    low, high, ramp = begin(arms, V)
    key, weight = room_for_states(arms)
    for t in range(mu.shape[0] - 1, -1, -1):
        bid(arms, bands, t, V, key, weight)
        step(arms, t, mu[t], V, low, high, ramp)


@compiled
def _row_band(alpha, beta, bad, spread, price, width, n, V, low, high):
    """(low, high, left, right) of one row: the hull of the states within `width` of the price.

    low, high (T+1,): states with V != 0. Any change of sign lies in the hull or at its empty place.
    """
    own = V[row_start(n) :]
    following = V[row_start(n + 1) :]
    first, last = 0, n
    if spread > 0.0 and low[n] > 0:
        # below all live states the index is ell: nothing there is within reach of the price
        reach, _ = rewarding(alpha, alpha + beta + n, bad, spread, price - width, n)
        first = max(0, min(low[n], low[n + 1] - 1, reach if reach <= n else n) - 1)
    inverse = 1.0 / (alpha + beta + n)
    left = right = False
    a, b = n + 1, n
    for g in range(first, n + 1):
        x = worth(
            (alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1]
        ) - price  # fmt: skip
        if g == first:
            left = x > 0.0
        if abs(x) <= width or (x > 0.0) != left:
            a = g
            break
    for g in range(last, a - 1, -1):
        x = worth(
            (alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1]
        ) - price  # fmt: skip
        if g == last:
            right = x > 0.0
        b = g
        if abs(x) <= width or (x > 0.0) != right:
            break
        b = g - 1
    return a, b, left, right


@compiled
def band_pass(arms, mu, width, band_low, band_high, left, right, V):
    """Backward at given prices, marking per row the band of states within `width` of the price."""
    groups, T = arms.reward_good.shape
    low, high, ramp = begin(arms, V)
    for t in range(T - 1, -1, -1):
        base = row_start(t)
        for k in range(groups):
            bad = arms.reward_bad[k, t]
            spread = arms.reward_good[k, t] - bad
            for n in range(t + 1):
                a, b, lower, upper = _row_band(
                    arms.alpha[k], arms.beta[k], bad, spread, mu[t], width, n,
                    V[k], low[k], high[k],
                )  # fmt: skip
                band_low[k, base + n], band_high[k, base + n] = a, b
                left[k, base + n], right[k, base + n] = lower, upper
        step(arms, t, mu[t], V, low, high, ramp)
