"""The calibrated index with a tick: the advantage is known at the surcharges of a grid only.

Between two neighbouring surcharges it is interpolated, and the index is the largest surcharge at
which the interpolated advantage crosses zero. In other words, a pull costs one of two neighbouring
surcharges, by a lottery that is drawn after the decision, and the index is the mean of the lottery
at which the arm is indifferent. The number of sweeps is then a matter of definition, not of
accuracy: one state's index and a table's are the same number.

Notations, besides those of `calibrated_root`
    surcharges (M,)   falling, one tick apart; A is positive at the last, not at the first
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import worth
from ...support.kernels.compiled import compiled
from .backward import step_row
from .calibrated_root import NOISE, advantage
from .calibrated_sweep import crossing, room_of, stage_start, start_sweep


@compiled
def tick_index(alpha, beta, good, bad, base, weight, terminal, surcharges, tol, V):
    """The index at the first of the stages given, of an arm in state (0, 0); as `advantage`."""
    before = 0.0
    for j in range(surcharges.shape[0]):
        c = surcharges[j]
        gain = advantage(alpha, beta, good, bad, base, weight, terminal, c, tol, V)
        if gain > 0.0:
            return c if j == 0 else crossing(c, surcharges[j - 1], gain, before)
        before = gain
    return surcharges[-1]


@compiled
def tick_table(alpha, beta, good, bad, base, weight, terminal, surcharges, tol, table):
    """The index of all states of all stages, whether or not it grows with good outcomes.

    table: as `stage_start` lays it out. All states are looked at in every sweep: for arms that
    `follow` is not made for.
    """
    T = good.shape[0]
    V, low, high, ramp = room_of(T, terminal)
    before = np.zeros(table.shape[0])
    table[:] = np.nan
    for j in range(surcharges.shape[0]):
        c = surcharges[j]
        start_sweep(terminal, T, V, low, high)
        for t in range(T - 1, -1, -1):
            price, spread = base[t] + c * weight[t], good[t] - bad[t]
            for n in range(t + 1):
                own, following = V[row_start(n) :], V[row_start(n + 1) :]
                here = stage_start(t) + row_start(n)
                for g in range(n + 1):
                    p = (alpha + g) / (alpha + beta + n)
                    gain = worth(p, bad[t] - price, spread, own[g], following[g], following[g + 1])
                    gain += NOISE * tol
                    if gain > 0.0 and np.isnan(table[here + g]):
                        last = c if j == 0 else surcharges[j - 1]
                        table[here + g] = crossing(c, last, gain, before[here + g])
                    before[here + g] = gain
                step_row(alpha, beta, bad[t], spread, price, n, V, low, high, ramp)
    return np.isnan(table).sum()
