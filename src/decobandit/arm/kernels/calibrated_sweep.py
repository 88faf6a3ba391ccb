"""Whole tables of calibrated indices, from one backward sweep per surcharge.

Sweeps at surcharges c_0 > c_1 > ... In each row of each stage the states with a positive advantage
are an upper set in g (rewards of good outcomes are the larger ones), so it is enough to follow its
lower edge, the *frontier*. A state that the frontier passes between two sweeps has its index in
between, placed by a secant. What the secant needs from the sweep before is kept for the few states
below the frontier. With a tick, the secant is the definition of the index, and as many states are
kept as the frontier may pass at a time.

Where the price path is flat (and there is no tick), a state at its index never gains by waiting;
the value of waiting is then left out of the advantage, which bends sharply just below the crossing.
"""

from typing import NamedTuple

import numpy as np

from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import worth
from ...support import Floats, Ints
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled
from .backward import STAGES_PER_BLOCK, alive_rows, lower, step_row

WINDOW = 4  # states below the frontier whose advantage is remembered, without a tick


@compiled
def stage_start(t):
    """Position of stage t in a table of all stages: the number of states of the stages before."""
    return t * (t + 1) * (t + 2) // 6


@compiled
def crossing(c, c_before, gain, before):
    """Where the line through two advantages, gain > 0 >= before, is zero."""
    return c + (c_before - c) * gain / (gain - before)


@compiled(inline="always")
def room_of(T, terminal):
    """Work space of a sweep over all stages: V, and low, high and ramp of `step_row`."""
    low, high = np.empty(T + 1, np.int64), np.empty(T + 1, np.int64)
    return np.empty(terminal.shape[0]), low, high, np.arange(T + 1.0)


@compiled(inline="always")
def start_sweep(terminal, T, V, low, high):
    """V after the last stage, and its rows."""
    copy(terminal, V)
    alive_rows(V, T, low, high)


@compiled(inline="always")
def _advantage(alpha, inverse, bad, spread, price, g, own, following, flat):
    gain = worth((alpha + g) * inverse, bad - price, spread, 0.0, following[g], following[g + 1])
    return gain if flat else gain - own[g]


@compiled
def _advance(alpha, beta, bad, spread, price, n, V, flat, noise, c, c_before, edge, before, table):
    """Move one row's frontier at surcharge c; before (window,): advantages at c_before.

    `noise`: added to all advantages; a pull that is worse by less is as good as none.

    Returns the new edge: the smallest g whose index is known. table: the row's indices.
    """
    own, following = V[row_start(n) :], V[row_start(n + 1) :]
    inverse = 1.0 / (alpha + beta + n)
    g = edge - 1
    known = 0
    window = before.shape[0]
    while g >= 0:
        gain = _advantage(alpha, inverse, bad, spread, price, g, own, following, flat) + noise
        if gain <= 0.0:
            break
        if known < window and before[known] <= 0.0:
            table[g] = crossing(c, c_before, gain, before[known])
        else:
            table[g] = 0.5 * (c + c_before)
        known += 1
        g -= 1
    edge = g + 1
    for i in range(min(window, edge)):
        gain = _advantage(alpha, inverse, bad, spread, price, edge - 1 - i, own, following, flat)
        before[i] = gain + noise
    return edge


class Front(NamedTuple):
    """What sweeps hand on from one surcharge to the next."""

    edge: Ints  # (rows of the stages of a table,) the frontier
    before: Floats  # (rows of these stages, window) advantages below it at the last surcharge


@compiled
def front_of(bottom, top, window):
    """The frontier above all states of the stages bottom .. top-1."""
    above = row_start(bottom)
    rows = row_start(top) - above
    edge = np.empty(rows, np.int64)
    for t in range(bottom, top):
        for n in range(t + 1):
            edge[row_start(t) - above + n] = n + 1
    return Front(edge, np.ones((rows, window)))


@compiled
def follow(
    alpha,
    beta,
    good,
    bad,
    base,
    weight,
    terminal,
    surcharges,
    flat,
    noise,
    skip,
    front,
    first,
    last,
    bottom,
    top,
    table,
):
    """Fill `table`, of the stages bottom .. top-1, with indices between two surcharges.

    Surcharges fall; here go sweeps first .. last-1 of them, from where `front` stands. `skip`:
    states already in front of the frontier at the first surcharge of all are somebody else's;
    otherwise their index is put there. Returns the number of states whose index was found.
    """
    T = good.shape[0]
    nowhere = np.empty(T + 1)
    V, low, high, ramp = room_of(T, terminal)
    found = 0
    for j in range(first, last):
        c, c_before = surcharges[j], surcharges[max(j - 1, 0)]
        prices = base + c * weight
        start_sweep(terminal, T, V, low, high)
        lower(alpha, beta, good, bad, prices, V, low, high, ramp, T, top)
        others = skip and j == 0
        upper = top
        while upper > bottom:  # blocks of stages, as in `lower`
            depth = min(STAGES_PER_BLOCK, upper - bottom)
            for slant in range(upper):
                for k in range(min(depth, slant + 1)):
                    t, n = upper - 1 - k, slant - k
                    row = row_start(t) - row_start(bottom) + n
                    was, spread = front.edge[row], good[t] - bad[t]
                    here = stage_start(t) - stage_start(bottom) + row_start(n)
                    own = nowhere[: n + 1] if others else table[here : here + n + 1]
                    front.edge[row] = _advance(
                        alpha,
                        beta,
                        bad[t],
                        spread,
                        prices[t],
                        n,
                        V,
                        flat,
                        noise,
                        c,
                        c if others else c_before,
                        was,
                        front.before[row],
                        own,
                    )
                    if not others:
                        found += was - front.edge[row]
                    step_row(alpha, beta, bad[t], spread, prices[t], n, V, low, high, ramp)
            upper -= depth
    return found
