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
"""

import math

import numpy as np

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
    equal shares,
    each is multiplied by its derivative: at the end derivatives of arms with a share are equal.
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
