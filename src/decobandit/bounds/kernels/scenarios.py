"""Scenarios, which fix all outcomes in advance, and the value of pulls in them.

Outcomes are indexed by pull, as in `episodes`, so that an arm after n pulls is in a known state
(n, g). The value of a pull at stage t is its posterior expected reward minus a penalty,

    gain_t = ell_t(n, g) - weight x (V_{t+1}(n+1, g') - E[V_{t+1}(n+1, g') | n, g])

V the one-arm values at given prices. `information_bound` says why; `allocation` finds the best
allocation.

Notations, besides those of `allocation`
    S    scenarios
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...policies.kernels.episodes import uniform
from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import expected_reward
from ...support.kernels.compiled import compiled
from .allocation import lower, search, two_arms

Floats = npt.NDArray[np.float64]


class Model(NamedTuple):
    """The problem, and the prices that its values are taken at."""

    alpha: Floats  # (groups,)
    beta: Floats
    reward_good: Floats  # (groups, T)
    reward_bad: Floats
    final: Floats  # (groups, slab): last rewards by final state
    group: npt.NDArray[np.int64]  # (K,)
    pulls: npt.NDArray[np.int64]  # (T,)
    mu: Floats  # (T,)


class Scenarios(NamedTuple):
    """All outcomes, and how far each moves the value of its arm from what was expected."""

    p: Floats  # (S, K) true success probabilities
    good: npt.NDArray[np.int32]  # (S, K, T + 1): successes among the first n pulls
    surprise: Floats  # (S, K, tri)


@compiled
def draw_outcomes(p, keys, good):
    """Fill good (S, K, T + 1); p, keys (S, K) as in `episodes`."""
    S, K, ends = good.shape
    for s in range(S):
        for a in range(K):
            good[s, a, 0] = 0
            for n in range(ends - 1):
                outcome = 1 if uniform(keys[s, a], n) < p[s, a] else 0
                good[s, a, n + 1] = good[s, a, n] + outcome


@compiled(inline="always")
def chance(model, good, a, n):
    """Posterior mean of arm a after n pulls; good (K, T + 1)."""
    k = model.group[a]
    return (model.alpha[k] + good[a, n]) / (model.alpha[k] + model.beta[k] + n)


@compiled(inline="always")
def reward(model, a, t, p):
    """Expected reward of arm a at stage t where a good outcome has chance p."""
    k = model.group[a]
    return expected_reward(p, model.reward_bad[k, t], model.reward_good[k, t])


@compiled
def lay_out_surprise(t, V, model, scenarios):
    """Stage t of surprise: V_{t+1} after the outcome minus its expectation; V is V_{t+1}.

    With y the outcome, 0 or 1, and p its chance: (y - p) (V(n+1, g+1) - V(n+1, g)).
    """
    S, K, _ = scenarios.good.shape
    for s in range(S):
        good = scenarios.good[s]
        for a in range(K):
            k = model.group[a]
            for n in range(t + 1):
                g, after = good[a, n], row_start(n + 1) + good[a, n]
                rise = V[k, after + 1] - V[k, after]
                surprise = (good[a, n + 1] - g - chance(model, good, a, n)) * rise
                scenarios.surprise[s, a, row_start(t) + n] = surprise


@compiled(inline="always")
def lay_out_scenario(model, scenarios, s, weight, gain, W):
    """gain (tri, K): ell_t(n, g) - weight x surprise; and the last rewards in row T of W."""
    good, T = scenarios.good[s], model.mu.shape[0]
    for a in range(good.shape[0]):
        k = model.group[a]
        for n in range(T + 1):
            W[row_start(T) + n, a] = model.final[k, row_start(n) + good[a, n]]
        for n in range(T):
            p = chance(model, good, a, n)
            for t in range(n, T):
                i = row_start(t) + n
                gain[i, a] = reward(model, a, t, p) - weight * scenarios.surprise[s, a, i]


@compiled
def fair_games(model, scenarios, games):
    """games (S, 2), of mean zero: true minus posterior mean rewards, and surprises, summed up.

    Along the pulls of the arms of largest posterior mean reward: who pulls without foresight
    expects nothing of either.
    """
    T, K = model.mu.shape[0], model.group.shape[0]
    ell = np.empty(K)
    for s in range(games.shape[0]):
        good, n = scenarios.good[s], np.zeros(K, np.int64)
        games[s] = 0.0
        for t in range(T):
            for a in range(K):
                ell[a] = reward(model, a, t, chance(model, good, a, n[a]))
            for _ in range(model.pulls[t]):
                a = np.argmax(ell)
                games[s, 0] += reward(model, a, t, scenarios.p[s, a]) - ell[a]
                games[s, 1] += scenarios.surprise[s, a, row_start(t) + n[a]]
                ell[a] = -np.inf
                n[a] += 1


@compiled
def best_allocations(model, scenarios, weight, steps, pops, choices, dense, bound, proven):
    """bound (S,): at least the maximum in each scenario, and equal to it where proven (S,).

    steps, pops: of `lower` and of `search`, at most. dense: two arms that are pulled one at a time
    need no search.
    """
    T, K = model.mu.shape[0], model.group.shape[0]
    gain, W = np.empty((row_start(T), K)), np.empty((row_start(T + 1), K))
    for s in range(bound.shape[0]):
        lay_out_scenario(model, scenarios, s, weight, gain, W)
        if dense:
            bound[s], proven[s] = two_arms(gain, W, T), True
            continue
        upper, least, nu = lower(gain, model.pulls, model.mu, W, steps)
        bound[s], proven[s] = search(gain, model.pulls, nu, W, least, upper, pops, choices)
