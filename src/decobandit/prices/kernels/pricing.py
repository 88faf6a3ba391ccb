"""Bands of states, and passes backward through the market.

All groups are in one market. A mass counts arms: a group of 5 starts with mass 5 in state (0, 0),
and a pull splits the mass of a state over its two successors.

Per stage and row, a *band* [low, high] of states is stored: those whose index may fall on either
side of the price. Outside it the sign of index - price is settled, the same on the whole side:
`left` for g < low, `right` for g > high (1: pulled, 0: not). A band of full rows is always correct;
a narrow one saves time and memory on long horizons, and a wrong one gives valid but weaker bounds.
A state is left only by a pull, and pulled only in a band or on a pulled side: bands are cut to the
states that can be reached so (`reach_leg`).

Going backward, the price of stage t is set when all later prices are known. It is the index at
which the remembered masses (`bands.share`) spend exactly the pulls of that stage: the market
clears, given where the arms were found in the forward passes before.

A pass is made in legs of some stages (`support.legs`): `begin`, then one leg after the other.
"""

from typing import NamedTuple

import numpy as np

from ...arm.kernels.backward import alive_rows, rewarding, step_row
from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import worth
from ...support import Flags, Floats, Ints
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled


class Bands(NamedTuple):
    """Bands of all rows; row n of stage t stands at t(t+1)/2 + n."""

    low: Ints  # (G, rows) first state of the band
    high: Ints  # (G, rows) last one; empty where high < low
    left: Flags  # (G, rows) states below the band are pulled
    right: Flags  # (G, rows) states above the band are pulled
    start: Ints  # (G, rows) position of the band's first state in index and share
    index: Floats  # type: ignore[assignment]  # (states,) index of each state, written going back
    share: Floats  # (states,) mass of each state, averaged over the forward passes so far
    room: Ints  # (G,) states of a group at one stage, at most
    settled: Floats  # (G, T) mass on pulled sides, averaged likewise


class Back(NamedTuple):
    """State that a backward pass carries from one stage to the next, and its work space."""

    low: Ints  # (G, T+1) first state of a row with V != 0
    high: Ints  # (G, T+1) last one
    ramp: Floats  # (T+1,) 0, 1, 2, ...
    key: Floats  # (room,) index of each state that is collected
    weight: Floats  # (room,) its mass


class Forth(NamedTuple):
    """State and work space of a forward pass."""

    first: Ints  # (G, T+2) first state of a row with mass
    last: Ints  # (G, T+2) last one
    sides: Floats  # (G,) mass on pulled sides at this stage
    key: Floats
    weight: Floats


@compiled(inline="always")
def room_for_states(bands):
    """key, weight: room for all states that a stage may collect."""
    room = bands.room.sum()
    return np.empty(room), np.empty(room)


@compiled
def bid(arms, bands, t, V, back):
    """Write the index of all band states at stage t (V is V_{t+1}); collect those with mass.

    Returns the number collected in back.key and back.weight.
    """
    key, weight = back.key, back.weight
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
                )
                bands.index[at + g] = x
                if bands.share[at + g] > 0.0:
                    key[count] = x
                    weight[count] = bands.share[at + g]
                    count += 1
    return count


@compiled
def step(arms, t, price, V, back):
    """Take V from stage t+1 to stage t at this price."""
    touched = 0
    for k in range(arms.alpha.shape[0]):
        spread = arms.reward_good[k, t] - arms.reward_bad[k, t]
        for n in range(t + 1):
            arm = (arms.alpha[k], arms.beta[k], arms.reward_bad[k, t], spread)
            touched += step_row(*arm, price, n, V[k], back.low[k], back.high[k], back.ramp)
    return touched


@compiled
def begin(arms, bands, V):
    """V = V_T, and what a pass carries from there."""
    groups, T = arms.reward_good.shape
    low = np.empty((groups, T + 1), np.int64)
    high = np.empty((groups, T + 1), np.int64)
    for k in range(groups):
        copy(arms.terminal[k], V[k])
        alive_rows(V[k], T, low[k], high[k])
    key, weight = room_for_states(bands)
    return Back(low, high, np.arange(T + 1.0), key, weight)


@compiled
def value_leg(arms, bands, mu, V, back, start, stop):
    """From stage `start` back to `stop` at given prices; writes the index of band states, too."""
    for t in range(start - 1, stop - 1, -1):
        bid(arms, bands, t, V, back)
        step(arms, t, mu[t], V, back)


@compiled(inline="always")
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
        x = (
            worth((alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1])
            - price
        )
        if g == first:
            left = x > 0.0
        if abs(x) <= width or (x > 0.0) != left:
            a = g
            break
    for g in range(last, a - 1, -1):
        x = (
            worth((alpha + g) * inverse, bad, spread, own[g], following[g], following[g + 1])
            - price
        )
        if g == last:
            right = x > 0.0
        b = g
        if abs(x) <= width or (x > 0.0) != right:
            break
        b = g - 1
    return a, b, left, right


@compiled
def band_leg(arms, mu, width, bands, V, back, start, stop):
    """From stage `start` back to `stop`, marking per row the states within `width` of the price.

    Fills low, high, left and right of the bands.
    """
    for t in range(start - 1, stop - 1, -1):
        base = row_start(t)
        for k in range(arms.alpha.shape[0]):
            alpha, beta, bad = arms.alpha[k], arms.beta[k], arms.reward_bad[k, t]
            spread = arms.reward_good[k, t] - bad
            for n in range(t + 1):
                a, b, lower, upper = _row_band(
                    alpha, beta, bad, spread, mu[t], width, n, V[k], back.low[k], back.high[k]
                )
                bands.low[k, base + n], bands.high[k, base + n] = a, b
                bands.left[k, base + n], bands.right[k, base + n] = lower, upper
        step(arms, t, mu[t], V, back)


@compiled
def reach_leg(bands, first, last, start, stop):
    """Cut the bands of the stages from `start` to `stop`.

    first, last (G, T+2): per row the interval of reached states, taken on by one stage at a time.
    """
    for t in range(start, stop):
        base = row_start(t)
        for k in range(first.shape[0]):
            for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
                low, high = bands.low[k, base + n], bands.high[k, base + n]
                a, b = first[k, n], last[k, n]
                if b < a:
                    bands.low[k, base + n], bands.high[k, base + n] = 0, -1
                    continue
                lowest = a if bands.left[k, base + n] else max(a, low)
                highest = b if bands.right[k, base + n] else min(b, high)
                if lowest <= highest:
                    first[k, n + 1] = min(first[k, n + 1], lowest)
                    last[k, n + 1] = max(last[k, n + 1], highest + 1)
                bands.low[k, base + n] = min(max(low, a), b + 1)
                bands.high[k, base + n] = max(min(high, b), bands.low[k, base + n] - 1)
