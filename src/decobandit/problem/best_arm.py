"""Expected reward of always pulling the best arms: the reference for regret.

An arm's mean reward at stage t is X_a = base_t + factor_t times the mean of its outcomes, which has
the law of the prior. With N(x) the number of arms whose mean reward is above x, the expected sum of
the m largest is

    E[X_(1) + ... + X_(m)] = m low + integral over [low, high] of E[min(N(x), m)] dx

where [low, high] holds all means: the j-th largest is above x when N(x) >= j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..support import Floats, read_only
from .groups import Group
from .model import Problem

MAX_PANELS = 160
SAME_MEAN = 1e-12  # posterior means closer than this are equal
# where a distribution function bends: the integral is cut there, or a narrow one would be missed
QUANTILES = np.array([1e-9, 1e-5, 1e-3, 0.05, 0.3, 0.7, 0.95, 1 - 1e-3, 1 - 1e-5, 1 - 1e-9])
ENDS = np.array([1e-14, 1 - 1e-14])  # quantiles beyond which the integral is cut off
REACH, NODES = 3.2, 49  # of the double exponential rule in each panel
ERROR_MARGIN = 2.0  # times the error that the rule makes in the means of all arms, which are known


def best_mean_reward(problem: Problem, truth: Sequence[float] | None = None) -> float | None:
    """Return the expected reward of always pulling the arms of largest mean and deploying the best.

    Over the prior, or at the true means `truth` (arms,). None where arms have tables of last
    rewards, or are Markov arms: what is best then depends on the whole history, and regret is not
    defined.
    """
    if truth is not None:
        best = best_true_rewards(problem, np.array([truth], dtype=float))
        return None if best is None else float(best[0])
    return _best_with_error(problem)[0] if _has_best_arm(problem) else None


def best_mean_bound(problem: Problem) -> float | None:
    """Return an upper bound on every policy: the best mean reward plus its integration error."""
    return sum(_best_with_error(problem)) if _has_best_arm(problem) else None


@lru_cache(maxsize=8)
def best_mean_per_pull(problem: Problem) -> Floats:
    """Return the expected mean reward of a pull of the best arms, (stages,), over the prior."""
    best, number = largest_by_stage(problem), _best_pulls(problem)[0].tolist()
    return read_only(np.array([best(t, m)[0] / m for t, m in enumerate(number)]))


def best_mean_moments(problem: Problem, stage: int = 0) -> tuple[float, float]:
    """Return E and E of the square of the largest mean reward of a pull at a stage."""
    rewards = _rewards(problem, stage)
    first, second = (sum_of_largest(problem, rewards, 1, power=power)[0] for power in (1, 2))
    return first, second


def _has_best_arm(problem: Problem) -> bool:
    has_laws = all(group.model.has_law and group.terminal is None for group in problem.groups)
    # with a budget, the best arm may be too dear
    return has_laws and not problem.is_restless and not problem.may_wait


def _best_pulls(problem: Problem) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return how many of the best arms are pulled at every stage, and the pulls of each."""
    # the best arm takes the whole of a batch; single pulls go to as many arms
    units = np.append(np.full(problem.horizon, problem.unit), 1)[: problem.stages]
    most = np.append(np.full(problem.horizon, problem.most_units), 1)[: problem.stages]
    best = -(-problem.pulls // most)
    return best.astype(np.int64), units * problem.pulls / best


def best_true_rewards(problem: Problem, means: Floats) -> Floats | None:
    """Reward of pulling the arms of largest mean at every stage, at true means (E, arms): (E,).

    None where no arm is best.
    """
    if not _has_best_arm(problem):
        return None
    groups = problem.arm_groups
    base = np.array([group.reward_base for group in groups])
    factor = np.array([group.reward_factor for group in groups])
    total, cache = np.zeros(len(means)), dict[bytes, Floats]()
    for t, (m, times) in enumerate(zip(*_best_pulls(problem), strict=True)):
        key = base[:, t].tobytes() + factor[:, t].tobytes() + m.tobytes()
        if key not in cache:  # most problems have the same rewards at all stages
            rewards = base[:, t] + factor[:, t] * means
            cache[key] = np.sort(rewards, axis=1)[:, -int(m) :].sum(axis=1)
        total += times * cache[key]
    return total


def _best_with_error(problem: Problem) -> tuple[float, float]:
    """Return the best mean reward over the prior, and a bound on its integration error."""
    best, total, error = largest_by_stage(problem), 0.0, 0.0
    for t, (m, times) in enumerate(zip(*_best_pulls(problem), strict=True)):
        value, error_of_stage = best(t, int(m))
        total += float(times) * value
        error += float(times) * error_of_stage
    return total, error


def _rewards(problem: Problem, stage: int) -> Floats:
    """Return base and factor of all groups at a stage, (groups, 2)."""
    return np.array([(g.reward_base[stage], g.reward_factor[stage]) for g in problem.groups])


def largest_by_stage(problem: Problem) -> Callable[[int, int], tuple[float, float]]:
    """Return a function for the expected sum of the m largest means at a stage, and its error."""
    by_shape: dict[tuple[bytes, int], tuple[float, float]] = {}

    def largest(stage: int, m: int) -> tuple[float, float]:
        rewards = _rewards(problem, stage)
        # rewards that only rise and fall together are one shape: it is integrated once
        shift, scale = float(rewards[:, 0].min()), float(np.abs(rewards).max()) or 1.0
        shape = (rewards - [shift, 0.0]) / scale
        key = (shape.tobytes(), m)
        if key not in by_shape:
            by_shape[key] = sum_of_largest(problem, shape, m)
        value, error = by_shape[key]
        return m * shift + scale * value, scale * error

    return largest


def sum_of_largest(
    problem: Problem, rewards: Floats, m: int, *, power: int = 1
) -> tuple[float, float]:
    """E of the sum of the m largest base + factor times a mean, and its error; rewards (groups, 2).

    The integral above, in panels between quantiles of every group. Error: a product of laws is off
    by no more than all of them together, and each by about what the rule makes of its mean, which
    is known. With a power, of the sum of their powers: weighted by power x^(power - 1).
    """
    groups, counts = problem.groups, np.array([group.count for group in problem.groups])
    initial = [np.array(group.model.initial(), dtype=float) for group in groups]
    pairs = zip(groups, initial, strict=True)
    prior_means = np.array([float(group.model.mean(stats)) for group, stats in pairs])
    means = rewards[:, 0] + rewards[:, 1] * prior_means
    cuts = []
    for group, stats, (base, factor) in zip(groups, initial, rewards, strict=True):
        levels = np.concatenate([ENDS, QUANTILES, QUANTILES ** (1.0 / group.count)])
        cuts.append(base + factor * group.model.quantile(stats[None, :], levels))
    edges = np.unique(np.concatenate(cuts))
    edges = edges[np.linspace(0, edges.size - 1, min(edges.size, MAX_PANELS + 1)).astype(int)]
    if power == 1 and (m == problem.n_arms or edges.size == 1):
        return float(counts @ means) * m / problem.n_arms, 0.0
    parts, weights = _double_exponential()
    length = np.diff(edges)[:, None]
    x = (edges[:-1, None] + length * parts).ravel()
    rows = zip(groups, initial, rewards, strict=True)
    below = np.stack([_below(group, stats, b, f, x) for group, stats, (b, f) in rows], axis=1)
    weighted = (length * weights).ravel()
    error = float(counts @ np.abs(edges[0] + weighted @ (1.0 - below) - means))
    weighted *= power * x ** (power - 1)
    held = _expected_minimum(1.0 - below, below, counts, m)
    return float(m * edges[0] ** power + weighted @ held), ERROR_MARGIN * m * error


def _double_exponential() -> tuple[Floats, Floats]:
    """Return nodes in (0, 1) and weights of the rule of Takahasi and Mori."""
    t, step = np.linspace(-REACH, REACH, NODES, retstep=True)
    nodes = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(t)))
    return nodes, step * np.pi * np.cosh(t) * nodes * nodes[::-1]


def _below(group: Group, initial: Floats, base: float, factor: float, x: Floats) -> Floats:
    """Return the probability that base + factor times the mean is at most x, (M,)."""
    if factor == 0.0:
        return np.asarray(x >= base, dtype=float)
    probability = group.model.cdf(initial[None, :], (x - base) / factor)
    return probability if factor > 0.0 else np.asarray(1.0 - probability)


def _expected_minimum(
    above: Floats, below: Floats, counts: npt.NDArray[np.int64], m: int
) -> Floats:
    """E[min(N, m)] = m - sum_{i<m} (m - i) P(N = i), N a sum of binomials, one per group.

    above, below (M, groups): probabilities of an arm, in M cases.
    """
    from scipy.special import gammaln, xlogy

    if m == 1:
        return np.asarray(1.0 - np.exp(xlogy(counts, below).sum(axis=1)))
    i = np.arange(m)
    distribution = np.zeros((len(above), m))  # of the groups so far, up to m - 1
    distribution[:, 0] = 1.0
    for s, f, count in zip(above.T, below.T, counts, strict=True):
        before, distribution = distribution, np.zeros_like(distribution)
        for k in range(min(int(count), m - 1) + 1):
            ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
            terms = np.exp(ways + xlogy(k, s) + xlogy(count - k, f))
            distribution[:, k:] += terms[:, None] * before[:, : m - k]
    return np.asarray(m - distribution @ (m - i))


def pull_rewards(problem: Problem) -> tuple[Floats, Floats]:
    """Return base and factor of the expected reward of a pull of each arm, (arms,) each.

    A pull of an arm with mean outcome m is expected to earn base + factor m, on average over the
    stages of the trial. Where pulls of every arm earn the same whatever the outcome, the reward of
    the deployment is taken instead, if there is one.
    """
    groups = problem.arm_groups
    base, factor = (
        _stage_means([group.played_rewards[part][: problem.horizon] for group in groups])
        for part in (0, 1)
    )
    if problem.terminal is not None and not factor.any() and np.ptp(base) == 0.0:
        base = np.array([group.reward_base[-1] for group in groups])
        factor = np.array([group.reward_factor[-1] for group in groups])
    return base, factor


def _stage_means(rewards: Sequence[Floats]) -> Floats:
    """Mean of each row; a constant row keeps its value to the last digit."""
    return np.array([row[0] if np.ptp(row) == 0.0 else row.mean() for row in rewards])


def share_of_best(arms: Sequence[tuple[Floats, float, int]]) -> Floats:
    """Return the fraction of the arms with the largest posterior mean that are truly best.

    An entry stands for `count` arms alike: (posterior mean in each state, truth, count).
    """
    top = np.max([mean for mean, _, _ in arms], axis=0) - SAME_MEAN
    best = max(truth for _, truth, _ in arms)
    tied = sum(count * (mean >= top) for mean, _, count in arms)
    right = sum(count * (mean >= top) for mean, truth, count in arms if truth == best)
    return np.asarray(right / tied)
