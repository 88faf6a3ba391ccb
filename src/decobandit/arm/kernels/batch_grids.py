"""What one unit does to the states of a grid: chances moved to the states that are there.

A grid has a few states per row, at y_0 < y_1 < .. good outcomes, not always whole numbers. One unit
of u pulls takes a state at g to g + x, x = 0 .. u, with beta-binomial chances. These atoms are
moved to states of the next row, their mean kept:

    above   every atom goes to the two states around it, as on the chord between them.
            E[f] of a convex f does not fall.
    below   runs of atoms whose mean is a state go to that state, the rest to the state at the mean
            of all. E[f] of a convex f does not rise (Jensen).
"""

import numpy as np

from ...support.kernels.arrays import ONE, copy
from ...support.kernels.compiled import compiled
from .batches import beta_binomial

NOTHING = 1e-19  # chances below this are left out: all of them together are rounding


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
    """Runs of atoms go to the states on one side of y[middle], from the outermost inwards.

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
def grid_weights(alpha, beta, unit, rows, start, good, first_knot, below, reach):
    """Fill reach (states + 1, 2) and return weights (1, successors): above V, or below.

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
            reach[s, 0], reach[s, 1] = first, begin
            y = good[start[i + 1] + first : start[i + 1] + last + 1]
            if below:
                middle = s - start[i] + first_knot[i] - first_knot[i + 1] - first
                gather_below(g, chance, lo, hi, y, middle, weights[begin:end])
            else:
                spread_above(g, chance, lo, hi, y, weights[begin:end])
    reach[start[rows] :, 0] = 0
    reach[start[rows] :, 1] = end
    return weights[:end].copy().reshape(1, end)
