"""Information-directed sampling on a grid: probability of being best, information gain, best pair.

The success probability of arm a is x_k = sin^2(phi_k), the phi_k evenly spaced midpoints in
[0, pi/2], with weight w_a[k] proportional to x^(a - 1/2) (1 - x)^(b - 1/2): the density of
Beta(a, b) per unit of phi. In phi posteriors are about equally wide wherever they lie, and flat
priors as well as Beta(1/2, 1/2) have no singular end. Of two arms in one bin each is above the
other with chance 1/2:

    F_a[k] = sum_{j<k} w_a[j] + w_a[k] / 2          S_a likewise, of the products x w_a
    P = prod_a F_a,   h_a = w_a / F_a,   r_a = S_a / F_a
    p*(i)         = sum_k P h_i                     chance that arm i is best
    p*(i) M[i, j] = sum_k P h_i r_j,  r_i = x       M[i, j]: mean of arm j where i is best

Means are m_j = sum_i p*(i) M[i, j], those of the grid: regrets and gains then vanish together with
the doubt about the best arm.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled
from .episodes import pull

Floats = npt.NDArray[np.float64]
NEGLIGIBLE_LOG = -60.0  # log of a weight, relative to the largest, that is taken for zero
NEGLIGIBLE = 1e-22  # outer bins in which all weights of an arm are smaller are skipped
IMPROVEMENT = 1.0 - 1e-12  # a pair must be better than others by this factor


class Room(NamedTuple):
    """Posterior of every arm, one row each, and room for one decision."""

    grid: Floats  # (3, G) points, their logarithms, those of 1 - x
    F: Floats  # (K, G)
    h: Floats
    r: Floats
    low: npt.NDArray[np.int64]  # (K,) first bin with F above NEGLIGIBLE
    high: npt.NDArray[np.int64]  # (K,) one after the last bin with a weight above NEGLIGIBLE
    P: Floats  # (G,)
    Ph: Floats  # (G,)
    chance: Floats  # (K,) p*
    joint: Floats  # (K, K) p*(i) M[i, j]
    mean: Floats  # (K,)
    regret: Floats  # (K,)
    gain: Floats  # (K,)


def make_grid(points: int) -> Floats:
    """Midpoints of equal bins in phi, (3, G)."""
    phi = (np.arange(points) + 0.5) * (math.pi / 2.0 / points)
    return np.array([np.sin(phi) ** 2, 2.0 * np.log(np.sin(phi)), 2.0 * np.log(np.cos(phi))])


def make_room(arms: int, grid: Floats) -> Room:
    """Allocate rows for the arms, and the work space."""
    points = grid.shape[1]
    F, h, r = np.zeros((3, arms, points))
    low, high = np.zeros((2, arms), np.int64)
    P, Ph = np.zeros((2, points))
    chance, mean, regret, gain = np.zeros((4, arms))
    return Room(grid, F, h, r, low, high, P, Ph, chance, np.zeros((arms, arms)), mean, regret, gain)


@compiled(fastmath=True)
def weigh(a, b, grid, w):
    """Weights of Beta(a, b), unscaled, into w. Returns their sum."""
    G, largest, total = w.size, -np.inf, 0.0
    log_x, log_rest = grid[1], grid[2]
    for k in range(G):
        w[k] = (a - 0.5) * log_x[k] + (b - 0.5) * log_rest[k]
        largest = max(largest, w[k])
    for k in range(G):
        log_w = w[k] - largest
        w[k] = math.exp(log_w) if log_w > NEGLIGIBLE_LOG else 0.0
    # a density phi^(2a - 1) that rises towards an end: its mean over the last bin, not its middle
    if a < 0.5:
        w[0] *= 2.0 ** (2.0 * a - 1.0) / (2.0 * a)
    if b < 0.5:
        w[G - 1] *= 2.0 ** (2.0 * b - 1.0) / (2.0 * b)
    for k in range(G):
        total += w[k]
    return total


@compiled
def fill_row(arm, a, b, room):
    """The row of an arm with posterior Beta(a, b)."""
    F, h, r = room.F[arm], room.h[arm], room.r[arm]
    scale, x = 1.0 / weigh(a, b, room.grid, h), room.grid[0]
    below, sum_below, low, high = 0.0, 0.0, -1, 0
    for k in range(F.size):
        w = h[k] * scale
        xw = x[k] * w
        F[k], r[k], h[k] = below + 0.5 * w, sum_below + 0.5 * xw, w
        below += w
        sum_below += xw
        if low < 0 and F[k] > NEGLIGIBLE:
            low = k
        if w > NEGLIGIBLE:
            high = k + 1
    for k in range(low):
        F[k], h[k], r[k] = 0.0, 0.0, 0.0
    for k in range(low, F.size):
        inverse = 1.0 / F[k]
        h[k] *= inverse
        r[k] *= inverse
    room.low[arm], room.high[arm] = low, high


@compiled(fastmath=True)
def dot(u, v):
    """Inner product."""
    total = 0.0
    for k in range(u.size):
        total += u[k] * v[k]
    return total


@compiled(inline="always")
def find_best(room):
    """Chances of being best and joint means, into the room."""
    K = room.low.size
    chance, joint = room.chance, room.joint
    # the best arm is below the first of these bins, or above the last, with no chance to speak of
    low, high = room.low.max(), room.high.max()
    P, Ph, x = room.P[: high - low], room.Ph[: high - low], room.grid[0, low:high]
    P[:] = 1.0
    for i in range(K):
        F = room.F[i, low:high]
        for k in range(P.size):
            P[k] *= F[k]
    for i in range(K):
        h = room.h[i, low:high]
        for k in range(P.size):
            Ph[k] = P[k] * h[k]
        chance[i] = dot(P, h)
        for j in range(K):
            joint[i, j] = dot(Ph, room.r[j, low:high] if j != i else x)
    whole = chance.sum()
    if whole > 0.0:
        chance /= whole
        joint /= whole


@compiled(inline="always")
def divergence(p, q):
    """Kullback-Leibler divergence of Bernoulli distributions, accurate where p is near q."""
    step = p - q
    return max(0.0, p * math.log1p(step / q) + (1.0 - p) * math.log1p(-step / (1.0 - q)))


@compiled
def weigh_up(room, by_variance):
    """Means, expected regrets and gains (information, or variance) of all arms, into the room."""
    chance, joint = room.chance, room.joint
    K = chance.size
    for j in range(K):
        mean, regret, gain = 0.0, 0.0, 0.0
        for i in range(K):
            mean += joint[i, j]
            regret += joint[i, i] - joint[i, j]
        for i in range(K):
            if chance[i] > 0.0:
                told = joint[i, j] / chance[i]
                off = (told - mean) * (told - mean) if by_variance else divergence(told, mean)
                gain += chance[i] * off
        room.mean[j], room.regret[j], room.gain[j] = mean, max(0.0, regret), gain


@compiled(inline="always")
def ratio(regret, gain):
    """Squared regret per gain; none of either is the best that there is."""
    if regret <= 0.0:
        return 0.0
    return regret * regret / gain if gain > 0.0 else np.inf


@compiled
def best_pair(regret, gain):
    """Arms i, j and the chance q of i that minimise (q d_i + (1-q) d_j)^2 / (q g_i + (1-q) g_j).

    In q a squared line over a line: with D = d_i - d_j and H = g_i - g_j it is stationary where it
    is zero, which is not inside (0, 1), and at q = d_j / D - 2 g_j / H. So it is least there, or at
    an end. Ties: one arm before two, first arms before later ones.
    """
    K = regret.size
    first, second, q = int(np.argmin(regret)), -1, 1.0  # where there is nothing to learn
    least = ratio(regret[first], gain[first])
    for i in range(K):
        own = ratio(regret[i], gain[i])
        if own < least * IMPROVEMENT:
            first, least = i, own
    for i in range(K):
        for j in range(i):
            D, H = regret[i] - regret[j], gain[i] - gain[j]
            if D * H <= 0.0:  # one arm has less regret and no less gain
                continue
            at = regret[j] / D - 2.0 * gain[j] / H
            if 0.0 < at < 1.0:
                mixed = ratio(regret[j] + at * D, gain[j] + at * H)
                if mixed < least * IMPROVEMENT:
                    first, second, q, least = i, j, at, mixed
    return first, second if second >= 0 else first, q


@compiled
def decide(room, by_variance):
    """Two arms, and the chance of the first."""
    find_best(room)
    weigh_up(room, by_variance)
    return best_pair(room.regret, room.gain)


@compiled
def best_pairs(chance, joint, gain, room, first, second, q):
    """Pairs of many states; gain (E, K): information, empty by variance."""
    by_variance = np.bool_(True)  # the gains that this makes are taken, or replaced
    for e in range(chance.shape[0]):
        copy(chance[e], room.chance)
        for i in range(chance.shape[1]):
            copy(joint[e, i], room.joint[i])
        weigh_up(room, by_variance)
        if gain.shape[0] > 0:
            copy(gain[e], room.gain)
        first[e], second[e], q[e] = best_pair(room.regret, room.gain)


@compiled
def play(episodes, stages, alpha, beta, by_variance, room, rng):
    """A block of stages of all episodes, one pull in each."""
    E, K = episodes.pulls.shape
    for e in range(E):
        for arm in range(K):
            good = episodes.good[e, arm]
            bad = episodes.pulls[e, arm] - good
            fill_row(arm, alpha[arm] + good, beta[arm] + bad, room)
        for b in range(stages):
            i, j, q = decide(room, by_variance)
            arm = i if rng.random() < q else j
            pull(episodes, e, b, ZERO, arm)
            good = episodes.good[e, arm]
            bad = episodes.pulls[e, arm] - good
            fill_row(arm, alpha[arm] + good, beta[arm] + bad, room)
