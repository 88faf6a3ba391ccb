"""Shares of a batch that make the best known arm good.

Notations
    E, K, G     episodes; arms; points of a grid of rewards
    mu, sigma (K,)          posterior mean and standard deviation of an arm's mean reward
    nu (K,)                 its weight in pulls: alpha + beta + n
    share (K,)              of N pulls, so that the posterior mean moves by a normal of variance
                            v_k = sigma_k^2 N share_k / (N share_k + nu_k)

For independent X_k with distribution functions F_k and densities f_k, A = prod_k F_k,

    d E[max_k X_k] / d v_k = 1/2 integral (f_k / F_k) A (sum_j f_j / F_j  -  f_k / F_k)

for normal X_k, by the heat equation in v_k.

Units of a stage given to arms, in many episodes at once; or drawn by looking forward: the arm that
an index would take at a drawn position.

    A, S                    units of a stage; different states of single arms
    where (E, K)            state of every arm
    values (S, A + 1)       what 0 .. A units are worth in a state
    index (S, A)            index of the first, second, .. unit in a state; by looking forward
                            (groups, states), of a state (n, g) at n (n + 1) / 2 + g
    given (E, K)            units of every arm
    alpha, beta (K,); pulls, good, allowed (E, K)   priors; known outcomes; arms that may get some
"""

import math

import numpy as np

from ...arm.kernels.units import share_out
from ...problem.kernels.ties import drawn, tie_winner
from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled

TAIL = 4.0  # standard deviations, beyond which nothing counts
STEPS = 2048  # of the table of the normal distribution function, on [-8, 8]


@compiled
def normal_table():
    """The normal distribution function at STEPS + 1 points of [-8, 8]."""
    table = np.empty(STEPS + 1)
    for i in range(STEPS + 1):
        table[i] = 0.5 * math.erfc(-(16.0 * i / STEPS - 8.0) / math.sqrt(2.0))
    return table


@compiled(inline="always")
def normal_at(table, z):
    """Between two entries on their chord."""
    x = min(max((z + 8.0) * (STEPS / 16.0), 0.0), STEPS - 1e-9)
    i = int(x)
    return table[i] + (x - i) * (table[i + 1] - table[i])


@compiled(fastmath=True)
def max_gradient(table, mu, v, ratio, together, sum_ratio, gradient):
    """gradient[k] = d E[max X] / d v_k, X_k normal of mean mu_k and variance v_k.

    ratio (K, G), together, sum_ratio (G,): room. Arms that are never largest are passed over.
    """
    K, G = ratio.shape
    low, high = -np.inf, -np.inf
    for k in range(K):
        sd = math.sqrt(v[k])
        low, high = max(low, mu[k] - TAIL * sd), max(high, mu[k] + TAIL * sd)
    step = max((high - low) / G, 1e-12)
    together[:] = 1.0
    sum_ratio[:] = 0.0
    for k in range(K):
        sd = max(math.sqrt(v[k]), 1e-3 * step)
        scale, at = step / sd, (low - mu[k]) / sd
        gradient[k] = 0.0
        if at > TAIL:
            continue
        before = normal_at(table, at)
        for g in range(G):
            after = normal_at(table, at + (g + 1) * scale)
            middle = 0.5 * (before + after) + 1e-12
            ratio[k, g] = (after - before) / middle
            together[g] *= middle
            sum_ratio[g] += ratio[k, g]
            before = after
        gradient[k] = 1.0
    for k in range(K):
        if gradient[k] > 0.0:
            total = 0.0
            for g in range(G):
                total += ratio[k, g] * together[g] * (sum_ratio[g] - ratio[k, g])
            gradient[k] = 0.5 * total / step


@compiled
def shares_each(table, mu, sigma, nu, earned, weight, pulls, steps, points, first, last, share):
    """Shares (E, K) that maximise  sum_k earned_k share_k + sum_i weight_i E[max_k X_ik].

    mu, sigma (terms, E, K): of each term; nu, earned (E, K), none negative; weight (terms,). From
    equal shares on, each is multiplied by its derivative: at the end derivatives of arms with a
    share are equal.
    """
    terms, K = mu.shape[0], mu.shape[2]
    ratio = np.empty((K, points))
    together, sum_ratio = np.empty(points), np.empty(points)
    v, gradient, total = np.empty(K), np.empty(K), np.empty(K)
    for e in range(first, last):
        own = share[e]
        own[:] = 1.0 / K
        for _ in range(steps):
            for k in range(K):
                total[k] = earned[e, k]
            for i in range(terms):
                for k in range(K):
                    n = pulls * own[k]
                    v[k] = sigma[i, e, k] ** 2 * n / (n + nu[e, k])
                max_gradient(table, mu[i, e], v, ratio, together, sum_ratio, gradient)
                for k in range(K):
                    n = pulls * own[k] + nu[e, k]
                    slope = sigma[i, e, k] ** 2 * pulls * nu[e, k] / (n * n)
                    total[k] += weight[i] * gradient[k] * slope
            norm = 0.0
            for k in range(K):
                own[k] *= max(total[k], 0.0)
                norm += own[k]
            if norm <= 0.0:
                own[:] = 1.0 / K
                break
            for k in range(K):
                own[k] /= norm


# -- units ---------------------------------------------------------------------------------------


@compiled
def share_each(values, where, first, last, given):
    """Units that sum to A and maximise the sum of the values, in episodes first .. last - 1."""
    K, units = where.shape[1], values.shape[1] - 1
    own = np.empty((K, units + 1))
    best, choice = np.empty(units + 1), np.empty((K, units + 1), np.int64)
    for e in range(first, last):
        for k in range(K):
            copy(values[where[e, k]], own[k])
        share_out(own, units, best, choice, given[e])


@compiled
def give_by_index(
    index, where, pulls, unit, tolerance, by_pulls, by_position, rng, first, last, given
):
    """Unit by unit to the arm of the largest index; pulls (E, K) grow with what is given."""
    K, units = where.shape[1], index.shape[1]
    score, now = np.empty(K), np.empty((1, K), np.int64)
    for e in range(first, last):
        for k in range(K):
            given[e, k] = 0
            now[0, k] = pulls[e, k]
            score[k] = index[where[e, k], 0]
        for _ in range(units):
            least = score.max() - tolerance
            arm = tie_winner(score, now, ZERO, least, by_pulls, by_position, rng)
            given[e, arm] += 1
            now[0, arm] += unit
            if given[e, arm] < units:
                score[arm] = index[where[e, arm], given[e, arm]]


@compiled
def give_within(order, worth, uses, left, pulls, units, by_worth, tolerance, slack, given):
    """Unit by unit to the arm of the largest order that is worth it and fits what is left.

    order, worth (E, K, most): of the next unit of an arm, which must be worth more than nothing;
    uses (K, rows), left (E, rows). Of equal ones the arm with the fewest pulls (E, K) so far;
    by_worth: before that, the one that is worth most, since what a stage leaves unused is lost.
    """
    E, K, most = order.shape
    rows = uses.shape[1]
    room = np.empty(rows)
    for e in range(E):
        given[e] = 0
        for r in range(rows):
            room[r] = left[e, r] * (1.0 + slack) + slack
        for _ in range(units):
            best, most_worth, arm = -np.inf, -np.inf, -1
            for k in range(K):
                n = given[e, k]
                if n >= most or worth[e, k, n] <= 0.0 or order[e, k, n] < best - tolerance:
                    continue
                fits = True
                for r in range(rows):
                    fits = fits and uses[k, r] <= room[r]
                if not fits:
                    continue
                gain = worth[e, k, n] - most_worth if by_worth else 0.0
                first = order[e, k, n] > best + tolerance or gain > tolerance
                fewer = arm >= 0 and pulls[e, k] + n < pulls[e, arm] + given[e, arm]
                if first or (fewer and gain >= -tolerance):
                    arm, most_worth = k, worth[e, k, n]
                best = max(best, order[e, k, n])
            if arm < 0:
                break
            given[e, arm] += 1
            for r in range(rows):
                room[r] -= uses[arm, r]


@compiled
def forward_units(
    index, group_of_arm, alpha, beta, pulls, good, allowed, unit, units, tolerance, rng, given
):
    """For each unit a block is imagined, up to a position drawn evenly: given the arm there.

    Outcomes of the block are drawn from what is known: P(good) = (alpha + g) / (alpha + beta + n).
    """
    E, K = pulls.shape
    n, g, score = np.empty(K, np.int64), np.empty(K, np.int64), np.empty(K)
    for e in range(E):
        given[e] = 0
        for _ in range(units):
            position = int(rng.random() * units)
            copy(pulls[e], n)
            copy(good[e], g)
            for k in range(K):
                own = index[group_of_arm[k], n[k] * (n[k] + 1) // 2 + g[k]]
                score[k] = own if allowed[e, k] else -np.inf
            arm = drawn(score, score.max() - tolerance, rng)
            for _ in range(position):
                for _ in range(unit):
                    p = (alpha[arm] + g[arm]) / (alpha[arm] + beta[arm] + n[arm])
                    n[arm] += 1
                    g[arm] += rng.random() < p
                score[arm] = index[group_of_arm[arm], n[arm] * (n[arm] + 1) // 2 + g[arm]]
                arm = drawn(score, score.max() - tolerance, rng)
            given[e, arm] += 1
