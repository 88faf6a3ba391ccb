"""Chances of beta posteriors against each other, by quadrature on one grid for all states.

    p = sin^2(theta / 2)      density of theta: p^(a - 1/2) (1 - p)^(b - 1/2) / B(a, b)

On this scale a posterior of n outcomes has standard deviation 1 / sqrt(n), wherever it lies. The
grid has panels of Q Gauss-Legendre nodes; a distribution function comes from the integral of the
polynomial through the nodes of a panel.

    P(arm a best)              = integral of f_a prod_{b != a} F_b
    P(p_a > p_c + margin)      = integral of f_c(x) (1 - F_a(x + margin))
    P(largest - least < margin) = sum_a integral of f_a(x) prod_{b != a} (F_b(x + margin) - F_b(x))

Notations
    N, Q      panels; nodes of each. Node j = panel * Q + i
    rows      of states: a window of panels, outside of which the density is below e^-26
    mass      f times weight at the nodes of a window
    below     F at the nodes of a window
    moved     F at nodes plus the margin, where these come into the window
    place     (E, K) row of each arm in each of E joint states; negative: the arm is left out
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.compiled import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NEGLIGIBLE = -26.0  # logarithm of a density: the mass beyond is below 1e-10
QUICK = {"contract", "nsz", "reassoc"}  # sums over nodes in any order


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
    """Posteriors on the grid; U rows, of which some may be free yet."""

    first: Ints  # (U,) first panel of the window
    last: Ints  # (U,) one after the last
    start: Ints  # (U,) of its nodes in mass and below
    mass: Floats
    below: Floats
    moved_first: Ints  # (U,) first panel whose nodes, plus the margin, come into the window
    moved_last: Ints  # (U,) one after the last, or after the window
    moved_start: Ints  # (U,) of the nodes of panels moved_first..moved_last-1
    moved: Floats  # F at these nodes plus the margin
    between: Floats  # that, less F at the nodes


@compiled
def windows(grid, a, b, log_beta, first, last):
    """Panels of every posterior whose density is not negligible."""
    N = grid.half.shape[0]
    for u in range(a.shape[0]):
        x, y = a[u] - 0.5, b[u] - 0.5
        # log-odds rise along the edges; from the mode outward densities fall
        odds = math.log(max(x, 1e-300) / max(y, 1e-300))
        low, high = 0, N
        while high - low > 1:
            middle = (low + high) // 2
            if grid.edge_p[middle] - grid.edge_q[middle] > odds:
                high = middle
            else:
                low = middle
        while low > 0 and (
            _log_density(grid.edge_p[low], grid.edge_q[low], x, y, log_beta[u]) > NEGLIGIBLE
        ):
            low -= 1
        while high < N and (
            _log_density(grid.edge_p[high], grid.edge_q[high], x, y, log_beta[u]) > NEGLIGIBLE
        ):
            high += 1
        first[u], last[u] = low, high


@compiled(inline="always")
def _log_density(log_p, log_q, x, y, log_beta):
    """At an end of the scale a power of zero is nothing, not infinitely small times nothing."""
    one = 0.0 if x == 0.0 else x * log_p
    two = 0.0 if y == 0.0 else y * log_q
    return one + two - log_beta


@compiled(fastmath=QUICK)
def fill(grid, a, b, log_beta, rows, begin):
    """Mass and distribution function of posteriors at the nodes of their windows; rows begin.."""
    Q = grid.integral.shape[0]
    density = np.empty(Q)
    for e in range(a.shape[0]):
        u = begin + e
        x, y, at, total = a[e] - 0.5, b[e] - 0.5, rows.start[u], 0.0
        for k in range(rows.first[u], rows.last[u]):
            for i in range(Q):
                j = k * Q + i
                density[i] = math.exp(x * grid.log_p[j] + y * grid.log_q[j] - log_beta[e])
                rows.mass[at + i] = density[i] * grid.weight[j]
            for i in range(Q):
                part = 0.0
                for m in range(Q):
                    part += grid.integral[i, m] * density[m]
                rows.below[at + i] = total + grid.half[k] * part
            for i in range(Q):
                total += rows.mass[at + i]
            at += Q


@compiled
def moved_windows(grid, first, last, moved_first, moved_last):
    """Panels in a window, and those whose nodes come into it when the margin is added."""
    Q = grid.integral.shape[0]
    for u in range(first.shape[0]):
        # nodes in order have targets in order
        node = np.searchsorted(grid.panel, first[u], side="left")
        moved_first[u] = min(node // Q, first[u])
        node = np.searchsorted(grid.panel, last[u], side="left")
        moved_last[u] = max((node + Q - 1) // Q, last[u])


@compiled(fastmath=QUICK)
def fill_moved(grid, rows, begin, end):
    """F at the nodes plus the margin, and that less F, of rows begin..end-1."""
    Q = grid.integral.shape[0]
    for u in range(begin, end):
        at = rows.moved_start[u]
        for j in range(rows.moved_first[u] * Q, rows.moved_last[u] * Q):
            k, value = grid.panel[j], 0.0
            if k >= rows.last[u]:
                value = 1.0
            elif k >= rows.first[u]:
                own = rows.start[u] + (k - rows.first[u]) * Q
                for i in range(Q):
                    value += grid.shift[j, i] * rows.below[own + i]
            value = min(max(value, 0.0), 1.0)
            here = j - rows.first[u] * Q
            rows.moved[at] = value
            low = 0.0 if here < 0 else 1.0
            if 0 <= here < (rows.last[u] - rows.first[u]) * Q:
                low = rows.below[rows.start[u] + here]
            rows.between[at] = max(value - low, 0.0)
            at += 1


# -- chances ------------------------------------------------------------------------------------


@compiled(inline="always")
def _chance_of(rows, place, a, begin, end, factor, start, first, value):
    """The integral, over panels begin..end-1, of f_a times a factor of every other arm.

    factor, start, first: at the nodes of windows that begin at or before `begin`; from the last
    panel of an arm on its factor is 1.
    """
    Q, u, total = value.shape[0], place[a], 0.0
    for k in range(begin, end):
        at = rows.start[u] + (k - rows.first[u]) * Q
        for i in range(Q):
            value[i] = rows.mass[at + i]
        for b in range(place.shape[0]):
            v = place[b]
            if b != a and v >= 0 and k < rows.last[v]:
                other = start[v] + (k - first[v]) * Q
                for i in range(Q):
                    value[i] *= factor[other + i]
        for i in range(Q):
            total += value[i]
    return total


@compiled(fastmath=QUICK)
def _best_of(rows, place, a, value):
    """P(arm a best) in one joint state, place (K,)."""
    begin, end = rows.first[place[a]], rows.last[place[a]]
    for b in range(place.shape[0]):  # below the window of another arm there is no chance
        if place[b] >= 0:
            begin = max(begin, rows.first[place[b]])
    return _chance_of(rows, place, a, begin, end, rows.below, rows.start, rows.first, value)


@compiled
def best(grid, rows, place, chance):
    """P(arm best) of the arms that are not left out, (E, K); 0 for the others.

    They add up to 1: the arm whose window ends last, mostly the likeliest one, has what is left.
    """
    E, K = place.shape
    value = np.empty(grid.integral.shape[0])
    for e in range(E):
        rest, top, left = -1, -1, 1.0
        for a in range(K):
            chance[e, a] = 0.0
            if place[e, a] >= 0 and rows.last[place[e, a]] > top:
                rest, top = a, rows.last[place[e, a]]
        for a in range(K):
            if a != rest and place[e, a] >= 0:
                chance[e, a] = min(_best_of(rows, place[e], a, value), left)
                left -= chance[e, a]
        if rest >= 0:
            chance[e, rest] = left


@compiled(fastmath=QUICK)
def better(grid, rows, place, control, chance):
    """P(p_a > p_control + margin) of the arms that are not left out, (E, K).

    1 - the integral of f_c F_a(x + margin): F_a is 0 below the moved window, 1 above it.
    """
    Q, (E, K) = grid.integral.shape[0], place.shape
    for e in range(E):
        u = place[e, control]
        for a in range(K):
            v, own = place[e, a], 0.0
            if a != control and v >= 0:
                for k in range(rows.first[u], min(rows.last[u], rows.moved_last[v])):
                    at = rows.start[u] + (k - rows.first[u]) * Q
                    if k < rows.moved_first[v]:
                        for i in range(Q):
                            own += rows.mass[at + i]
                    else:
                        other = rows.moved_start[v] + (k - rows.moved_first[v]) * Q
                        for i in range(Q):
                            own += rows.mass[at + i] * (1.0 - rows.moved[other + i])
            chance[e, a] = min(max(own, 0.0), 1.0)


@compiled(fastmath=QUICK)
def _least_of(rows, place, a, value):
    """P(arm a least, all others within the margin above it) in one joint state, place (K,)."""
    begin, end = rows.first[place[a]], rows.last[place[a]]
    for b in range(place.shape[0]):
        if place[b] >= 0:
            begin, end = max(begin, rows.moved_first[place[b]]), min(end, rows.last[place[b]])
    return _chance_of(
        rows, place, a, begin, end, rows.between, rows.moved_start, rows.moved_first, value
    )


@compiled
def alike(grid, rows, place, chance):
    """P(largest - least < margin) over the arms that are not left out, (E,)."""
    E, K = place.shape
    value = np.empty(grid.integral.shape[0])
    for e in range(E):
        total = 0.0
        for a in range(K):
            if place[e, a] >= 0:
                total += _least_of(rows, place[e], a, value)
        chance[e] = min(total, 1.0)
