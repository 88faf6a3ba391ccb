"""Best allocation of pulls to arms in scenarios, which fix all outcomes by arm and pull.

Maximise the sum of gains plus last rewards. An arm with n units so far that takes u more at stage t
gains gain_t(n, u); m_t units are given out at a stage, at most U to one arm (1 unless pulls are
shared). Relaxed by prices nu_t the arms are independent, and one arm is a sweep over (t, n):

    W_t(n) = max over u of  gain_t(n, u) - u nu_t + W_{t+1}(n + u),   gain_t(n, 0) = 0,   W_T = last
    D(nu)  = sum_a W_0^a(0) + sum_t m_t nu_t  >=  maximum,   for every nu

`lower` reduces D by subgradient steps of Polyak's length (Introduction to Optimization, 1987).
`search` closes the remaining gap, best first: value so far + sum_a W_t^a(n_a) + the prices to come
bounds every allocation through a node, and never grows from a node to its successors, so the first
final node that is reached is a maximum (Hart, Nilsson and Raphael, A formal basis for the heuristic
determination of minimum cost paths, 1968). A search that is stopped early returns the bound of the
best open node.

Notations
    S, T, K, U     scenarios, stages, arms, most units of an arm at a stage
    t, n           stage; units of an arm before it, n <= t U: cell row(t, U) + n
    gain (U, cells, K)   cells of the stages t < T; W (cells, K) of t <= T, row T given
    ell, surprise (S, U, cells, K)   expected reward of u units; V_{t+1} after them less its
                   expectation. gain = ell - weight x surprise

The arms are adjacent: a stage of all of them, which share its price, is one run of numbers.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled

MAX_NODES = 1 << 20  # of one search; each takes 2 K + 40 bytes
STEPS = 60  # of `lower`; most of the decrease comes in the first half
STALLED_STEPS = 5  # steps without progress after which they become shorter
SAME_VALUE = 1e-9  # relative: bounds closer to the best allocation count as equal
Floats = npt.NDArray[np.float64]


@compiled(inline="always")
def row(t, U):
    """First cell of stage t, which has t U + 1 of them."""
    return U * t * (t - 1) // 2 + t


# -- scenarios ----------------------------------------------------------------------------------


@compiled
def lay_out_stage(t, members, place, later, worth, reward, ell, surprise):
    """Fill stage t of ell and surprise for the arms `members` of a group.

    place (S, members, units + 1): row of an arm's state by its units. By row: later, V_{t+1};
    worth and reward (rows, U), value and expected reward of u units.
    """
    S, U = ell.shape[0], ell.shape[1]
    start, most = row(t, U), worth.shape[1]
    for s in range(S):
        for n in range(t * U + 1):
            for i in range(members.shape[0]):
                x, a = place[s, i, n], members[i]
                for u in range(most):
                    expected = worth[x, u] - reward[x, u]
                    ell[s, u, start + n, a] = reward[x, u]
                    surprise[s, u, start + n, a] = later[place[s, i, n + u + 1]] - expected
                for u in range(most, U):
                    ell[s, u, start + n, a], surprise[s, u, start + n, a] = -np.inf, 0.0


@compiled
def martingales(true, pulls, ell, surprise, sums):
    """Sum true minus posterior rewards, and surprises, along greedy pulls: sums (S, 2), mean zero.

    true (S, K, T): reward of a unit at the true mean. Units go to the arms of largest ell.
    """
    S, U, _, K = ell.shape
    n, score = np.zeros(K, np.int64), np.empty(K)
    for s in range(S):
        sums[s], n[:] = 0.0, 0
        for t in range(pulls.shape[0]):
            start, left = row(t, U), pulls[t]
            for a in range(K):
                score[a] = ell[s, 0, start + n[a], a]
            while left > 0:
                a, u = np.argmax(score), min(left, U)
                cell = start + n[a]
                while u > 1 and ell[s, u - 1, cell, a] == -np.inf:
                    u -= 1
                sums[s, 0] += u * true[s, a, t] - ell[s, u - 1, cell, a]
                sums[s, 1] += surprise[s, u - 1, cell, a]
                score[a] = -np.inf
                n[a] += u
                left -= u


@compiled
def best_allocations(ell, surprise, last, pulls, mu, weight, steps, pops, choices, bound, proven):
    """Fill bound (S,), at least the maximum in each scenario, equal to it where proven (S,).

    last (S, K, units + 1): last rewards. steps, pops: limits of `lower` and of `search`.
    """
    S, U, cells, K = ell.shape
    T = pulls.shape[0]
    gain, W = np.empty((U, cells, K)), np.empty((row(T + 1, U), K))
    for s in range(S):
        for u in range(U):
            for i in range(cells):
                for a in range(K):
                    gain[u, i, a] = ell[s, u, i, a] - weight * surprise[s, u, i, a]
        for n in range(T * U + 1):
            for a in range(K):
                W[row(T, U) + n, a] = last[s, a, n]
        upper, least, nu = lower(gain, pulls, mu, W, steps)
        bound[s], proven[s] = search(gain, pulls, nu, W, least, upper, pops, choices)


# -- prices -------------------------------------------------------------------------------------


@compiled
def _stage_back(gain, price, stay, after, values):
    """Set values = max(stay, gain - price + after): slices that count from 0, for vectors."""
    for i in range(values.shape[0]):
        pulled = gain[i] - price + after[i]
        values[i] = pulled if pulled > stay[i] else stay[i]


@compiled
def sweep_back(gain, nu, W):
    """Fill W (cells, K) at prices nu below its row T; return sum_a W_0(0)."""
    U, _, K = gain.shape
    values = W.reshape(-1)
    for t in range(nu.shape[0] - 1, -1, -1):
        r, later = K * row(t, U), K * row(t + 1, U)
        size, now = later - r, values[r:later]
        stay = values[later : later + size]
        for u in range(U):
            after = later + K * (u + 1)
            flat = gain[u].reshape(-1)[r:later]
            _stage_back(flat, (u + 1) * nu[t], stay, values[after : after + size], now)
            stay = now
    total = 0.0
    for a in range(K):
        total += W[0, a]
    return total


@compiled(inline="always")
def gain_of(gain, t, n, u, a):
    """Gain of u units, 0 for none."""
    return gain[u - 1, row(t, gain.shape[0]) + n, a] if u > 0 else 0.0


@compiled(inline="always")
def worth_of(gain, W, t, n, u, a):
    """Gain of u units and W_{t+1} after them."""
    return gain_of(gain, t, n, u, a) + W[row(t + 1, gain.shape[0]) + n + u, a]


@compiled(inline="always")
def spend(gain, nu, W, spent):
    """Fill spent (T,): units of each stage that the arms demand at prices nu."""
    U, _, K = gain.shape
    spent[:] = 0.0
    for a in range(K):
        n = 0
        for t in range(nu.shape[0]):
            best, units = worth_of(gain, W, t, n, 0, a), 0
            for u in range(1, U + 1):
                worth = worth_of(gain, W, t, n, u, a) - u * nu[t]
                if worth > best:
                    best, units = worth, u
            spent[t] += units
            n += units


@compiled(inline="always")
def greedy(gain, W, pulls):
    """Value of giving units one by one to the arm of largest rise: a lower bound on the maximum."""
    U, _, K = gain.shape
    T = pulls.shape[0]
    n, units, rise = np.zeros(K, np.int64), np.zeros(K, np.int64), np.empty(K)
    value = 0.0
    for t in range(T):
        units[:] = 0
        for a in range(K):
            rise[a] = worth_of(gain, W, t, n[a], 1, a) - worth_of(gain, W, t, n[a], 0, a)
        for _ in range(pulls[t]):
            a = np.argmax(rise)
            units[a] += 1
            u = units[a]
            value += gain_of(gain, t, n[a], u, a) - gain_of(gain, t, n[a], u - 1, a)
            if u < min(U, pulls[t]):
                more = worth_of(gain, W, t, n[a], u + 1, a)
                rise[a] = more - worth_of(gain, W, t, n[a], u, a)
            else:
                rise[a] = -np.inf
        for a in range(K):
            n[a] += units[a]
    for a in range(K):
        value += W[row(T, U) + n[a], a]
    return value


@compiled(inline="always")
def lower(gain, pulls, mu, W, steps=STEPS):
    """Reduce D from D(mu) in at most `steps` steps; W is left at the last prices.

    Returns D, the value of the best allocation so far, and the prices.
    """
    nu, best_nu = mu.copy(), mu.copy()
    spent = np.empty(mu.shape[0])
    upper, least, scale, stalled = np.inf, -np.inf, 1.0, 0
    for _ in range(steps):
        value = sweep_back(gain, nu, W) + np.sum(pulls * nu)
        least = max(least, greedy(gain, W, pulls))
        stalled += 1
        if value < upper:
            upper, stalled = value, 0
            copy(nu, best_nu)
        if stalled == STALLED_STEPS:
            scale, stalled = scale / 2, 0
            copy(best_nu, nu)
            value = sweep_back(gain, nu, W) + np.sum(pulls * nu)
        if upper - least <= SAME_VALUE * max(1.0, abs(upper)):
            break
        spend(gain, nu, W, spent)
        norm = np.sum((pulls - spent) ** 2)
        if norm == 0.0:
            break
        nu -= scale * (value - least) / norm * (pulls - spent)
    sweep_back(gain, best_nu, W)
    return upper, least, best_nu


# -- search -------------------------------------------------------------------------------------


class Nodes(NamedTuple):
    """Nodes of a search, and how to find them."""

    pulls: npt.NDArray[np.int16]  # (nodes, K)
    stage: npt.NDArray[np.int16]  # (nodes,)
    value: Floats  # (nodes,) of the best path so far
    open: npt.NDArray[np.bool_]  # (nodes,)
    slot: npt.NDArray[np.int32]  # hash table of nodes, -1 where there is none
    size: npt.NDArray[np.int64]  # (1,)


@compiled(inline="always")
def empty_nodes(nodes, K):
    """Allocate room for that many nodes."""
    slots = 4
    while slots < 2 * nodes:
        slots *= 2
    return Nodes(
        np.empty((nodes, K), np.int16),
        np.empty(nodes, np.int16),
        np.empty(nodes),
        np.empty(nodes, np.bool_),
        np.full(slots, -1, np.int32),
        np.zeros(1, np.int64),
    )


@compiled
def find(nodes, pulls, stage):
    """Return the node of these pulls, added if it is new."""
    mask = np.uint64(nodes.slot.shape[0] - 1)
    h = np.uint64(0)
    for n in pulls:
        h = (h ^ np.uint64(n + 1)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    i = np.int64(h & mask)
    while nodes.slot[i] >= 0:
        same = True
        for a in range(pulls.shape[0]):
            same &= nodes.pulls[nodes.slot[i], a] == pulls[a]
        if same:
            return nodes.slot[i]
        i = np.int64(np.uint64(i + 1) & mask)
    new = nodes.size[0]
    nodes.size[0] += 1
    nodes.slot[i] = new
    copy(pulls, nodes.pulls[new])
    nodes.stage[new], nodes.value[new], nodes.open[new] = stage, -np.inf, False
    return new


@compiled(inline="always")
def next_choice(chosen, K, apart):
    """Step to the next multiset (apart 0) or set (apart 1) of arms; False after the last."""
    m = chosen.shape[0]
    i = m - 1
    while i >= 0 and chosen[i] == K - 1 - apart * (m - 1 - i):
        i -= 1
    if i < 0:
        return False
    chosen[i] += 1
    for j in range(i + 1, m):
        chosen[j] = chosen[j - 1] + apart
    return True


@compiled(inline="always")
def expand(nodes, heap, parent, gain, W, m, to_come, deeper, least):
    """Open every node that m units lead to, where it may be better than `least`.

    to_come: prices of the stages after this one. deeper: added to bounds at every stage, so that
    the deepest of equal nodes comes first.
    """
    t, K = np.int64(nodes.stage[parent]), gain.shape[2]
    most = min(gain.shape[0], m)
    rise, more = np.empty((K, most)), np.empty((K, most))
    pulls, units = nodes.pulls[parent].copy(), np.zeros(K, np.int64)
    bound = nodes.value[parent] + to_come + deeper * (t + 1)
    for a in range(K):
        n = np.int64(pulls[a])
        before = worth_of(gain, W, t, n, 0, a)
        bound += before
        for u in range(most):
            after = worth_of(gain, W, t, n, u + 1, a)
            rise[a, u] = after - before
            more[a, u] = gain_of(gain, t, n, u + 1, a) - gain_of(gain, t, n, u, a)
            before = after
    apart = 1 if most == 1 else 0
    chosen = np.arange(m) * apart
    proceed = True
    while proceed:
        key, value = bound, nodes.value[parent]
        for a in chosen:
            key += rise[a, units[a]]
            value += more[a, units[a]]
            units[a] += 1
        if key > least:
            for a in chosen:
                pulls[a] += 1
            child = find(nodes, pulls, t + 1)
            for a in chosen:
                pulls[a] -= 1
            if value > nodes.value[child]:
                nodes.value[child], nodes.open[child] = value, True
                heappush(heap, (-key, child))
        units[:] = 0
        proceed = next_choice(chosen, K, apart)


@compiled(inline="always")
def search(gain, pulls, nu, W, least, upper, pops, choices):
    """Return an upper bound on the maximum, and whether it is the maximum, after `pops` nodes.

    least, upper: bounds from `lower`. choices: most successors of a node.
    """
    T, U, K = pulls.shape[0], gain.shape[0], gain.shape[2]
    close = SAME_VALUE * max(1.0, abs(upper))
    if upper <= least + close:
        return least, True
    to_come = np.zeros(T + 1)
    for t in range(T - 1, -1, -1):
        to_come[t] = to_come[t + 1] + pulls[t] * nu[t]
    nodes = empty_nodes(min(pops * choices + 2, max(MAX_NODES, choices + 2)), K)
    root = find(nodes, np.zeros(K, np.int16), ZERO)
    nodes.value[root], nodes.open[root] = 0.0, True
    heap = [(-upper, root)]
    while len(heap) > 0:
        below, node = heappop(heap)
        key = -below
        if key <= least + close:
            break
        if not nodes.open[node]:  # already expanded
            continue
        if nodes.stage[node] == T:
            value = nodes.value[node]
            for a in range(K):
                value += W[row(T, U) + nodes.pulls[node, a], a]
            return max(value, least), True
        full = nodes.size[0] + choices > nodes.value.shape[0]
        if pops == 0 or full:
            return min(key, upper), False
        pops -= 1
        nodes.open[node] = False
        t = nodes.stage[node]
        expand(nodes, heap, node, gain, W, pulls[t], to_come[t + 1], close / T, least)
    return least, True
