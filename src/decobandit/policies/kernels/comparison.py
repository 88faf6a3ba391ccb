"""Probabilities that compare independent posteriors: beta laws on a grid, other laws as tables.

    P(arm a best)               = integral of f_a prod_{b != a} F_b
    P(p_a > p_c + margin)       = integral of f_c(x) (1 - F_a(x + margin))
    P(largest - least < margin) = sum_a integral of f_a(x) prod_{b != a} (F_b(x + margin) - F_b(x))

Beta laws share one grid for all states, in theta:

    p = sin^2(theta / 2)      density of theta: p^(a - 1/2) (1 - p)^(b - 1/2) / B(a, b)

A posterior of n outcomes then has standard deviation 1 / sqrt(n), wherever it lies. The grid has
panels of Q Gauss-Legendre nodes; F is the integral of the polynomial through a panel's nodes.

A table has knots x_0 < x_1 < .. with values F and slopes: cubic between two knots, 0 before the
first and 1 after the last. Between the knots of all tables the integrands are polynomials, and
Gauss-Legendre quadrature is used.

Notations
    E, K      joint states; arms
    N, Q      panels; nodes of each. Node j = panel * Q + i
    rows      of states: a window of panels, outside of which the density is below e^-26
    mass      f times weight at the nodes of a window
    below     F at the nodes of a window
    shifted   F at nodes plus the margin, where these come into the window
    place     (E, K) row or table of each arm in each joint state; negative: the arm is left out
    x, f, m   knots, values and slopes of all tables, one after the other
    start     (S + 1,) first knot of each table
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.compiled import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NEGLIGIBLE_LOG = -26.0  # of a density: the mass beyond is below 1e-10
QUICK = {"contract", "nsz", "reassoc"}  # sums over nodes in any order
NODES = np.array([-0.8611363115940526, -0.3399810435848563, 0.3399810435848563, 0.8611363115940526])
WEIGHTS = np.array([0.3478548451374538, 0.6521451548625461, 0.6521451548625461, 0.3478548451374538])


class Grid(NamedTuple):
    """Panels and nodes, and where nodes lie when they are shifted by a margin."""

    edge_p: Floats  # (N + 1,) log p at the edges of panels
    edge_q: Floats  # (N + 1,) log(1 - p)
    log_p: Floats  # (N Q,)
    log_q: Floats  # (N Q,)
    weight: Floats  # (N Q,)
    half: Floats  # (N,) half the width of a panel
    integral: Floats  # (Q, Q) integral up to node i of the polynomial that is 1 at node k
    panel: Ints  # (N Q,) where node + margin lies; -1: below 0; N: above 1
    shift: Floats  # (N Q, Q) weights of the polynomial through that panel's nodes


class Rows(NamedTuple):
    """Posteriors on the grid."""

    first: Ints  # (U,) first panel of the window
    last: Ints  # (U,) one after the last
    mass: Floats  # (U, N Q) f times weight at the nodes: 0 outside the window
    below: Floats  # (U, N Q) F at the nodes: 0 before the window, 1 after it
    shifted: Floats  # (U, N Q) F at the nodes plus the margin; (U, 0) for `best`
    between: Floats  # (U, N Q) that, less F at the nodes; likewise


# -- beta laws ----------------------------------------------------------------------------------


@compiled
def windows(grid, a, b, log_beta, first, last):
    """Panels of every posterior whose density is not negligible; those with the mode are."""
    for u in range(a.shape[0]):
        x, y = a[u] - 0.5, b[u] - 0.5
        odds = math.log(max(x, 1e-300) / max(y, 1e-300))
        first[u], last[u], before = -1, 0, False
        for k in range(grid.half.shape[0]):  # log-odds rise along the edges
            p, q = grid.edge_p[k + 1], grid.edge_q[k + 1]
            # x log p + y log q - log B(a, b), with 0 log 0 = 0
            log_density = (0.0 if x == 0.0 else x * p) + (0.0 if y == 0.0 else y * q) - log_beta[u]
            after = log_density > NEGLIGIBLE_LOG
            mode = p - q > odds >= grid.edge_p[k] - grid.edge_q[k]
            if before or after or mode:
                first[u] = k if first[u] < 0 else first[u]
                last[u] = k + 1
            before = after


@compiled(fastmath=QUICK)
def fill(grid, a, b, log_beta, rows):
    """Mass and distribution functions of posteriors; rows.mass and rows.below are zero before."""
    Q = grid.integral.shape[0]
    density = np.empty(Q)
    for u in range(a.shape[0]):
        x, y, total = a[u] - 0.5, b[u] - 0.5, 0.0
        mass, below, first, last = rows.mass[u], rows.below[u], rows.first[u], rows.last[u]
        for k in range(first, last):
            for i in range(Q):
                j = k * Q + i
                density[i] = math.exp(x * grid.log_p[j] + y * grid.log_q[j] - log_beta[u])
                mass[j] = density[i] * grid.weight[j]
            for i in range(Q):
                part = 0.0
                for m in range(Q):
                    part += grid.integral[i, m] * density[m]
                below[k * Q + i] = total + grid.half[k] * part
            for i in range(Q):
                total += mass[k * Q + i]
        below[last * Q :] = 1.0
        for j in range(rows.shifted.shape[1]):
            k, value = grid.panel[j], 0.0
            if k >= last:
                value = 1.0
            elif k >= first:
                for i in range(Q):
                    value += grid.shift[j, i] * below[k * Q + i]
            rows.shifted[u, j] = min(max(value, 0.0), 1.0)
            rows.between[u, j] = max(rows.shifted[u, j] - below[j], 0.0)


@compiled(inline="always")
def _integrate(rows, arms, rival, begin, end, factor, before, after, total):
    """Integrals of f of every arm times a factor of all other arms and of a rival: total (R,).

    arms (R,), rival: rows; a negative rival is none. factor (U, N Q); begin, end: nodes. The
    factors of all other arms are those of the arms before times those of the arms after.
    """
    R, n = arms.shape[0], end - begin
    for i in range(n):
        before[0, i] = 1.0
        after[i] = factor[rival, begin + i] if rival >= 0 else 1.0
    for r in range(R - 1):
        own = factor[arms[r]]
        for i in range(n):
            before[r + 1, i] = before[r, i] * own[begin + i]
    for r in range(R - 1, -1, -1):
        part, mass, own = 0.0, rows.mass[arms[r]], factor[arms[r]]
        for i in range(n):
            part += mass[begin + i] * before[r, i] * after[i]
            after[i] *= own[begin + i]
        total[r] = part


@compiled(fastmath=QUICK)
def best(grid, rows, place, probability):
    """P(arm best) of the arms that are not left out, (E, K); 0 for the others.

    They add up to 1: the arm whose window ends last, mostly the likeliest one, has the remainder.
    """
    Q, M, (E, K) = grid.integral.shape[0], grid.weight.shape[0], place.shape
    before, after, total = np.empty((K, M)), np.empty(M), np.empty(K)
    arms, position = np.empty(K, np.int64), np.empty(K, np.int64)
    for e in range(E):
        likeliest, begin, top, second = -1, 0, -1, -1
        for a in range(K):
            probability[e, a] = 0.0
            u = place[e, a]
            if u >= 0:
                begin = max(begin, rows.first[u])
                if rows.last[u] > top:
                    likeliest, top, second = a, rows.last[u], top
                else:
                    second = max(second, rows.last[u])
        if likeliest < 0:
            continue
        number = 0
        for a in range(K):  # an arm whose window ends before another begins cannot be best
            if a != likeliest and place[e, a] >= 0 and rows.last[place[e, a]] > begin:
                arms[number], position[number] = place[e, a], a
                number += 1
        left, end = 1.0, max(begin, second) * Q
        rival = place[e, likeliest]
        _integrate(rows, arms[:number], rival, begin * Q, end, rows.below, before, after, total)
        for r in range(number):
            probability[e, position[r]] = min(total[r], left)
            left -= probability[e, position[r]]
        probability[e, likeliest] = left


@compiled(fastmath=QUICK)
def better(control, grid, rows, place, probability):
    """P(p_a > p_control + margin) of the arms that are not left out, (E, K).

    1 - the integral of f_c F_a(x + margin).
    """
    Q, (E, K) = grid.integral.shape[0], place.shape
    for e in range(E):
        u = place[e, control]
        mass = rows.mass[u]
        for a in range(K):
            total = 0.0
            if a != control and place[e, a] >= 0:
                shifted = rows.shifted[place[e, a]]
                for j in range(rows.first[u] * Q, rows.last[u] * Q):
                    total += mass[j] * (1.0 - shifted[j])
            probability[e, a] = min(max(total, 0.0), 1.0)


@compiled(fastmath=QUICK)
def alike(grid, rows, place, probability):
    """P(largest - least < margin) over the arms that are not left out, (E,)."""
    Q, M, (E, K) = grid.integral.shape[0], grid.weight.shape[0], place.shape
    before, after, total = np.empty((K, M)), np.empty(M), np.empty(K)
    arms = np.empty(K, np.int64)
    for e in range(E):
        number, begin, end = 0, M // Q, 0
        for a in range(K):
            u = place[e, a]
            if u >= 0:
                arms[number] = u
                begin, end = min(begin, rows.first[u]), max(end, rows.last[u])
                number += 1
        begin, end = min(begin, end) * Q, end * Q
        _integrate(rows, arms[:number], -1, begin, end, rows.between, before, after, total)
        probability[e] = min(total[:number].sum(), 1.0) if number else 0.0


# -- tables -------------------------------------------------------------------------------------


@compiled
def evaluate(x, f, m, first, last, at, y, step):
    """Value and slope of a table at y + step, which is not formed, between knots at - 1 and at."""
    if at <= first:
        return 0.0, 0.0
    if at >= last:
        return 1.0, 0.0
    h = x[at] - x[at - 1]
    s = ((y - x[at - 1]) + step) / h
    u, rise = 1.0 - s, f[at] - f[at - 1]
    one, two = m[at - 1] * h - rise, m[at] * h - rise
    value = f[at - 1] + s * rise + s * u * (u * one - s * two)
    slope = rise + (u * (u - 2.0 * s)) * one - (s * (2.0 * u - s)) * two
    return min(max(value, 0.0), 1.0), max(slope, 0.0) / h


@compiled
def table_values(x, f, m, start, place, points, below):
    """Values of the tables place (E, J) at points (E, M): below (E, J, M)."""
    for e in range(place.shape[0]):
        for j in range(place.shape[1]):
            first, last = start[place[e, j]], start[place[e, j] + 1]
            for i in range(points.shape[1]):
                y = points[e, i]
                at = first + np.searchsorted(x[first:last], y, side="right")
                below[e, j, i], _ = evaluate(x, f, m, first, last, at, y, 0.0)


@compiled
def products_of_tables(x, f, m, start, place, lowered, probability):
    """Integrals of dF of every arm times a factor of each other arm that is not left out, (E, K).

    The factor is F, or what the table `lowered` (E, K), which is F shifted down, has above it.
    """
    E, K = place.shape
    both, at = np.empty(2 * K, np.int64), np.empty(2 * K, np.int64)
    factor, slope, share = np.empty(K), np.empty(K), np.empty(K)
    for e in range(E):
        both[:K], both[K:], probability[e] = place[e], lowered[e], 0.0
        y = restart(x, start, both, at)
        while True:
            end = advance(x, start, both, at, y)
            if end == np.inf:
                break
            half = 0.5 * (end - y)
            for g in range(NODES.size):
                step, total = half * (1.0 + NODES[g]), 1.0
                for k in range(K):
                    s = place[e, k]
                    if s >= 0:
                        below, slope[k] = evaluate(x, f, m, start[s], start[s + 1], at[k], y, step)
                        factor[k], share[k] = below, total  # product of those before it
                        s = lowered[e, k]
                        if s >= 0:
                            above, _ = evaluate(x, f, m, start[s], start[s + 1], at[K + k], y, step)
                            factor[k] = max(above - below, 0.0)
                        total *= factor[k]
                total = half * WEIGHTS[g]
                for k in range(K - 1, -1, -1):
                    if place[e, k] >= 0:
                        probability[e, k] += slope[k] * share[k] * total
                        total *= factor[k]
            y = end


@compiled
def restart(x, start, place, at):
    """The first knot of all tables; at (K,): the next one of each."""
    y = np.inf
    for k in range(place.size):
        if place[k] >= 0:
            at[k] = start[place[k]]
            y = min(y, x[at[k]])
    return y


@compiled
def advance(x, start, place, at, y):
    """The next knot after y of all tables; infinite after the last. at: that of each."""
    end = np.inf
    for k in range(place.size):
        if place[k] >= 0:
            last = start[place[k] + 1]
            while at[k] < last and x[at[k]] <= y:
                at[k] += 1
            if at[k] < last:
                end = min(end, x[at[k]])
    return end
