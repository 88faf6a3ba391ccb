"""The smoothed market of one group or all: passes at given prices and a width d > 0.

    soft(z) = max over 0 <= x <= 1 of  x z - d x^2 / 2       (0, z^2 / 2d, z - d/2)
    V_t     = V_{t+1} + soft(index_t - mu_t)                 pulled part x = clip((index - mu) / d)

With soft in place of (.)^+ the dual function has a gradient: pulls less what the parts x spend. All
states are kept. Z (G, states) float32: index less price, stage t at t(t+1)(t+2)/6, its rows as in
`layout`. V, mass (G, slab) as ever; a mass below TINY stays where it is.
"""

import numpy as np

from ...problem.kernels.layout import row_start, worth
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled
from .bands import finish, fresh

TINY = 1e-15
NEWTON_STEPS = 100
AROUND = 1.0  # widths beyond which a state counts neither as pulled in part nor nearly so


@compiled
def states_before(t):
    """Return the number of states of all stages before t: where stage t begins in Z."""
    return t * (t + 1) * (t + 2) // 6


@compiled(fastmath={"contract", "nsz"})
def _soft_row(p, inverse, bad, spread, width, over, own, after_bad, after_good, ramp, distance):
    """Add soft(index - price) to `own` along a row; bad: reward_bad - price, over: 1 / width."""
    for g in range(own.shape[0]):
        z = worth(p + ramp[g] * inverse, bad, spread, own[g], after_bad[g], after_good[g])
        distance[g] = z
        x = min(max(z, 0.0), width)
        own[g] += x * (z - 0.5 * x) * over


@compiled
def soft_pass(arms, mu, width, V, Z):
    """Backward: V_0 at prices mu, and Z."""
    T = mu.shape[0]
    ramp, over = np.arange(T + 1.0), 1.0 / width
    for k in range(arms.alpha.shape[0]):
        copy(arms.terminal[k], V[k])
        for t in range(T - 1, -1, -1):
            bad = arms.reward_bad[k, t]
            spread = arms.reward_good[k, t] - bad
            here = Z[k, states_before(t) :]
            for n in range(t + 1):
                r = row_start(n)
                inverse = 1.0 / (arms.alpha[k] + arms.beta[k] + n)
                following = V[k, r + n + 1 : r + 2 * n + 3]
                after = (following[: n + 1], following[1:])
                arm = (arms.alpha[k] * inverse, inverse, bad - mu[t], spread, width, over)
                _soft_row(*arm, V[k, r : r + n + 1], *after, ramp, here[r:])


@compiled(inline="always")
def _move_row(p, inverse, shift, width, factor, distance, own, following):
    """Pull the parts of one row.

    Returns mass pulled, good outcomes, sum of mass times x^2, and mass pulled in part or nearly so.
    """
    pulled, good, squares, loose = 0.0, 0.0, 0.0, 0.0
    for g in range(own.shape[0]):
        z = distance[g] - shift
        if abs(z - 0.5 * width) < (0.5 + AROUND) * width:
            loose += own[g]
        if z > 0.0 and own[g] > TINY:
            part = 1.0 if z >= width else min(1.0, factor * z / width)
            x = own[g] * part
            y = x * (p + g * inverse)
            own[g] -= x
            following[g] += x - y
            following[g + 1] += y
            pulled += x
            good += y
            squares += x * part
    return pulled, good, squares, loose


@compiled(inline="always")
def _trimmed(own, first, last):
    """Return the interval of a row without the tiny masses at its ends."""
    while first <= last and own[first] <= TINY:
        first += 1
    while last >= first and own[last] <= TINY:
        last -= 1
    return first, last


@compiled
def _move(arms, t, shift, width, factor, Z, mass, first, last, reward, spent, loose):
    """One stage, prices raised by `shift`; `factor` on parts below 1. Returns sum of mass x^2."""
    squares = 0.0
    for k in range(mass.shape[0]):
        bad = arms.reward_bad[k, t]
        spread = arms.reward_good[k, t] - bad
        here = Z[k, states_before(t) :]
        for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
            r, inverse = row_start(n), 1.0 / (arms.alpha[k] + arms.beta[k] + n)
            a, b = _trimmed(mass[k, r:], first[k, n], last[k, n])
            first[k, n], last[k, n] = a, b
            if b < a:
                continue
            p, distance = (arms.alpha[k] + a) * inverse, here[r + a : r + b + 1]
            own, following = mass[k, r + a : r + b + 1], mass[k, r + n + 1 + a : r + n + b + 3]
            pulled, good, more, some = _move_row(
                p, inverse, shift, width, factor, distance, own, following
            )
            loose[k, t] += some
            if pulled > 0.0:
                reward[k] += pulled * bad + good * spread
                spent[k, t] += pulled
                squares += more
                first[k, n + 1] = min(first[k, n + 1], a)
                last[k, n + 1] = max(last[k, n + 1], b + 1)
    return squares


@compiled
def soft_flow(arms, width, Z, mass, reward, spent, loose):
    """Forward at the prices of Z: fills reward (G,), spent (G, T), and loose (G, T).

    Loose is the mass that is pulled in part, or would be at prices somewhat different.
    """
    first, last = fresh(arms, mass, reward)
    spent[:] = 0.0
    loose[:] = 0.0
    for t in range(spent.shape[1]):
        _move(arms, t, 0.0, width, 1.0, Z, mass, first, last, reward, spent, loose)
    finish(arms, mass, reward)


@compiled(inline="always")
def _offered(t, Z, mass, first, last, key, weight):
    """Collect the states with mass: index less price, and mass. Returns their number."""
    count = 0
    for k in range(mass.shape[0]):
        here = Z[k, states_before(t) :]
        for n in range(t + 1):
            r = row_start(n)
            for g in range(first[k, n], last[k, n] + 1):
                if mass[k, r + g] > TINY:
                    key[count], weight[count] = here[r + g], mass[k, r + g]
                    count += 1
    return count


@compiled(inline="always")
def clearing_shift(key, weight, width, target):
    """(shift, factor) of a stage: sum of weight times clip((key - shift) / width) is the target.

    Newton's method on a piecewise linear function, within a bracket. The factor, on the parts below
    1, makes up for rounding.
    """
    low, high = key.min() - 2.0 * width, key.max()  # all are pulled, none is
    shift = 0.0 if low < 0.0 < high else low
    full, partial = 0.0, 0.0
    for _ in range(NEWTON_STEPS):
        full, partial, slope = 0.0, 0.0, 0.0
        for i in range(key.shape[0]):
            z = key[i] - shift
            if z >= width:
                full += weight[i]
            elif z > 0.0:
                partial += weight[i] * (z / width)
                slope += weight[i] / width
        miss = full + partial - target
        if abs(miss) <= 1e-11 * partial or high - low <= 1e-14 * width:
            break
        if miss > 0.0:
            low = shift
        else:
            high = shift
        shift = shift + miss / slope if slope > 0.0 else low
        if not low < shift < high:
            shift = 0.5 * (low + high)
    return shift, min(max((target - full) / partial, 0.0), 2.0) if partial > 0.0 else 1.0


@compiled
def soft_clearing(arms, pulls, width, Z, mass, reward, spent):
    """Forward, each stage's price shifted so that exactly its pulls are spent.

    Fills reward (G,) and spent (G, T). Returns what smoothing charges: d/2 sum of mass times x^2.
    """
    groups, T = arms.reward_good.shape
    first, last = fresh(arms, mass, reward)
    spent[:] = 0.0
    loose = np.zeros((groups, T))
    key, weight = np.empty(groups * row_start(T + 1)), np.empty(groups * row_start(T + 1))
    squares = 0.0
    for t in range(T):
        count = _offered(t, Z, mass, first, last, key, weight)
        shift, factor = clearing_shift(key[:count], weight[:count], width, pulls[t])
        squares += _move(arms, t, shift, width, factor, Z, mass, first, last, reward, spent, loose)
    finish(arms, mass, reward)
    return 0.5 * width * squares
