"""One arm that is pulled in units, at given prices, backward and forward in time.

    W_0(s) = V_{t+1}(s)                     W_a(s) = E[W_{a-1}(s after one unit)]
    Q_t(s; a) = a u ell_t(s) + W_a(s)       V_t(s) = max_{0 <= a <= A} Q_t(s; a) - a mu_t

ell_t is a martingale, so that a units of u pulls earn a u ell_t. With I_1 >= .. >= I_A the slopes
of the concave hull of Q_t(s; .), V_t(s) = V_{t+1}(s) + sum_a (I_a(s) - mu_t)^+: the a-th unit has
an index, as a single pull has.

States stand in rows: row i has those after i units, at start[i] .. start[i+1] - 1, in order of
their good outcomes. The states of stage t are the rows 0 .. units * t. Where every number of good
outcomes is a state, weights[j, s] is the probability that one unit takes state number k of a row to
number k + j of the next, and reach (states + 1, 2) is empty. On a grid of states (`batch_grids.py`)
it takes s to the numbers reach[s, 0] + j of the next row, with weights[0, reach[s, 1] + j],
reach[s, 1] + j < reach[s + 1, 1].
"""

import math

import numpy as np

from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled

FAST = {"contract", "nsz"}


@compiled
def beta_binomial(a, b, pulls, chance):
    """chance[x], x = 0 .. pulls: of x good outcomes where the success probability is Beta(a, b).

    Relative to a likely x, upwards and downwards, then divided by the sum: nothing overflows.
    """
    middle = int(round(pulls * a / (a + b)))
    chance[middle] = 1.0
    for x in range(middle, pulls):
        chance[x + 1] = chance[x] * ((pulls - x) / (x + 1.0)) * ((a + x) / (b + (pulls - x - 1)))
    for x in range(middle, 0, -1):
        chance[x - 1] = chance[x] * (x / (pulls - x + 1.0)) * ((b + (pulls - x)) / (a + (x - 1)))
    total = 0.0
    for x in range(pulls + 1):
        total += chance[x]
    for x in range(pulls + 1):
        chance[x] /= total


@compiled
def unit_weights(alpha, beta, unit, rows, start, weights):
    """Fill weights (unit + 1, states) where every number of good outcomes is a state."""
    chance = np.empty(unit + 1)
    for i in range(rows):
        n = i * unit
        for good in range(n + 1):
            beta_binomial(alpha + good, beta + n - good, unit, chance)
            for x in range(unit + 1):
                weights[x, start[i] + good] = chance[x]


@compiled(fastmath=FAST)
def unit_back(weights, reach, low, size, after, before):
    """before (size,) = E[after] one unit later, for the states low .. low + size - 1."""
    if reach.shape[0] == 0:
        for k in range(size):
            before[k] = weights[0, low + k] * after[k]
        for j in range(1, weights.shape[0]):
            chance = weights[j, low : low + size]
            for k in range(size):
                before[k] += chance[k] * after[k + j]
    else:
        for k in range(size):
            begin, end = reach[low + k, 1], reach[low + k + 1, 1]
            chance, found = weights[0, begin:end], after[reach[low + k, 0] :]
            total = 0.0
            for j in range(end - begin):
                total += chance[j] * found[j]
            before[k] = total


@compiled(fastmath=FAST)
def unit_ahead(weights, reach, low, size, mass, after):
    """after += the masses (size,) of the states low .. low + size - 1, one unit later."""
    if reach.shape[0] == 0:
        for j in range(weights.shape[0]):
            chance = weights[j, low : low + size]
            for k in range(size):
                after[k + j] += chance[k] * mass[k]
    else:
        for k in range(size):
            m = mass[k]
            if m != 0.0:
                begin, end = reach[low + k, 1], reach[low + k + 1, 1]
                chance, found = weights[0, begin:end], after[reach[low + k, 0] :]
                for j in range(end - begin):
                    found[j] += chance[j] * m


@compiled
def hull_slopes(first, values, at, slopes):
    """slopes[a - 1], a = 1 .. A: what the a-th unit adds on the concave hull of 0 .. A units.

    values[a - 1] = Q(a), `first` = Q(0). Slopes do not increase, and the largest Q(a) - a mu is
    Q(0) + sum_a (slopes[a - 1] - mu)^+. at (A + 1,): room for the corners.
    """
    units = values.shape[0]
    at[0] = 0
    corners = 1
    for a in range(1, units + 1):
        y = values[a - 1]
        while corners > 1:
            b, c = at[corners - 2], at[corners - 1]
            low = first if b == 0 else values[b - 1]
            if (y - low) * (c - b) < (values[c - 1] - low) * (a - b):
                break
            corners -= 1
        at[corners] = a
        corners += 1
    for corner in range(1, corners):
        b, c = at[corner - 1], at[corner]
        slope = (values[c - 1] - (first if b == 0 else values[b - 1])) / (c - b)
        for a in range(b, c):
            slopes[a] = slope


@compiled(fastmath=FAST)
def stage_values(
    start, mean, weights, reach, units, stage, base, spread, later, widest, part, parts, values
):
    """values[s, a - 1] = Q_t(s; a), a = 1 .. units, in the states of a stage.

    later: V_{t+1}. base, spread: a unit earns base + spread * mean. widest: states of a row. Every
    row of V_{t+1} is work of its own: this is part 0 .. parts - 1 of them.
    """
    rows = units * stage
    after, before = np.empty(widest), np.empty(widest)
    for source in range(1 + part, rows + units + 1, parts):
        copy(later[start[source] : start[source + 1]], after)
        for a in range(1, min(units, source) + 1):
            row = source - a
            at = start[row]
            size = start[row + 1] - at
            unit_back(weights, reach, at, size, after, before)
            after, before = before, after
            if row <= rows:
                for k in range(size):
                    values[at + k, a - 1] = after[k] + a * (base + spread * mean[at + k])


@compiled(fastmath=FAST)
def raise_values(values, price, later, now):
    """V_t = max over a of Q_t(.; a) - a mu_t; values: of `stage_values`."""
    for s in range(values.shape[0]):
        best = later[s]
        for a in range(values.shape[1]):
            best = max(best, values[s, a] - (a + 1) * price)
        now[s] = best


@compiled
def demand(slopes, price, slack):
    """Units whose slope is above price + slack, and above or at price - slack."""
    fewest, most = 0, 0
    for a in range(slopes.shape[0]):
        if slopes[a] > price + slack:
            fewest += 1
        if slopes[a] >= price - slack:
            most += 1
    return fewest, most


@compiled
def offers(later, values, mass, key, weight):
    """Collect slopes and masses of all units of the states with mass. Returns their number."""
    units = values.shape[1]
    at, count = np.empty(units + 1, np.int64), 0
    for s in range(values.shape[0]):
        if mass[s] > 0.0:
            hull_slopes(later[s], values[s], at, key[count : count + units])
            weight[count : count + units] = mass[s]
            count += units
    return count


@compiled(inline="always")
def set_out(start, mean, units, rows, base, spread, later, values, price, slack, part, mass,
            under_way):  # fmt: skip
    """Masses of a stage by the units that they take, in under_way. Returns units and reward."""
    at, slopes = np.empty(units + 1, np.int64), np.empty(units)
    spent, reward = 0.0, 0.0
    for s in range(start[rows + 1]):
        m = mass[s]
        if m > 0.0:
            hull_slopes(later[s], values[s], at, slopes)
            fewest, most = demand(slopes, price, slack)
            under_way[fewest, s] += (1.0 - part) * m
            under_way[most, s] += part * m
            taken = m * (fewest + part * (most - fewest))
            spent += taken
            reward += taken * (base + spread * mean[s])
    return spent, reward


@compiled
def follow_stage(
    start, mean, weights, reach, units, stage, base, spread, later, values, price, slack, part,
    mass, under_way,
):  # fmt: skip
    """Move mass (states,) over one stage, in place. Returns units spent and reward.

    Units above the price are taken; of those at it, the same part of the mass of every state takes
    all, the rest none. under_way (units + 1, states): room; masses with so many units still to
    come, zero on return.
    """
    rows = units * stage
    spent, reward = set_out(
        start, mean, units, rows, base, spread, later, values, price, slack, part, mass, under_way
    )
    advance(start, weights, reach, units, stage, mass, under_way)
    return spent, reward


@compiled
def advance(start, weights, reach, units, stage, mass, under_way):
    """Move the masses in under_way by the units that they take; fills mass, empties under_way."""
    rows = units * stage
    for row in range(rows + units + 1):
        at, end = start[row], start[row + 1]
        for left in range(1, units + 1):
            lo, hi = at, end - 1
            while lo <= hi and under_way[left, lo] == 0.0:
                lo += 1
            if lo > hi:
                continue
            while under_way[left, hi] == 0.0:
                hi -= 1
            # `reach` counts from the begin of a row, exact states from `lo`
            shift = lo - at if reach.shape[0] == 0 else 0
            unit_ahead(
                weights, reach, lo, hi - lo + 1, under_way[left, lo : hi + 1],
                under_way[left - 1, start[row + 1] + shift : start[row + 2]],
            )  # fmt: skip
            under_way[left, lo : hi + 1] = 0.0
        copy(under_way[0, at:end], mass[at:end])
        under_way[0, at:end] = 0.0


@compiled(inline="always")
def place(good, at, end, x):
    """(k, part): x good outcomes lie between the states k and k + 1 of a row at .. end - 1.

    The value there, on the chord, is (1 - part) V[k] + part V[k + 1].
    """
    if end - at == 1:
        return at, 0.0
    lo, hi = at, end - 1
    if good[hi] - good[lo] == hi - lo:  # every whole number is a state
        lo = min(at + int(x - good[at]), hi - 1)
        return lo, x - good[lo]
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if good[middle] <= x:
            lo = middle
        else:
            hi = middle
    return lo, (x - good[lo]) / (good[hi] - good[lo])


@compiled
def unit_values_many(start, good, later, values, row, x, out):
    """out[i, a] = Q_t(s_i; a), a = 0 .. units; s_i has x[i] good outcomes after row[i] units.

    values: of `stage_values`. later: V_{t+1}. Between two states of a row, on their chord.
    """
    units = values.shape[1]
    for i in range(row.shape[0]):
        k, part = place(good, start[row[i]], start[row[i] + 1], x[i])
        out[i, 0] = later[k]
        for a in range(units):
            out[i, a + 1] = values[k, a]
        if part > 0.0:
            out[i, 0] += part * (later[k + 1] - later[k])
            for a in range(units):
                out[i, a + 1] += part * (values[k + 1, a] - values[k, a])


@compiled(inline="always")
def share_out(values, units, best, choice, given):
    """given[k]: units of arm k, that sum to `units` and maximise the sum of values[k, given[k]].

    best (units + 1,), choice (arms, units + 1): room. Of equal sums one is taken that gives less to
    later arms. Returns the largest sum.
    """
    arms, most = values.shape[0], values.shape[1] - 1
    for r in range(units + 1):
        best[r] = values[0, r] if r <= most else -math.inf
        choice[0, r] = r
    for k in range(1, arms):
        for r in range(units, -1, -1):
            top, pick = -math.inf, 0
            for a in range(min(r, most) + 1):
                total = best[r - a] + values[k, a]
                if total > top:
                    top, pick = total, a
            best[r] = top
            choice[k, r] = pick
    left = units
    for k in range(arms - 1, -1, -1):
        given[k] = choice[k, left]
        left -= given[k]
    return best[units]
