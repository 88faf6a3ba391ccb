"""Calibrated indices of one arm over its states in rows: advantages and their largest zeros.

The advantage of a pull at stage t is D_t = Q_t - V_{t+1}: the value of a pull less that of none. It
is computed as such, not as a difference of two values:

    D_{T-1}(s) = r_{T-1}(s) + E[V_T(s')] - V_T(s)
    D_t(s)     = r_t(s) - r_{t+1}(s) + E[D_{t+1}(s')^+] - D_{t+1}(s)^-        t < T - 1

r_t being the reward of a pull less its charge c w_t,

so it is not negative by rounding where a pull can as well be made a stage later, and not lost where
it falls with the stages left as 2^-(T-t).

Q_t and V_{t+1} are convex in c. Between two surcharges each is below its chord and above its
tangents, which bounds the advantage from both sides, and with it the largest surcharge at which the
advantage is not negative (`narrow`).

Notations, besides those of `graph`
    c             surcharge, in the unit of the rewards that are passed
    w (T,)        weight of the surcharge: probability that a stage is played
    place (T,)    where the states of a stage begin in `out`; negative: they are not stored
    out (2, N)    Q and dQ/dc; or (4, N): D, dQ/dc, V_{t+1} and dV_{t+1}/dc
"""

import numpy as np

from ...support.kernels.arrays import ZERO
from ...support.kernels.compiled import compiled
from .graph import row_back

NO_SLOPE = 0.0
HALVINGS = 12


@compiled
def advantages(
    graph, mean, base, factor, final, rise, fall, weight, above, below, lowest, place, D, V, dV, out
):
    """Go from stage `above` down to `below`, in rows `lowest` and beyond.

    A pull earns base + factor * mean less its charge, c weight, which is part of base. final: V_T,
    and its slope in c. rise, fall (T,): what V_{t+1} gains beyond the ends of a grid that V_{t+2}
    does not; of the last stage, what V_T gains. D, V, dV (states,): of stage `above`; room where
    that is the end.
    """
    start, T = graph.start, base.shape[0]
    widest = 0
    for n in range(start.shape[0] - 1):
        widest = max(widest, start[n + 1] - start[n])
    gained, slope, ahead = np.empty(widest), np.empty(widest), np.empty(widest)
    if above == T:
        V[:] = final[0]
        dV[:] = final[1]
    for t in range(above - 1, below - 1, -1):
        # from the last stage values are taken, from others advantages that are positive
        source, least = (V, -np.inf) if t == T - 1 else (D, 0.0)
        for n in range(lowest, t + 1):
            low, end, stop = start[n], start[n + 1], start[n + 2]
            for k in range(stop - end):
                ahead[k] = max(source[end + k], least)
            row_back(graph, n, ZERO, end - low, rise[t], fall[t], ahead[: stop - end], gained)
            row_back(graph, n, ZERO, end - low, NO_SLOPE, NO_SLOPE, dV[end:stop], slope)
            for k in range(end - low):
                s = low + k
                if t == T - 1:
                    D[s] = base[t] + factor[t] * mean[s] + (gained[k] - V[s])
                else:
                    step = base[t] - base[t + 1] + (factor[t] - factor[t + 1]) * mean[s]
                    D[s] = step + gained[k] + min(D[s], 0.0)
                pulled = slope[k] - weight[t]
                if place[t] >= 0:
                    i = place[t] + s
                    out[1, i] = pulled
                    if out.shape[0] == 2:
                        out[0, i] = D[s] + V[s]
                    else:
                        out[0, i], out[2, i], out[3, i] = D[s], V[s], dV[s]
                if D[s] > 0.0:
                    V[s] += D[s]
                    dV[s] = pulled


@compiled(inline="always")
def tangents(width, f0, f1, d0, d1):
    """Meeting point of the tangents of a convex function at the ends of an interval, from the left.

    Also the height of the chord above it.
    """
    x = 0.5 * width
    if d1 > d0:
        x = min(max((f1 - f0 - d1 * width) / (d0 - d1), 0.0), width)
    return x, max(x * ((f1 - f0) / width - d0), 0.0)


@compiled(inline="always")
def zero_of(x0, x1, f0, f1):
    """Zero of the line through (x0, f0) and (x1, f1), f0 >= 0 > f1."""
    return x0 + (x1 - x0) * (max(f0, 0.0) / (max(f0, 0.0) - f1))


@compiled(inline="always")
def smooth_zero(lower, upper, width, g0, g1, d0, d1):
    """Zero between `lower` and `upper` of the cubic with these values and slopes at 0 and width."""
    low, high = lower, upper
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        x = middle / width
        y = 1.0 - x
        line = y * g0 + x * g1
        bend = x * y * (y * (d0 * width - g1 + g0) - x * (d1 * width - g1 + g0))
        if line + bend >= 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def narrow(a, b, at_a, at_b, noise, accuracy, guess, last, index):
    """Find largest zeros between two surcharges, a < b, of states whose index is nan.

    Advantages above -noise are not negative; at b, all are. An index is stored that is known to
    `accuracy`, or for which two estimates differ by at most `guess`; in the `last` call, wherever
    the sign changes. Returns how many may be in the interval and are not stored, and a surcharge at
    which to look next.
    """
    width, left, at = b - a, 0, 0.5 * (a + b)
    full = at_a.shape[0] == 4
    for i in range(index.shape[0]):
        if not np.isnan(index[i]):
            continue
        g0, g1 = at_a[0, i], at_b[0, i]
        w0 = w1 = v0 = v1 = 0.0
        if full:
            w0, w1, v0, v1 = at_a[2, i], at_b[2, i], at_a[3, i], at_b[3, i]
        # from above: the chord of Q, less the tangents of V
        x, gap = tangents(width, w0, w1, v0, v1)
        most = g0 + (g1 - g0) * (x / width) + gap
        if g0 < -noise and (most < -noise or last):
            continue
        upper = zero_of(x, width, most, g1) if most >= -noise else zero_of(0.0, x, g0, most)
        if g0 < -noise:
            left += 1
            at = a + x
            continue
        # from below: the tangents of Q, less the chord of V
        y, gap = tangents(width, g0 + w0, g1 + w1, at_a[1, i], at_b[1, i])
        least = g0 + (g1 - g0) * (y / width) - gap
        lower = zero_of(y, width, least, g1) if least >= -noise else zero_of(0.0, y, g0, least)
        between = 0.5 * (lower + upper)
        close = upper - lower <= accuracy
        if not close and (last or guess > 0.0):
            d0, d1 = at_a[1, i], at_b[1, i]
            smooth = smooth_zero(lower, upper, width, g0 + w0, g1 + w1, d0, d1)
            if w1 > 0.0 or w0 + v0 * smooth > 0.0:  # no pull is worth something at the zero, too
                smooth = smooth_zero(lower, upper, width, g0, g1, d0 - v0, d1 - v1)
            close = last or abs(smooth - between) <= guess
            between = smooth
        if close:
            index[i] = a + between
        else:
            left += 1
            at = a + lower
    return left, at
