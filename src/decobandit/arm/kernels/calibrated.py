"""Calibrated indices of one arm with good and bad outcomes.

Prices are base_s + c weight_s for s >= t. The advantage of a pull at stage t in state (n, g),

    A(c) = index_t[base + c weight](n, g) - (base_t + c weight_t),

falls from positive to negative as c grows; the calibrated index is where it crosses zero (the
largest such c if there are several, as in one state of five with a deployment; `row_indices` finds
it). base = 0 and weight = 1 give the finite-horizon Gittins index. A single state needs only the
states that can still be reached from it (`advantage`).

Tables take one backward sweep per surcharge, c_0 > c_1 > ... (`follow`). In each row of each stage
the states with a positive advantage are an upper set in g if good outcomes earn more, so it is
enough to follow its lower edge, the *frontier*. A state that the frontier passes between two sweeps
has its index in between, placed by a secant through the advantages stored below the frontier. Under
a flat price path a state at its index never gains by waiting; the value of waiting is then left out
of the advantage, which bends sharply just below the crossing.

With a tick, the advantage is defined by interpolation between the surcharges of a grid: a pull
costs one of two neighbouring surcharges by a lottery drawn after the decision, and the index is the
mean of the lottery at which the arm is indifferent. Then the secant is the definition of the index,
and the index of one state equals that of the table.

Notations, besides those of the package
    c                 surcharge
    surcharges (M,)   falling; with a tick, A is positive at the last and not at the first
"""

from typing import NamedTuple

import numpy as np

from ...problem.kernels.layout import row_start, worth
from ...support import Floats, Ints
from ...support.kernels.arrays import ONE, ZERO, copy
from ...support.kernels.compiled import compiled
from .backward import STAGES_PER_BLOCK, alive_rows, index_terms, lower, step_row, sweep

NOISE = 0.1  # part of the requested accuracy: a pull that is worse by less counts as good as none
WINDOW = 4  # states below the frontier whose advantage is stored, without a tick


class PricedArm(NamedTuple):
    """One arm, its rewards and prices from a stage on."""

    alpha: float
    beta: float
    good: Floats  # (T,) reward of a good outcome
    bad: Floats  # (T,)
    base: Floats  # (T,) price path
    weight: Floats  # (T,) factor of the surcharge
    terminal: Floats  # (slab,) V after the last stage


@compiled
def advantage(arm, c, tol, V):
    """Return A(c) at the first stage of `arm`, in state (0, 0); V: work space, a slab.

    A later state is a fresh arm with another prior: alpha + g, beta + n - g, arrays from stage t.
    """
    copy(arm.terminal, V)
    prices = arm.base + c * arm.weight
    sweep(arm.alpha, arm.beta, arm.good, arm.bad, prices, V, arm.good.shape[0], ONE)
    ell, delta = index_terms(arm.alpha, arm.beta, arm.good[0], arm.bad[0], ZERO, ZERO, V)
    return ell + delta - prices[0] + NOISE * tol


@compiled
def stage_start(t):
    """Position of stage t in a table of all stages: the number of states of the stages before."""
    return t * (t + 1) * (t + 2) // 6


@compiled
def crossing(c, c_before, gain, before):
    """Zero of the line through two advantages, gain > 0 >= before."""
    return c + (c_before - c) * gain / (gain - before)


@compiled(inline="always")
def _work_space(T, terminal):
    """V, and low, high and ramp of `step_row`, for a sweep over all stages."""
    low, high = np.empty(T + 1, np.int64), np.empty(T + 1, np.int64)
    return np.empty(terminal.shape[0]), low, high, np.arange(T + 1.0)


@compiled(inline="always")
def _advantage(alpha, inverse, bad, spread, price, g, own, following, flat):
    gain = worth((alpha + g) * inverse, bad - price, spread, 0.0, following[g], following[g + 1])
    return gain if flat else gain - own[g]


@compiled
def _advance(alpha, beta, bad, spread, price, n, V, flat, noise, c, c_before, edge, before, table):
    """Move one row's frontier at surcharge c; before (window,): advantages at c_before.

    `noise`: added to all advantages; a pull that is worse by less is as good as none.

    Returns the new edge: the smallest g whose index is set. table: the row's indices.
    """
    own, following = V[row_start(n) :], V[row_start(n + 1) :]
    inverse = 1.0 / (alpha + beta + n)
    g = edge - 1
    passed = 0
    window = before.shape[0]
    while g >= 0:
        gain = _advantage(alpha, inverse, bad, spread, price, g, own, following, flat) + noise
        if gain <= 0.0:
            break
        if passed < window and before[passed] <= 0.0:
            table[g] = crossing(c, c_before, gain, before[passed])
        else:
            table[g] = 0.5 * (c + c_before)
        passed += 1
        g -= 1
    edge = g + 1
    for i in range(min(window, edge)):
        gain = _advantage(alpha, inverse, bad, spread, price, edge - 1 - i, own, following, flat)
        before[i] = gain + noise
    return edge


class Front(NamedTuple):
    """State that sweeps carry from one surcharge to the next."""

    edge: Ints  # (rows of the stages of a table,) the frontier
    before: Floats  # (rows of these stages, window) advantages below it at the last surcharge


@compiled
def front_of(bottom, top, window):
    """Return the frontier above all states of the stages bottom .. top-1."""
    above = row_start(bottom)
    rows = row_start(top) - above
    edge = np.empty(rows, np.int64)
    for t in range(bottom, top):
        for n in range(t + 1):
            edge[row_start(t) - above + n] = n + 1
    return Front(edge, np.ones((rows, window)))


@compiled
def follow(arm, surcharges, flat, noise, skip, front, first, last, bottom, top, table):
    """Fill `table`, of the stages bottom .. top-1, with indices between two surcharges.

    Surcharges fall; this call makes sweeps first .. last-1 of them, starting from `front`. `skip`:
    states above the frontier at the first surcharge of all belong to another thread; otherwise
    their index is put there. Returns the number of states whose index was set.
    """
    T = arm.good.shape[0]
    unused = np.empty(T + 1)
    V, low, high, ramp = _work_space(T, arm.terminal)
    count = 0
    for j in range(first, last):
        c, c_before = surcharges[j], surcharges[max(j - 1, 0)]
        prices = arm.base + c * arm.weight
        copy(arm.terminal, V)
        alive_rows(V, T, low, high)
        lower(arm.alpha, arm.beta, arm.good, arm.bad, prices, V, low, high, ramp, T, top)
        skipped = skip and j == 0
        upper = top
        while upper > bottom:  # blocks of stages, as in `lower`
            depth = min(STAGES_PER_BLOCK, upper - bottom)
            for slant in range(upper):
                for k in range(min(depth, slant + 1)):
                    t, n = upper - 1 - k, slant - k
                    row = row_start(t) - row_start(bottom) + n
                    edge, bad = front.edge[row], arm.bad[t]
                    pull = (arm.alpha, arm.beta, bad, arm.good[t] - bad, prices[t], n, V)
                    here = stage_start(t) - stage_start(bottom) + row_start(n)
                    own = unused[: n + 1] if skipped else table[here : here + n + 1]
                    surcharge = (c, c if skipped else c_before)
                    front.edge[row] = _advance(
                        *pull, flat, noise, *surcharge, edge, front.before[row], own
                    )
                    if not skipped:
                        count += edge - front.edge[row]
                    step_row(*pull, low, high, ramp)
            upper -= depth
    return count


@compiled
def tick_table(arm, surcharges, tol, table):
    """Fill the index with a tick of all states of all stages, laid out by `stage_start`.

    Visits every state in every sweep: for arms whose index need not grow with good outcomes.
    """
    T = arm.good.shape[0]
    V, low, high, ramp = _work_space(T, arm.terminal)
    before = np.zeros(table.shape[0])
    table[:] = np.nan
    for j in range(surcharges.shape[0]):
        c = surcharges[j]
        copy(arm.terminal, V)
        alive_rows(V, T, low, high)
        for t in range(T - 1, -1, -1):
            price, bad = arm.base[t] + c * arm.weight[t], arm.bad[t]
            spread = arm.good[t] - bad
            for n in range(t + 1):
                own, following = V[row_start(n) :], V[row_start(n + 1) :]
                here = stage_start(t) + row_start(n)
                for g in range(n + 1):
                    p = (arm.alpha + g) / (arm.alpha + arm.beta + n)
                    gain = worth(p, bad - price, spread, own[g], following[g], following[g + 1])
                    gain += NOISE * tol
                    if gain > 0.0 and np.isnan(table[here + g]):
                        last = c if j == 0 else surcharges[j - 1]
                        table[here + g] = crossing(c, last, gain, before[here + g])
                    before[here + g] = gain
                step_row(arm.alpha, arm.beta, bad, spread, price, n, V, low, high, ramp)
    return np.isnan(table).sum()
