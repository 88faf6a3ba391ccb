"""The best allocation of pulls to arms whose states are known: an upper bound, often the maximum.

An arm after n pulls is in a known state. Pull m_t arms at each stage, so as to

    maximise  sum over pulls of gain_t^a(n)  +  sum_a last_a(n),   n the pulls of the arm so far

Relaxed by prices nu_t, the arms are independent, and one arm is a sweep over (t, n):

    W_t(n) = max(W_{t+1}(n), gain_t(n) - nu_t + W_{t+1}(n+1)),   W_T = last
    D(nu)  = sum_a W_0^a(0) + sum_t m_t nu_t  >=  maximum,   for every nu

`lower` takes D down by subgradient steps of Polyak's length (Introduction to Optimization, 1987).
`search` closes the remaining gap, best first: value so far + sum_a W_t^a(n_a) + the prices to come
is an upper bound on every allocation through a node, and never grows from a node to its successors,
so the first final node that is reached is a maximum (Hart, Nilsson and Raphael, A formal basis for
the heuristic determination of minimum cost paths, 1968). If the search is stopped early, the bound
of the best open node is still valid. Two arms pulled one at a time have so few nodes that all are
visited.

Notations
    T, K           stages, arms
    t, n           stage; pulls of an arm before it, n <= t
    gain (tri, K)  tables over (t, n), t < T, a triangle: n of stage t stands at t(t+1)/2 + n
    W (tri, K)     the same with t <= T; row T, the last rewards, is given

The arms stand next to each other: a stage of all of them, which have its price in common, is one
run of numbers, long enough for vectors also where stages are early.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...problem.kernels.layout import row_start
from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled

MOST_NODES = 1 << 20  # of one search; each takes 2 K + 40 bytes
STEPS = 60  # of `lower`; most of the decrease comes in the first half
STALLED_STEPS = 5  # steps without progress after which they become shorter
SAME_VALUE = 1e-9  # relative: bounds closer to the best allocation count as equal
Floats = npt.NDArray[np.float64]


@compiled
def _stage_back(gain, price, stay, pull, own):
    """A stage of all arms: own = max(stay, gain - price + pull), all slices that count from 0.

    Only so does the compiler use vectors.
    """
    for i in range(own.shape[0]):
        pulled = gain[i] - price + pull[i]
        own[i] = pulled if pulled > stay[i] else stay[i]


@compiled
def sweep_back(gain, nu, W):
    """W (tri, K) at prices nu; row T of it is given. Returns sum_a W_0(0)."""
    K = gain.shape[1]
    flat, values = gain.reshape(-1), W.reshape(-1)
    for t in range(nu.shape[0] - 1, -1, -1):
        r, later, end = K * row_start(t), K * row_start(t + 1), K * row_start(t + 2)
        _stage_back(
            flat[r:later],
            nu[t],
            values[later : end - K],
            values[later + K : end],
            values[r:later],
        )
    total = 0.0
    for a in range(K):
        total += W[0, a]
    return total


@compiled(inline="always")
def rise_of(gain, W, a, t, n):
    """What a pull of arm a at (t, n) adds to gain and W_{t+1} together."""
    later = row_start(t + 1) + n
    return gain[row_start(t) + n, a] + W[later + 1, a] - W[later, a]


@compiled(inline="always")
def spend(gain, nu, W, spent):
    """spent (T,): pulls of each stage that the arms by themselves ask for at prices nu."""
    spent[:] = 0.0
    for a in range(gain.shape[1]):
        n = 0
        for t in range(nu.shape[0]):
            if rise_of(gain, W, a, t, n) > nu[t]:
                spent[t] += 1.0
                n += 1


@compiled(inline="always")
def greedy(gain, W, pulls):
    """Value of the allocation that pulls the arms of largest rise: what can be had at least."""
    K, T = gain.shape[1], pulls.shape[0]
    n, rise = np.zeros(K, np.int64), np.empty(K)
    value = 0.0
    for t in range(T):
        for a in range(K):
            rise[a] = rise_of(gain, W, a, t, n[a])
        for _ in range(pulls[t]):
            best = np.argmax(rise)
            value += gain[row_start(t) + n[best], best]
            n[best] += 1
            rise[best] = -np.inf
    for a in range(K):
        value += W[row_start(T) + n[a], a]
    return value


@compiled(inline="always")
def lower(gain, pulls, mu, W, steps=STEPS):
    """Take D down from D(mu) in so many steps at most, and leave W at its prices.

    Returns D, the value of the best allocation found, and the prices.
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


@compiled(inline="always")
def two_arms(gain, W, T):
    """The maximum for two arms, pulled one at a time: backward over the pulls n of the first."""
    best = np.empty(T + 1)
    for n in range(T + 1):
        best[n] = W[row_start(T) + n, 0] + W[row_start(T) + T - n, 1]
    for t in range(T - 1, -1, -1):
        for n in range(t + 1):
            first = gain[row_start(t) + n, 0] + best[n + 1]
            best[n] = max(first, gain[row_start(t) + t - n, 1] + best[n])
    return best[0]


class Nodes(NamedTuple):
    """Nodes of a search, how to find them, and a heap of those that are open."""

    pulls: npt.NDArray[np.int16]  # (nodes, K)
    stage: npt.NDArray[np.int16]  # (nodes,)
    value: Floats  # (nodes,) best way there so far
    open: npt.NDArray[np.bool_]  # (nodes,)
    slot: npt.NDArray[np.int32]  # hash table of nodes, -1 where there is none
    key: Floats  # heap: largest bound first
    node: npt.NDArray[np.int32]  # heap
    size: npt.NDArray[np.int64]  # (2,): nodes, entries of the heap


@compiled(inline="always")
def room_for(nodes, K):
    """Room for that many nodes; each may be entered twice into the heap."""
    slots = 4
    while slots < 2 * nodes:
        slots *= 2
    return Nodes(
        np.empty((nodes, K), np.int16),
        np.empty(nodes, np.int16),
        np.empty(nodes),
        np.empty(nodes, np.bool_),
        np.full(slots, -1, np.int32),
        np.empty(2 * nodes),
        np.empty(2 * nodes, np.int32),
        np.zeros(2, np.int64),
    )


@compiled
def find(nodes, pulls, stage):
    """The node of these pulls, made where it was not there."""
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


@compiled
def push(nodes, key, node):
    """Enter a node into the heap."""
    i = nodes.size[1]
    nodes.size[1] += 1
    nodes.open[node] = True
    while i > 0 and nodes.key[(i - 1) // 2] < key:
        nodes.key[i], nodes.node[i] = nodes.key[(i - 1) // 2], nodes.node[(i - 1) // 2]
        i = (i - 1) // 2
    nodes.key[i], nodes.node[i] = key, node


@compiled(inline="always")
def pop(nodes):
    """Take the largest key from the heap: (key, node)."""
    key, node = nodes.key[0], nodes.node[0]
    nodes.size[1] -= 1
    size = nodes.size[1]
    last, moved, i = nodes.key[size], nodes.node[size], 0
    while 2 * i + 1 < size:
        j = 2 * i + 1
        if j + 1 < size and nodes.key[j + 1] > nodes.key[j]:
            j += 1
        if nodes.key[j] <= last:
            break
        nodes.key[i], nodes.node[i] = nodes.key[j], nodes.node[j]
        i = j
    nodes.key[i], nodes.node[i] = last, moved
    return key, node


@compiled(inline="always")
def next_choice(chosen, K):
    """The next of all ways to choose some of K arms, in order; False after the last."""
    i = chosen.shape[0] - 1
    while i >= 0 and chosen[i] == K - chosen.shape[0] + i:
        i -= 1
    if i < 0:
        return False
    chosen[i] += 1
    for j in range(i + 1, chosen.shape[0]):
        chosen[j] = chosen[j - 1] + 1
    return True


@compiled(inline="always")
def expand(nodes, parent, gain, W, m, to_come, deeper, least):
    """Open every node that m pulls lead to, where it may be better than `least`.

    to_come: the prices of the stages after this one. deeper: added to bounds at every stage, so
    that among equals the one nearest to the end comes first.
    """
    t, K = nodes.stage[parent], gain.shape[1]
    rise, pulls = np.empty(K), nodes.pulls[parent].copy()
    bound = nodes.value[parent] + to_come + deeper * (t + 1)
    for a in range(K):
        bound += W[row_start(t + 1) + pulls[a], a]
        rise[a] = rise_of(gain, W, a, t, pulls[a])
    chosen = np.arange(m)
    more = True
    while more:
        key, value = bound, nodes.value[parent]
        for a in chosen:
            key += rise[a]
            value += gain[row_start(t) + pulls[a], a]
        if key > least:
            for a in chosen:
                pulls[a] += 1
            child = find(nodes, pulls, t + 1)
            for a in chosen:
                pulls[a] -= 1
            if value > nodes.value[child]:
                nodes.value[child] = value
                push(nodes, key, child)
        more = next_choice(chosen, K)


@compiled(inline="always")
def search(gain, pulls, nu, W, least, upper, pops, choices):
    """(upper bound on the maximum, whether it is the maximum), after at most `pops` nodes.

    least, upper: what is known from `lower`. choices: most nodes that one leads to.
    """
    T, K = pulls.shape[0], gain.shape[1]
    close = SAME_VALUE * max(1.0, abs(upper))
    if upper <= least + close:
        return least, True
    to_come = np.zeros(T + 1)
    for t in range(T - 1, -1, -1):
        to_come[t] = to_come[t + 1] + pulls[t] * nu[t]
    nodes = room_for(min(pops * choices + 2, max(MOST_NODES, choices + 2)), K)
    root = find(nodes, np.zeros(K, np.int16), ZERO)
    nodes.value[root] = 0.0
    push(nodes, upper, root)
    while nodes.size[1] > 0:
        key, node = pop(nodes)
        if key <= least + close:
            break
        if not nodes.open[node]:  # a better way there has been followed
            continue
        if nodes.stage[node] == T:
            value = nodes.value[node]
            for a in range(K):
                value += W[row_start(T) + nodes.pulls[node, a], a]
            return max(value, least), True
        full = nodes.size[0] + choices > nodes.value.shape[0]
        if pops == 0 or full or nodes.size[1] + choices > nodes.key.shape[0]:
            return min(key, upper), False
        pops -= 1
        nodes.open[node] = False
        t = nodes.stage[node]
        expand(nodes, node, gain, W, pulls[t], to_come[t + 1], close / T, least)
    return least, True
