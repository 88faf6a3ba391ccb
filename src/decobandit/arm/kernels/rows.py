"""One arm of any kind at given prices, backward and forward in time, over its states in rows.

    index_t(s) = base_t + factor_t mean(s) + E[V_{t+1}(s after a pull)] - V_{t+1}(s)
    V_t(s)     = V_{t+1}(s) + (index_t(s) - mu_t)^+

Row n has the states after n pulls, at start[n] .. start[n+1] - 1. A state number k of row n has
width[n] successors in row n + 1; their chances are weights[at[n] + k width[n] + j], j = 0, 1, ...
They stand side by side from number first[s] on (`links` is empty), or at the numbers links[...],
laid out as the weights are. An arm may take several units of pulls at a stage: what they are worth
is found pull by pull, Q_t(s; a), and the slopes of its concave hull are the indices of units, as
in `batches.py`.

Rows of a grid end where outcomes seldom lead. Beyond its ends V is at most a line with the largest
slope that it can have: up[s] and down[s] are how far, in expectation, a pull leads beyond either
end, and E[V] gains up[s] rise + down[s] fall, slopes of V_{t+1}. All are 0 where rows are exact.
"""

import numpy as np

from ...support.kernels.compiled import compiled
from .batches import demand, hull_slopes

FAST = {"contract", "nsz", "reassoc"}


@compiled(fastmath=FAST)
def row_back(n, start, width, at, weights, first, links, up, down, rise, fall, after, before):
    """before (states of row n,) = E[after (states of row n + 1,)] one pull later."""
    low, wide = start[n], width[n]
    for k in range(start[n + 1] - low):
        s, begin = low + k, at[n] + k * wide
        total = up[s] * rise + down[s] * fall
        if links.shape[0] == 0:
            f = first[s]
            for j in range(wide):
                total += weights[begin + j] * after[f + j]
        else:
            for j in range(begin, begin + wide):
                total += weights[j] * after[links[j]]
        before[k] = total


@compiled
def row_ahead(n, start, width, at, weights, first, links, mass, after):
    """after (states of row n + 1,) += the masses (states of row n,) one pull later."""
    low, wide = start[n], width[n]
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


@compiled(fastmath=FAST)
def stage_worth(
    start, mean, width, at, weights, first, links, up, down, rows, base, factor, rise, fall,
    slope, faint, low, high, part, parts, later, worth,
):  # fmt: skip
    """worth[s, 0] = Q_t(s; 1) in rows 0 .. rows, where an arm is pulled once per stage at most.

    Outside low[n] .. high[n] values of row n are 0, or on the line of an arm that is pulled at
    every stage (`slope`: of V_{t+1}); where all that a pull leads to is, too, it is worth its
    reward and the value of the state. What that leaves out is no more than `faint`. Rows are shared
    among `parts` calls.
    """
    for n in range(part, rows + 1, parts):
        begin, wide, size = start[n], width[n], start[n + 1] - start[n]
        a, b = 0, size
        if links.shape[0] == 0:
            while a < min(size, low[n]) and first[begin + a] + wide <= low[n + 1]:
                if up[begin + a] * rise + down[begin + a] * fall > faint:
                    break
                worth[begin + a, 0] = base + factor * mean[begin + a]
                a += 1
            while b - 1 > max(a - 1, high[n]) and first[begin + b - 1] > high[n + 1]:
                s = begin + b - 1
                if (rise - slope) * up[s] + (fall + slope) * down[s] > faint:
                    break
                worth[s, 0] = base + factor * mean[s] + later[s]
                b -= 1
        after = later[start[n + 1] : start[n + 2]]
        for s in range(begin + a, begin + b):
            w = at[n] + (s - begin) * wide
            total = up[s] * rise + down[s] * fall
            if links.shape[0] == 0:
                f = first[s]
                for j in range(wide):
                    total += weights[w + j] * after[f + j]
            else:
                for j in range(w, w + wide):
                    total += weights[j] * after[links[j]]
            worth[s, 0] = base + factor * mean[s] + total


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
    start, mean, width, at, weights, first, links, up, down, units, unit, stage, base, factor,
    rise, fall, widest, part, parts, later, worth,
):  # fmt: skip
    """worth[s, a - 1] = Q_t(s; a), a = 1 .. units, in the states of a stage.

    later: V_{t+1}. base, factor: a pull earns base + factor * mean. widest: states of a row.
    Rows that arms end in are shared among `parts` calls.
    """
    most = units * unit
    rows = most * stage
    after, before = np.empty(widest), np.empty(widest)
    for source in range(1 + part, rows + most + 1, parts):
        size = start[source + 1] - start[source]
        after[:size] = later[start[source] : start[source + 1]]
        for a in range(1, min(most, source) + 1):
            row = source - a
            row_back(
                row, start, width, at, weights, first, links, up, down, rise, fall, after, before
            )
            after, before = before, after
            low = start[row]
            for k in range(start[row + 1] - low):
                after[k] += base + factor * mean[low + k]
                if row <= rows and a % unit == 0:
                    worth[low + k, a // unit - 1] = after[k]


@compiled
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
    start, mean, width, at, weights, first, links, units, unit, stage, base, factor, later, worth,
    price, slack, part, mass, under_way,
):  # fmt: skip
    """Move masses over one stage, in place. Returns units spent and reward.

    Units above the price are taken; of those at it (within slack), the same part of the mass of
    every state takes all, the rest none. under_way (pulls of a stage + 1, states): room; zero on
    return.
    """
    most = units * unit
    rows = most * stage
    spent = set_out(units, unit, start[rows + 1], later, worth, price, slack, part, mass, under_way)
    reward = 0.0
    for row in range(rows + most + 1):
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
                    row, start, width, at, weights, first, links, moving,
                    under_way[left - 1, end : start[row + 2]],
                )  # fmt: skip
                moving[:] = 0.0
        mass[low:end] = under_way[0, low:end]
        under_way[0, low:end] = 0.0
    return spent, reward


@compiled
def look_up(table, start, pulls, place, found):
    """found[i]: a table over states at the number place[i] of the row of pulls[i] pulls.

    Between two states on their chord, beyond the ends that of the end.
    """
    for i in range(pulls.shape[0]):
        n = int(pulls[i])
        low, last = start[n], start[n + 1] - 1 - start[n]
        x = min(max(place[i], 0.0), float(last))
        k = min(int(x), max(last - 1, 0))
        here = table[low + k]
        part = x - k
        found[i] = here if part == 0.0 else here + part * (table[low + k + 1] - here)
