"""One arm of any kind at given prices, backward and forward in time, over its states in rows.

    index_t(s) = base_t + factor_t mean(s) + E[V_{t+1}(s after a pull)] - V_{t+1}(s)
    V_t(s)     = V_{t+1}(s) + (index_t(s) - mu_t)^+

Row n has the states after n pulls, at start[n] .. start[n+1] - 1. Where a pull leads from the state
number k of row n to states of row n + 1 is laid out in one of three ways.

    links   width[n] successors at the numbers links[at[n] + k width[n] + j], j = 0, 1, ...; their
            chances are the weights at the same places
    first   no links: successors stand side by side from number first[s] on
    law     neither: rows are lattices of 2 half + 1 points around one middle, and a pull moves by j
            points with chance inner[|j|], |j| < reach, whatever k. What lies c points away or more,
            c the reach or the end of the row, counts as c away: chance end[c] on either side.
            inner, end and beyond have width[n] = reach + 1 entries each, one after the other from
            weights[at[n]] on. `even`: both sides are cut where the nearer end is

An arm may take several units of pulls at a stage: what they are worth is found pull by pull,
Q_t(s; a), and the slopes of its concave hull are the indices of units, as in `batches.py`.

Rows of a grid end where outcomes seldom lead. Beyond its ends V is at most a line with the largest
slope that it can have: up and down are how far, in expectation, a pull leads beyond either end, and
E[V] gains up rise + down fall, slopes of V_{t+1}: up[s], down[s], or of a law beyond[c]. All are 0
where rows are exact.
"""

import numpy as np

from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled
from .batches import demand, hull_slopes
from .laws import FAST, cuts, law_ahead, law_back, law_of, shift_of


@compiled(fastmath=FAST)
def row_back(
    n, start, width, at, weights, first, links, even, up, down, begin, stop, rise, fall, after,
    before,
):  # fmt: skip
    """before[k] = E[after (states of row n + 1,)] one pull later; k = begin .. stop - 1."""
    low, wide = start[n], width[n]
    if links.shape[0] == 0 and first.shape[0] == 0:
        inner, end, beyond = law_of(weights, at[n], wide)
        law_back(
            inner, end, beyond, wide - 1, even, shift_of(start, n), begin, stop, rise, fall, after,
            before,
        )  # fmt: skip
        return
    for k in range(begin, stop):
        s, w = low + k, at[n] + k * wide
        total = up[s] * rise + down[s] * fall
        if links.shape[0] == 0:
            f = first[s]
            for j in range(wide):
                total += weights[w + j] * after[f + j]
        else:
            for j in range(w, w + wide):
                total += weights[j] * after[links[j]]
        before[k] = total


@compiled
def row_ahead(n, start, width, at, weights, first, links, even, mass, after):
    """after (states of row n + 1,) += the masses (states of row n,) one pull later."""
    low, wide = start[n], width[n]
    if links.shape[0] == 0 and first.shape[0] == 0:
        inner, end, _ = law_of(weights, at[n], wide)
        law_ahead(inner, end, wide - 1, even, shift_of(start, n), mass, after)
        return
    for k in range(start[n + 1] - low):
        m = mass[k]
        if m == 0.0:
            continue
        begin = at[n] + k * wide
        if links.shape[0] == 0:
            f = first[low + k]
            for j in range(wide):
                after[f + j] += weights[begin + j] * m
        else:
            for j in range(begin, begin + wide):
                after[links[j]] += weights[j] * m


@compiled
def leads_to(n, k, start, width, at, weights, first, even, up, down):
    """First and last number that a pull of state k of row n leads to; how far beyond the ends."""
    wide, size = width[n], start[n + 2] - start[n + 1]
    if first.shape[0] > 0:
        s = start[n] + k
        return first[s], first[s] + wide - 1, up[s], down[s]
    c = k + shift_of(start, n)
    below, above = cuts(c, size, wide - 1, even)
    beyond = at[n] + 2 * wide
    return c - below, c + above, weights[beyond + above], weights[beyond + below]


@compiled
def settled_below(n, rows, rise, fall, faint, low):
    """States 0 .. a - 1 of row n have values 0, and so has all that a pull leads to. Returns a."""
    known, unknown = 0, min(low[n], rows[0][n + 1] - rows[0][n]) + 1
    while unknown - known > 1:
        a = (known + unknown) // 2
        if leads_to(n, a - 1, *rows)[1] < low[n + 1]:
            known = a
        else:
            unknown = a
    if known > 0:  # most lies above the last of these states, and below the first
        above, below = leads_to(n, known - 1, *rows)[2], leads_to(n, 0, *rows)[3]
        if above * rise + below * fall > faint:
            return 0
    return known


@compiled
def settled_above(n, rows, rise, fall, slope, faint, high):
    """States b, b + 1, ... of row n are on the line, and so is all they lead to. Returns b."""
    size = rows[0][n + 1] - rows[0][n]
    unknown, known = max(high[n], -1), size
    while known - unknown > 1:
        b = (known + unknown) // 2
        if leads_to(n, b, *rows)[0] > high[n + 1]:
            known = b
        else:
            unknown = b
    if known < size:
        above, below = leads_to(n, size - 1, *rows)[2], leads_to(n, known, *rows)[3]
        if (rise - slope) * above + (fall + slope) * below > faint:
            return size
    return known


@compiled(fastmath=FAST)
def stage_worth(
    start, mean, width, at, weights, first, links, even, up, down, rows, base, factor, rise, fall,
    slope, faint, low, high, part, parts, later, worth,
):  # fmt: skip
    """worth[s] = Q_t(s; 1) in rows 0 .. rows, where an arm is pulled once per stage at most.

    Outside low[n] .. high[n] values of row n are 0, or on the line of an arm that is pulled at
    every stage (`slope`: of V_{t+1}); where all that a pull leads to is, too, it is worth its
    reward and the value of the state. What that leaves out is no more than `faint`. Rows are shared
    among `parts` calls.
    """
    laid_out = (start, width, at, weights, first, even, up, down)
    for n in range(part, rows + 1, parts):
        begin, size = start[n], start[n + 1] - start[n]
        here, own = later[begin : begin + size], worth[begin : begin + size]
        means = mean[begin : begin + size]
        a, b = 0, size
        if links.shape[0] == 0:
            a = settled_below(n, laid_out, rise, fall, faint, low)
            b = max(a, settled_above(n, laid_out, rise, fall, slope, faint, high))
        for k in range(size):
            own[k] = here[k]
        after = later[start[n + 1] : start[n + 2]]
        row_back(
            n, start, width, at, weights, first, links, even, up, down, a, b, rise, fall, after, own
        )
        for k in range(size):
            own[k] += base + factor * means[k]


@compiled
def settle_rows(start, mean, rows, price, ground, slope, faint, worth, later, now, low, high):
    """V_t = max(V_{t+1}, worth - price), and the intervals of the rows that it leaves.

    ground + slope * mean: the line of an arm that is pulled at every stage from t on. Values that
    are at most `faint` away from 0, or from the line, are put there.
    """
    for n in range(rows + 1):
        begin, end = start[n], start[n + 1]
        for s in range(begin, end):
            now[s] = max(later[s], worth[s, 0] - price)
        s = begin
        while s < end and now[s] <= faint and now[s] >= 0.0:
            now[s] = 0.0
            s += 1
        low[n] = s - begin
        s = end - 1
        while s >= begin:
            line = ground + slope * mean[s]
            if abs(now[s] - line) > faint:
                break
            now[s] = line
            s -= 1
        high[n] = s - begin


@compiled
def stage_worths(
    start, mean, width, at, weights, first, links, even, up, down, units, unit, stage, base, factor,
    rise, fall, widest, part, parts, later, worth,
):  # fmt: skip
    """worth[s, a - 1] = Q_t(s; a), a = 1 .. units, in the states of a stage.

    later: V_{t+1}. base, factor: a pull earns base + factor * mean. widest: states of a row. Beyond
    its end a row grows by rise and fall, and by what the pulls of the stage that follow earn.
    Rows that arms end in are shared among `parts` calls.
    """
    most = units * unit
    after, before = np.empty(widest), np.empty(widest)
    for source in range(1 + part, most * (stage + 1) + 1, parts):
        copy(later[start[source] : start[source + 1]], after)
        for a in range(1, min(most, source) + 1):
            row = source - a
            row_back(
                row, start, width, at, weights, first, links, even, up, down, ZERO,
                start[row + 1] - start[row], rise + (a - 1) * max(factor, 0.0),
                fall + (a - 1) * max(-factor, 0.0), after[: start[row + 2] - start[row + 1]],
                before,
            )  # fmt: skip
            after, before = before, after
            low = start[row]
            for k in range(start[row + 1] - low):
                after[k] += base + factor * mean[low + k]
                if row <= most * stage and a % unit == 0:
                    worth[low + k, a // unit - 1] = after[k]


@compiled(inline="always")
def set_out(units, unit, states, later, worth, price, slack, part, mass, under_way):
    """Masses of a stage by the pulls that they take, in under_way. Returns the units taken."""
    corners, slopes = np.empty(units + 1, np.int64), np.empty(units)
    spent = 0.0
    for s in range(states):
        m = mass[s]
        if m > 0.0:
            hull_slopes(later[s], worth[s], corners, slopes)
            fewest, most = demand(slopes, price, slack)
            under_way[fewest * unit, s] += (1.0 - part) * m
            under_way[most * unit, s] += part * m
            spent += m * (fewest + part * (most - fewest))
    return spent


@compiled
def follow_stage(
    start, mean, width, at, weights, first, links, even, units, unit, stage, base, factor, later,
    worth, price, slack, part, mass, under_way,
):  # fmt: skip
    """Move masses over one stage, in place. Returns units spent and reward.

    Units above the price are taken; of those at it (within slack), the same part of the mass of
    every state takes all, the rest none. under_way (pulls of a stage + 1, states): room; zero on
    return.
    """
    rows = units * unit * stage
    spent = set_out(units, unit, start[rows + 1], later, worth, price, slack, part, mass, under_way)
    reward = advance(
        start, mean, width, at, weights, first, links, even, units * unit, stage, base, factor,
        mass, under_way,
    )  # fmt: skip
    return spent, reward


@compiled
def advance(
    start, mean, width, at, weights, first, links, even, most, stage, base, factor, mass, under_way
):
    """Move the masses in under_way by the pulls that they take, at most `most`. Returns the reward.

    Fills mass, empties under_way.
    """
    reward = 0.0
    for row in range(most * (stage + 1) + 1):
        low, end = start[row], start[row + 1]
        for left in range(1, most + 1):
            moving = under_way[left, low:end]
            some = False
            for k in range(end - low):
                if moving[k] != 0.0:
                    some = True
                    reward += moving[k] * (base + factor * mean[low + k])
            if some:
                row_ahead(
                    row, start, width, at, weights, first, links, even, moving,
                    under_way[left - 1, end : start[row + 2]],
                )  # fmt: skip
                moving[:] = 0.0
        copy(under_way[0, low:end], mass[low:end])
        under_way[0, low:end] = 0.0
    return reward


@compiled
def look_up(table, start, pulls, place, found):
    """found[i]: a table over states at the number place[i] of the row of pulls[i] pulls.

    Between two states on their chord, beyond the ends that of the end. Returns how many are beyond.
    """
    outside = 0
    for i in range(pulls.shape[0]):
        n = int(pulls[i])
        low, last = start[n], start[n + 1] - 1 - start[n]
        x = min(max(place[i], 0.0), float(last))
        outside += x != place[i]
        k = min(int(x), max(last - 1, 0))
        here = table[low + k]
        part = x - k
        found[i] = here if part == 0.0 else here + part * (table[low + k + 1] - here)
    return outside
