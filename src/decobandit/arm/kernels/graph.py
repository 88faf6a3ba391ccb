"""One step of an arm over its states in rows: values go back, masses go ahead.

Row n has the states after n steps, at start[n] .. start[n+1] - 1. A step is a unit of pulls, or one
pull of it. Where a step leads from the state number k of row n to states of row n + 1 is laid out
in one of four ways.

    BAND    all numbers of good outcomes: to the numbers k .. k + width - 1, with the chances
            weights[at[n] + j size + k], size that of row n: those of a row stand side by side, so
            that a sum over j runs along the row in vector registers
    RUNS    to the numbers to[s], to[s] + 1, ..., with the chances weights[at[s]] .. before at[s+1]
    LINKS   to the numbers to[at[s]] .., with the chances at the same places
    LAW     rows are lattices of 2 half + 1 points around one middle, and a step moves by j points
            with chance inner[|j|], |j| < reach, whatever k. What lies c points away or more, c the
            reach or the end of the row, counts as c away: chance end[c] on either side. inner, end
            and beyond have reach + 1 entries each, one after the other from weights[at[n]] on; the
            reach is 0 and end[0] 1/2 where nothing moves. `even`: both sides are cut where the
            nearer end is, so that the mean is kept

Rows of a grid end where outcomes seldom lead. Beyond its ends V is at most a line with the largest
slope that it can have: up and down are how far, in expectation, a step leads beyond either end, and
E[V] gains up rise + down fall, slopes of the values after it: up[s], down[s], or of a law
beyond[c]. up and down are empty where rows have no ends to lead beyond.
"""

from typing import NamedTuple

from ...support import Floats, Ints
from ...support.kernels.compiled import compiled

BAND, RUNS, LINKS, LAW = 0, 1, 2, 3
FAST = {"contract", "nsz", "reassoc"}


class Graph(NamedTuple):
    """States and successors of an arm, as above."""

    layout: int
    start: Ints  # (rows + 2,)
    mean: Floats  # (states,) expected value of the next outcome
    at: Ints  # (rows + 2,) of bands and laws, else (states + 1,)
    weights: Floats
    to: Ints
    up: Floats
    down: Floats
    even: bool


@compiled(inline="always")
def law_of(graph, n):
    """reach, inner, end and beyond of the law of row n."""
    begin = graph.at[n]
    wide = (graph.at[n + 1] - begin) // 3
    w = graph.weights
    middle, last = begin + wide, begin + 2 * wide
    return wide - 1, w[begin:middle], w[middle:last], w[last : last + wide]


@compiled(inline="always")
def shift_of(start, n):
    """Return the number in row n + 1 of the point with number 0 in row n."""
    return (start[n + 2] - 2 * start[n + 1] + start[n]) // 2


@compiled(inline="always")
def cuts(c, size, reach, even):
    """Steps down and up that a law of this reach takes from state c of a row of `size` states."""
    below, above = min(c, reach), min(size - 1 - c, reach)
    if even:
        below = above = min(below, above)
    return below, above


@compiled(fastmath=FAST)
def whole_back(inner, end, lines, reach, at, after, before):
    """As `law_back` where there is room for the whole law, from number `at` of the next row on."""
    size = before.shape[0]
    left, right = after[at - reach : at - reach + size], after[at + reach : at + reach + size]
    for k in range(size):
        before[k] = lines + end[reach] * (left[k] + right[k])
    if reach > 0:
        own = after[at : at + size]
        for k in range(size):
            before[k] += inner[0] * own[k]
    for j in range(1, reach):
        # slices, which begin at 0: indices that may be negative would keep this from vector units
        left, right, w = after[at - j : at - j + size], after[at + j : at + j + size], inner[j]
        for k in range(size):
            before[k] += w * (left[k] + right[k])


@compiled(fastmath=FAST)
def law_back(graph, n, begin, stop, rise, fall, after, before):
    """before[k] = E[after] one step later, by a law; k = begin .. stop - 1."""
    reach, inner, end, beyond = law_of(graph, n)
    size, shift = after.shape[0], shift_of(graph.start, n)
    low, high = max(begin, reach - shift), min(stop, size - reach - shift)
    if low < high:
        lines = beyond[reach] * (rise + fall)
        whole_back(inner, end, lines, reach, low + shift, after, before[low:high])
    for k in range(begin, stop):
        if low <= k < high:
            continue
        c = k + shift
        below, above = cuts(c, size, reach, graph.even)
        if below + above == 0:
            before[k] = after[c]
            continue
        total = end[below] * after[c - below] + end[above] * after[c + above]
        total += beyond[above] * rise + beyond[below] * fall
        if below > 0 and above > 0:
            total += inner[0] * after[c]
        left, right = after[c - below : c], after[c + 1 : c + 1 + above]
        for j in range(1, below):
            total += inner[j] * left[below - j]
        for j in range(1, above):
            total += inner[j] * right[j - 1]
        before[k] = total


@compiled(fastmath=FAST)
def band_back(graph, n, begin, stop, after, before):
    """Fill before[k] = E[after] one step later, in a band."""
    first, size = graph.at[n], graph.start[n + 1] - graph.start[n]
    chance, own, ahead = graph.weights[first + begin :], before[begin:stop], after[begin:]
    for k in range(stop - begin):
        own[k] = chance[k] * ahead[k]
    for j in range(1, (graph.at[n + 1] - first) // size):
        chance, ahead = graph.weights[first + j * size + begin :], after[begin + j :]
        for k in range(stop - begin):
            own[k] += chance[k] * ahead[k]


@compiled(fastmath=FAST)
def row_back(graph, n, begin, stop, rise, fall, after, before):
    """before[k] = E[after (states of row n + 1,)] one step later; k = begin .. stop - 1."""
    if graph.layout == LAW:
        law_back(graph, n, begin, stop, rise, fall, after, before)
        return
    if graph.layout == BAND:
        band_back(graph, n, begin, stop, after, before)
        return
    low, at, to = graph.start[n], graph.at, graph.to
    for k in range(begin, stop):
        s = low + k
        chance = graph.weights[at[s] : at[s + 1]]
        total = 0.0
        if graph.layout == RUNS:
            ahead = after[to[s] :]
            for j in range(chance.shape[0]):
                total += chance[j] * ahead[j]
        else:
            ahead = to[at[s] :]
            for j in range(chance.shape[0]):
                total += chance[j] * after[ahead[j]]
        before[k] = total
    if graph.up.shape[0] > 0:
        for k in range(begin, stop):
            before[k] += graph.up[low + k] * rise + graph.down[low + k] * fall


@compiled(fastmath=FAST)
def whole_ahead(inner, end, reach, at, mass, after):
    """As `law_ahead` where there is room for the whole law, from number `at` of the next row on."""
    size = mass.shape[0]
    for j in range(reach + 1):
        w = inner[j] if j < reach else end[reach]
        left = after[at - j : at - j + size]
        for k in range(size):
            left[k] += w * mass[k]
        if j > 0 or reach == 0:
            right = after[at + j : at + j + size]
            for k in range(size):
                right[k] += w * mass[k]


@compiled(inline="always")
def law_ahead(graph, n, begin, stop, mass, after):
    """Add mass (states of row n,) to `after` one step later, by a law."""
    reach, inner, end, _ = law_of(graph, n)
    size, shift = after.shape[0], shift_of(graph.start, n)
    low, high = max(begin, reach - shift), min(stop, size - reach - shift)
    if low < high:
        whole_ahead(inner, end, reach, low + shift, mass[low:high], after)
    for k in range(begin, stop):
        m = mass[k]
        if low <= k < high or m == 0.0:
            continue
        c = k + shift
        below, above = cuts(c, size, reach, graph.even)
        if below + above == 0:
            after[c] += m
            continue
        after[c - below] += end[below] * m
        after[c + above] += end[above] * m
        for j in range(1 - below, above):
            after[c + j] += inner[abs(j)] * m


@compiled(fastmath=FAST)
def row_ahead(graph, n, mass, after):
    """Add the masses (states of row n,) to `after` (states of row n + 1,) one step later."""
    low, size = graph.start[n], mass.shape[0]
    begin, stop = 0, size
    while begin < stop and mass[begin] == 0.0:
        begin += 1
    while stop > begin and mass[stop - 1] == 0.0:
        stop -= 1
    if graph.layout == LAW:
        law_ahead(graph, n, begin, stop, mass, after)
        return
    at, to, own = graph.at, graph.to, mass[begin:stop]
    if graph.layout == BAND:
        first = at[n]
        for j in range((at[n + 1] - first) // size):
            row = first + j * size
            chance, ahead = graph.weights[row + begin : row + stop], after[begin + j : stop + j]
            for k in range(stop - begin):
                ahead[k] += chance[k] * own[k]
        return
    for k in range(begin, stop):
        m, s = mass[k], low + k
        if m == 0.0:
            continue
        chance = graph.weights[at[s] : at[s + 1]]
        if graph.layout == RUNS:
            ahead = after[to[s] :]
            for j in range(chance.shape[0]):
                ahead[j] += chance[j] * m
        else:
            links = to[at[s] :]
            for j in range(chance.shape[0]):
                after[links[j]] += chance[j] * m


@compiled
def look_up(table, start, row, place, out):
    """out[i]: columns of a table over states, (states, columns), at the number place[i] of a row.

    Between two states on their chord, beyond the ends that of the end. Returns how many are beyond.
    """
    outside = 0
    for i in range(row.shape[0]):
        n = int(row[i])
        low, last = start[n], start[n + 1] - 1 - start[n]
        x = min(max(place[i], 0.0), float(last))
        outside += x != place[i]
        k = min(int(x), max(last - 1, 0))
        part = x - k
        for j in range(table.shape[1]):
            here = table[low + k, j]
            out[i, j] = here if part == 0.0 else here + part * (table[low + k + 1, j] - here)
    return outside
