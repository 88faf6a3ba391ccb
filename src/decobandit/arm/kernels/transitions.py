"""Chances of one step of an arm, put on the states that are there: units of good and bad, counts.

A grid of good outcomes has a few states per row, at y_0 < y_1 < .., not always whole numbers. One
unit of u pulls takes a state at g to g + x, x = 0 .. u, with beta-binomial chances. These atoms are
moved to states of the next row, their mean kept:

    above   every atom goes to the two states around it, as on the chord between them.
            E[f] of a convex f does not fall.
    below   runs of atoms whose mean is a state go to that state, the rest to the state at the mean
            of all. E[f] of a convex f does not rise (Jensen).

Counts of events: with a gamma prior of shape r and rate b on the mean, the next count x has the
negative binomial chance

    P(x) = Gamma(r + x) / (Gamma(r) x!) (b / (b + 1))^r (1 / (b + 1))^x

A count that leads between two points of the grid goes to both, so that its mean is kept (chords);
what leads beyond the last point goes there, and how far beyond is summed.
"""

import numpy as np

from ...support.kernels.arrays import ONE, copy
from ...support.kernels.compiled import compiled

NOTHING = 1e-19  # chances of a unit below this are left out: all of them together are rounding
FAINT_CHANCE = 1e-16  # relative to the likeliest count: below it counts are left out


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
def band_weights(alpha, beta, unit, rows, at, weights):
    """Fill the weights of a band (`graph.py`): every number of good outcomes is a state."""
    chance = np.empty(unit + 1)
    for i in range(rows):
        n = i * unit
        for good in range(n + 1):
            beta_binomial(alpha + good, beta + n - good, unit, chance)
            for x in range(unit + 1):
                weights[at[i] + x * (n + 1) + good] = chance[x]


@compiled(inline="always")
def likely(chance, unit):
    """First and last number of good outcomes that is not left out."""
    lo, hi = 0, unit
    while chance[lo] < NOTHING:
        lo += 1
    while chance[hi] < NOTHING:
        hi -= 1
    return lo, hi


@compiled(inline="always")
def span(good, at, end, low, high):
    """Numbers, in the row at .. end - 1, of the last state not above low, the first not below high.

    The ends of the row where there is none.
    """
    first = np.searchsorted(good[at:end], low, side="right") - 1
    last = np.searchsorted(good[at:end], high, side="left")
    return max(first, 0), min(last, end - at - 1)


@compiled(inline="always")
def spread_above(g, chance, lo, hi, y, weights):
    """Move the atoms g + lo .. g + hi to the states around each; y (states,), first <= g + lo."""
    k, last = 0, y.shape[0] - 1
    for x in range(lo, hi + 1):
        at = g + x
        while k < last - 1 and y[k + 1] <= at:
            k += 1
        if last == 0:
            weights[0] += chance[x]
            continue
        part = min(max((at - y[k]) / (y[k + 1] - y[k]), 0.0), 1.0)
        weights[k] += (1.0 - part) * chance[x]
        weights[k + 1] += part * chance[x]


@compiled
def gather_side(g, chance, begin, end, y, middle, side, weights):
    """Move runs of atoms to the states on one side of y[middle], from the outermost inwards.

    side = -1: atoms from g + begin up to g + end, states below; side = 1: downwards, states above.
    A run has all atoms outside a state that no run before it has, and as much inside it as makes
    their mean that state: of atoms, and after the last one of what states inside have. What is
    moved leaves chance.
    """
    k = 0 if side < 0 else y.shape[0] - 1
    while k != middle and side * (begin - end) >= 0:
        x, mass, moment, taken = begin, 0.0, 0.0, 0.0
        while side * (x - end) >= 0:
            outside = side * (g + x - y[k])
            if outside < 0.0 and -outside * chance[x] >= moment:
                taken = moment / -outside
                chance[x] -= taken
                moment = 0.0
                break
            mass += chance[x]
            moment += outside * chance[x]
            x -= side
        while begin != x:
            chance[begin] = 0.0
            begin -= side
        inner = k - side
        while moment > 0.0 and 0 <= inner < y.shape[0]:
            far = side * (y[k] - y[inner])
            back = min(weights[inner], moment / far)
            weights[inner] -= back
            mass += back
            moment -= back * far
            inner -= side
        weights[k] += mass + taken
        k -= side


@compiled(inline="always")
def gather_below(g, chance, lo, hi, y, middle, weights):
    """Move the atoms, whose mean is y[middle], by runs to states; the rest goes to the middle.

    What the rest lacks to have its mean there comes back from the nearest states of one side.
    """
    gather_side(g, chance, lo, hi, y, middle, -ONE, weights)
    gather_side(g, chance, hi, lo, y, middle, ONE, weights)
    moment = 0.0
    for x in range(lo, hi + 1):
        weights[middle] += chance[x]
        moment += chance[x] * (g + x - y[middle])
    side = -1 if moment > 0.0 else 1
    k = middle + side
    while 0 <= k < y.shape[0] and moment * side < 0.0:
        far = y[k] - y[middle]
        back = min(weights[k], -moment / far)
        weights[k] -= back
        weights[middle] += back
        moment += back * far
        k += side


@compiled
def grid_weights(alpha, beta, unit, rows, start, good, first_knot, below, to, at):
    """Fill to (states,) and at (states + 1,) of runs (`graph.py`), return their weights.

    Above V, or below.

    below: state number k of row i has the posterior mean of knot first_knot[i] + k, in every row.
    """
    chance = np.empty(unit + 1)
    weights = np.zeros(16 * good.shape[0] + unit)
    end = 0
    for i in range(rows):
        for s in range(start[i], start[i + 1]):
            g = good[s]
            beta_binomial(alpha + g, beta + i * unit - g, unit, chance)
            lo, hi = likely(chance, unit)
            first, last = span(good, start[i + 1], start[i + 2], g + lo, g + hi)
            begin, end = end, end + last - first + 1
            if end > weights.shape[0]:
                more = np.zeros(end + weights.shape[0])
                copy(weights[:begin], more)
                weights = more
            to[s], at[s] = first, begin
            y = good[start[i + 1] + first : start[i + 1] + last + 1]
            if below:
                middle = s - start[i] + first_knot[i] - first_knot[i + 1] - first
                gather_below(g, chance, lo, hi, y, middle, weights[begin:end])
            else:
                spread_above(g, chance, lo, hi, y, weights[begin:end])
    to[start[rows] :] = 0
    at[start[rows] :] = end
    return weights[:end].copy()


@compiled
def count_chances(r, b, chance):
    """chance[x - low] of the counts low, low + 1, ...; returns low and how many there are.

    Relative to the likeliest count, up and down, then divided by the sum. Fewer than needed where
    `chance` is too short: then 0, 0.
    """
    q = 1.0 / (b + 1.0)
    mode = int(max(0.0, (r - 1.0) / b))
    room = chance.shape[0]
    down = 0
    p = 1.0
    while mode - down > 0 and p > FAINT_CHANCE:
        x = mode - down
        p *= x / ((r + x - 1.0) * q)
        down += 1
        if down >= room:
            return 0, 0
    low = mode - down
    p = 1.0
    chance[down] = p
    for x in range(mode, low, -1):
        p *= x / ((r + x - 1.0) * q)
        chance[x - 1 - low] = p
    p = 1.0
    count = down + 1
    x = mode
    while p > FAINT_CHANCE:
        p *= (r + x) * q / (x + 1.0)
        x += 1
        if count >= room:
            return 0, 0
        chance[count] = p
        count += 1
    total = 0.0
    for i in range(count):
        total += chance[i]
    for i in range(count):
        chance[i] /= total
    return low, count


@compiled
def count_reach(shape, rate, n, step, size, following, room):
    """Points of the next row, `following` apart, that counts lead to from any state of row n."""
    widest = 1
    chance = np.empty(room)
    for k in range(size):
        low, count = count_chances(shape + k * step, rate + n, chance)
        if count == 0:
            return 0
        begin = (k * step + low) // following
        end = (k * step + low + count - 1 + following - 1) // following
        widest = max(widest, end - begin + 1)
    return widest


@compiled
def count_weights(shape, rate, n, step, size, following, last, wide, room, first, weights, up):
    """Fill first (size,), weights (size, wide) and up (size,) of row n: sums 0, step, 2 step, ...

    The next row has the sums 0 .. last * following, `following` apart.
    """
    chance = np.empty(room)
    for k in range(size):
        total = k * step
        low, count = count_chances(shape + total, rate + n, chance)
        begin = min((total + low) // following, last - wide + 1)
        first[k] = begin
        for i in range(count):
            y = total + low + i
            cell = y // following
            if cell >= last:
                weights[k, last - begin] += chance[i]
                up[k] += chance[i] * (y - last * following)
            else:
                part = (y - cell * following) / following
                weights[k, cell - begin] += chance[i] * (1.0 - part)
                weights[k, cell + 1 - begin] += chance[i] * part
        up[k] /= rate + n + 1.0
