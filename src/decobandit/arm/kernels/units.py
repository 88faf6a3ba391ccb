"""One arm at given prices over its states in rows (`graph.py`), backward and forward in time.

    W_0(s) = V_{t+1}(s)                     W_a(s) = E[W_{a-1}(s after one unit)]
    Q_t(s; a) = what a units earn + W_a(s)  V_t(s) = max_{0 <= a <= A} Q_t(s; a) - a mu_t

With I_1 >= .. >= I_A the slopes of the concave hull of Q_t(s; .), V_t(s) = V_{t+1}(s) + sum_a
(I_a(s) - mu_t)^+: the a-th unit has an index, as a single pull has. Single pulls are units of one
pull of which an arm takes one at most. A unit is one step of the graph, or `steps` of them; a step
earns base + factor * mean of the state in which it is made. The states of stage t are the rows
0 .. units * steps * t.
"""

import math

import numpy as np

from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled
from .graph import BAND, FAST, LAW, LINKS, band_back, cuts, law_of, row_ahead, row_back, shift_of


@compiled(inline="always")
def leads_to(graph, n, k):
    """First and last number that a step from state k of row n leads to; how far beyond the ends."""
    if graph.layout == BAND:
        wide = (graph.at[n + 1] - graph.at[n]) // (graph.start[n + 1] - graph.start[n])
        return k, k + wide - 1, 0.0, 0.0
    if graph.layout == LAW:
        reach, _, _, beyond = law_of(graph, n)
        c = k + shift_of(graph.start, n)
        below, above = cuts(c, graph.start[n + 2] - graph.start[n + 1], reach, graph.even)
        return c - below, c + above, beyond[above], beyond[below]
    s = graph.start[n] + k
    up, down = (graph.up[s], graph.down[s]) if graph.up.shape[0] > 0 else (0.0, 0.0)
    return graph.to[s], graph.to[s] + graph.at[s + 1] - graph.at[s] - 1, up, down


@compiled
def settled_below(graph, n, rise, fall, faint, low):
    """States 0 .. a - 1 of row n have values 0, and so has all that a step leads to. Returns a."""
    known, unknown = 0, min(low[n], graph.start[n + 1] - graph.start[n]) + 1
    while unknown - known > 1:
        a = (known + unknown) // 2
        if leads_to(graph, n, a - 1)[1] < low[n + 1]:
            known = a
        else:
            unknown = a
    if known > 0:  # most lies above the last of these states, and below the first
        above, below = leads_to(graph, n, known - 1)[2], leads_to(graph, n, ZERO)[3]
        if above * rise + below * fall > faint:
            return 0
    return known


@compiled
def settled_above(graph, n, rise, fall, slope, faint, high):
    """States b, b + 1, ... of row n are on the line, and so is all they lead to. Returns b."""
    size = graph.start[n + 1] - graph.start[n]
    unknown, known = max(high[n], -1), size
    while known - unknown > 1:
        b = (known + unknown) // 2
        if leads_to(graph, n, b)[0] > high[n + 1]:
            known = b
        else:
            unknown = b
    if known < size:
        above, below = leads_to(graph, n, size - 1)[2], leads_to(graph, n, known)[3]
        if (rise - slope) * above + (fall + slope) * below > faint:
            return size
    return known


@compiled(fastmath=FAST)
def stage_worth(
    graph, rows, base, factor, rise, fall, slope, faint, low, high, part, parts, later, worth
):
    """worth[s] = Q_t(s; 1) in rows 0 .. rows, where an arm makes one step per stage at most.

    Outside low[n] .. high[n] values of row n are 0, or on the line of an arm that is pulled at
    every stage (`slope`: of V_{t+1}); where all that a step leads to is, too, it is worth its
    reward and the value of the state. What that leaves out is no more than `faint`. Rows are shared
    among `parts` calls.
    """
    start = graph.start
    for n in range(part, rows + 1, parts):
        begin, size = start[n], start[n + 1] - start[n]
        here, own = later[begin : begin + size], worth[begin : begin + size]
        means = graph.mean[begin : begin + size]
        a, b = 0, size
        if graph.layout != LINKS:
            a = settled_below(graph, n, rise, fall, faint, low)
            b = max(a, settled_above(graph, n, rise, fall, slope, faint, high))
        for k in range(a):
            own[k] = here[k]
        for k in range(b, size):
            own[k] = here[k]
        row_back(graph, n, a, b, rise, fall, later[start[n + 1] : start[n + 2]], own)
        for k in range(size):
            own[k] += base + factor * means[k]


@compiled
def settle_rows(graph, rows, price, ground, slope, faint, worth, later, now, low, high):
    """V_t = max(V_{t+1}, worth - price), and the intervals of the rows that it leaves.

    ground + slope * mean: the line of an arm that is pulled at every stage from t on. Values that
    are at most `faint` away from 0, or from the line, are put there.
    """
    for n in range(rows + 1):
        begin, end = graph.start[n], graph.start[n + 1]
        for s in range(begin, end):
            now[s] = max(later[s], worth[s, 0] - price)
        s = begin
        while s < end and now[s] <= faint and now[s] >= 0.0:
            now[s] = 0.0
            s += 1
        low[n] = s - begin
        s = end - 1
        while s >= begin:
            line = ground + slope * graph.mean[s]
            if abs(now[s] - line) > faint:
                break
            now[s] = line
            s -= 1
        high[n] = s - begin


@compiled(fastmath=FAST)
def stage_worths(
    graph, units, steps, stage, base, factor, rise, fall, widest, part, parts, later, worth
):
    """worth[s, a - 1] = Q_t(s; a), a = 1 .. units, in the states of a stage.

    later: V_{t+1}. widest: states of a row. Beyond its end a row grows by rise and fall, and by
    what the steps of the stage that follow earn. Rows that arms end in are work of their own: this
    is part 0 .. parts - 1 of them.
    """
    most, start, mean = units * steps, graph.start, graph.mean
    is_band = graph.layout == BAND  # the mean is a martingale: a units earn a times as much
    after, before = np.empty(widest), np.empty(widest)
    for source in range(1 + part, most * (stage + 1) + 1, parts):
        copy(later[start[source] : start[source + 1]], after)
        for a in range(1, min(most, source) + 1):
            row = source - a
            low, size = start[row], start[row + 1] - start[row]
            ahead = after[: start[row + 2] - start[row + 1]]
            if is_band:
                band_back(graph, row, ZERO, size, ahead, before)
            else:
                more = (a - 1) * factor  # what steps that follow add to the slopes of values
                rises, falls = rise + max(more, 0.0), fall + max(-more, 0.0)
                row_back(graph, row, ZERO, size, rises, falls, ahead, before)
                for k in range(size):
                    before[k] += base + factor * mean[low + k]
            after, before = before, after
            if row <= most * stage and a % steps == 0:
                column, times = a // steps - 1, a if is_band else 0
                for k in range(size):
                    worth[low + k, column] = after[k] + times * (base + factor * mean[low + k])


@compiled(fastmath=FAST)
def raise_values(worth, price, later, now):
    """V_t = max over a of Q_t(.; a) - a mu_t; worth: of `stage_worths`."""
    for s in range(worth.shape[0]):
        best = later[s]
        for a in range(worth.shape[1]):
            best = max(best, worth[s, a] - (a + 1) * price)
        now[s] = best


@compiled
def hull_slopes(first, worth, at, slopes):
    """slopes[a - 1], a = 1 .. A: what the a-th unit adds on the concave hull of 0 .. A units.

    worth[a - 1] = Q(a), `first` = Q(0). Slopes do not increase, and the largest Q(a) - a mu is
    Q(0) + sum_a (slopes[a - 1] - mu)^+. at (A + 1,): room for the corners.
    """
    units = worth.shape[0]
    at[0] = 0
    corners = 1
    for a in range(1, units + 1):
        y = worth[a - 1]
        while corners > 1:
            b, c = at[corners - 2], at[corners - 1]
            low = first if b == 0 else worth[b - 1]
            if (y - low) * (c - b) < (worth[c - 1] - low) * (a - b):
                break
            corners -= 1
        at[corners] = a
        corners += 1
    for corner in range(1, corners):
        b, c = at[corner - 1], at[corner]
        slope = (worth[c - 1] - (first if b == 0 else worth[b - 1])) / (c - b)
        for a in range(b, c):
            slopes[a] = slope


@compiled(inline="always")
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
def offers(later, worth, mass, key, weight):
    """Collect slopes and masses of all units of the states with mass. Returns their number."""
    units = worth.shape[1]
    at, count = np.empty(units + 1, np.int64), 0
    for s in range(worth.shape[0]):
        if mass[s] > 0.0:
            hull_slopes(later[s], worth[s], at, key[count : count + units])
            weight[count : count + units] = mass[s]
            count += units
    return count


@compiled(fastmath=FAST)
def advance(graph, most, stage, base, factor, mass, under_way):
    """Move the masses in under_way by the steps that they take, at most `most`. Returns the reward.

    Fills mass, empties under_way.
    """
    reward = 0.0
    start, mean = graph.start, graph.mean
    for row in range(most * (stage + 1) + 1):
        low, end = start[row], start[row + 1]
        for left in range(1, most + 1):
            moving = under_way[left, low:end]
            k = 0
            while k < end - low and moving[k] == 0.0:
                k += 1
            if k == end - low:
                continue
            some, means = moving[k:], mean[low + k : end]
            for i in range(some.shape[0]):
                reward += some[i] * (base + factor * means[i])
            row_ahead(graph, row, moving, under_way[left - 1, end : start[row + 2]])
            moving[:] = 0.0
        copy(under_way[0, low:end], mass[low:end])
        under_way[0, low:end] = 0.0
    return reward


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
