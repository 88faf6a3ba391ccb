"""Expected reward of always pulling the best arms: the reference for regret.

An arm's mean reward at stage t is X_a = bad_t + theta_a (good_t - bad_t), theta_a beta distributed;
of other kinds X_a = base_t + factor_t times the arm's mean. With N(x) the number of arms whose mean
is above x, the expected sum of the m largest means is

    E[X_(1) + ... + X_(m)] = m low + integral over [low, high] of E[min(N(x), m)] dx

where [low, high] holds all means: the j-th largest is above x when N(x) >= j.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..support import Floats, integral
from .groups import Group
from .model import Problem

ACCURACY = 1e-13  # of each panel of the integral, in units of the range of the means
MAX_PANELS = 60
SAME_MEAN = 1e-12  # posterior means closer than this are equal
# where a distribution function bends: the integral is cut there, or a narrow one would be missed
_QUANTILES = np.array([1e-9, 1e-5, 1e-3, 0.05, 0.3, 0.7, 0.95, 1 - 1e-3, 1 - 1e-5, 1 - 1e-9])
_ENDS = np.array([1e-14, 1 - 1e-14])  # beyond them nothing counts
REACH, NODES = 3.2, 49  # of the rule between two of them, where there are other outcomes
ERRORS = 2.0  # of the means of all arms, that the rule may be off by


def best_mean_reward(problem: Problem, truth: Sequence[float] | None = None) -> float | None:
    """Return the expected reward of always pulling the arms of largest mean and deploying the best.

    Over the prior, or at the success probabilities `truth` (arms,). None where arms have tables of
    last rewards, or states of their own: what is best then depends on the whole history, and regret
    is not defined.
    """
    if not _has_best_arm(problem):
        return None
    if not problem.is_binary:
        return _best_of_kinds(problem)[0]
    pulls, times = _best_pulls(problem)
    if truth is None:
        return float((times * pulls * best_mean_per_pull(problem)).sum())
    arms = [problem.groups[k] for k in problem.group_of_arm]
    good = np.array([arm.reward_good for arm in arms])  # (arms, stages)
    bad = np.array([arm.reward_bad for arm in arms])
    means = np.sort(bad + np.array(truth)[:, None] * (good - bad), axis=0)[::-1]
    return float(sum(times[t] * means[:m, t].sum() for t, m in enumerate(pulls)))


def best_mean_bound(problem: Problem) -> float | None:
    """Return an upper bound on every policy: the best mean reward plus its integration error."""
    if problem.is_binary or not _has_best_arm(problem):
        return best_mean_reward(problem)
    return sum(_best_of_kinds(problem))


@lru_cache(maxsize=8)
def best_mean_per_pull(problem: Problem) -> Floats:
    """Return the expected mean reward of a pull of the best arms, (stages,), over the prior."""
    good = np.array([group.reward_good for group in problem.groups])  # (groups, stages)
    bad = np.array([group.reward_bad for group in problem.groups])
    sums = _Sums(problem)
    stages = enumerate(_best_pulls(problem)[0].tolist())
    means = np.array([sums(good[:, t], bad[:, t], m) / m for t, m in stages])
    means.flags.writeable = False  # kept for later calls
    return means


def _has_best_arm(problem: Problem) -> bool:
    known = all(group.model.has_law and group.terminal is None for group in problem.groups)
    known &= not problem.is_restless
    return known and not problem.may_wait  # with a budget, the best arm may be too dear


def _best_pulls(problem: Problem) -> tuple[npt.NDArray[np.int64], Floats]:
    """How many of the best arms are pulled at every stage, and how often each of them."""
    # the best arm takes the whole of a batch; single pulls go to as many arms
    units = np.append(np.full(problem.horizon, problem.unit), 1)[: problem.stages]
    if problem.repeat:
        best = np.append(np.ones(problem.horizon), problem.deployed)[: problem.stages]
        return best.astype(np.int64), units * problem.pulls / best
    return problem.pulls.astype(np.int64), units.astype(float)


def best_true_rewards(problem: Problem, means: Floats) -> Floats | None:
    """Reward of pulling the arms of largest mean at every stage, at true means (E, arms): (E,).

    Arms of any kind; None where no arm is best.
    """
    if not _has_best_arm(problem):
        return None
    groups = [problem.groups[k] for k in problem.group_of_arm]
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


def _best_of_kinds(problem: Problem) -> tuple[float, float]:
    """Over the prior, arms of any kind whose mean has a law; and how far off it may be."""
    cache, total, error = dict[bytes, tuple[float, float]](), 0.0, 0.0
    for t, (m, times) in enumerate(zip(*_best_pulls(problem), strict=True)):
        rewards = np.array([(g.reward_base[t], g.reward_factor[t]) for g in problem.groups])
        key = rewards.tobytes() + m.tobytes()
        if key not in cache:
            cache[key] = largest_of_kinds(problem, rewards, int(m))
        total += float(times) * cache[key][0]
        error += float(times) * cache[key][1]
    return total, error


def largest_of_kinds(problem: Problem, rewards: Floats, m: int) -> tuple[float, float]:
    """E of the sum of the m largest base + factor times a mean; rewards (groups, 2).

    The integral above, between quantiles of every group, with a rule that does not mind the
    infinite slopes that laws of small prior weights have there. And how far off it may be: a
    product of laws is off by no more than all of them, and each by what the rule makes of its mean,
    which is known, about.
    """
    first = [np.array(group.model.initial(), dtype=float) for group in problem.groups]
    first_means = [
        float(group.model.mean(first_stats))
        for group, first_stats in zip(problem.groups, first, strict=True)
    ]
    means = rewards[:, 0] + rewards[:, 1] * np.array(first_means)
    parts, weights = _double_exponential()
    counts = np.array([group.count for group in problem.groups])
    cuts = []
    for group, (base, factor) in zip(problem.groups, rewards, strict=True):
        levels = np.concatenate([_ENDS, _QUANTILES, _QUANTILES ** (1.0 / group.count)])
        stats = np.array(group.model.initial(), dtype=float)
        cuts.append(base + factor * group.model.quantile(stats[None, :], levels))
    edges = np.unique(np.concatenate(cuts))
    if m == problem.n_arms or edges.size == 1:
        return float(counts @ means) * m / problem.n_arms, 0.0
    length = np.diff(edges)[:, None]
    x = (edges[:-1, None] + length * parts).ravel()
    below = np.stack(
        [_below(group, b, f, x) for group, (b, f) in zip(problem.groups, rewards, strict=True)],
        axis=1,
    )
    held = _expected_minimum(1.0 - below, below, counts, m)
    weighted = (length * weights).ravel()
    error = float(counts @ np.abs(edges[0] + weighted @ (1.0 - below) - means))
    return float(m * edges[0] + weighted @ held), ERRORS * m * error


def _double_exponential() -> tuple[Floats, Floats]:
    """Nodes in (0, 1) and weights of the rule of Takahasi and Mori."""
    t, step = np.linspace(-REACH, REACH, NODES, retstep=True)
    nodes = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(t)))
    return nodes, step * np.pi * np.cosh(t) * nodes * nodes[::-1]


def _below(group: Group, base: float, factor: float, x: Floats) -> Floats:
    """Chance that base + factor times the mean is at most x, (M,)."""
    if factor == 0.0:
        return np.asarray(x >= base, dtype=float)
    stats = np.array(group.model.initial(), dtype=float)
    probability = group.model.cdf(stats[None, :], (x - base) / factor)
    return probability if factor > 0.0 else np.asarray(1.0 - probability)


def pull_rewards(problem: Problem) -> tuple[Floats, Floats]:
    """Return base and factor of the expected reward of a pull of each arm, (arms,) each.

    A pull of an arm with mean outcome m is expected to earn base + factor m, on average over the
    stages of the trial. Where pulls of every arm earn the same whatever the outcome, the reward of
    the deployment is taken instead, if there is one.
    """
    groups = [problem.groups[k] for k in problem.group_of_arm]
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
    """Of the arms that look best, the part that are best: those of the largest true probability.

    An entry stands for `count` arms alike: (posterior mean in each state, truth, count).
    """
    top = np.max([mean for mean, _, _ in arms], axis=0) - SAME_MEAN
    best = max(truth for _, truth, _ in arms)
    tied = sum(count * (mean >= top) for mean, _, count in arms)
    right = sum(count * (mean >= top) for mean, truth, count in arms if truth == best)
    return np.asarray(right / tied)


class _Sums:
    """Expected sums of largest means, each shape of rewards integrated once."""

    def __init__(self, problem: Problem) -> None:
        self._alpha = np.array([group.alpha for group in problem.groups])
        self._beta = np.array([group.beta for group in problem.groups])
        self._counts = np.array([group.count for group in problem.groups])
        self._known: dict[tuple[bytes, int], float] = {}

    def __call__(self, good: Floats, bad: Floats, m: int) -> float:
        low = min(good.min(), bad.min())
        span = max(good.max(), bad.max()) - low
        if m == self._counts.sum():  # all arms: no integral is as good as their means
            mean = self._alpha / (self._alpha + self._beta)
            return float(self._counts @ (bad + mean * (good - bad)))
        if span == 0.0:
            return m * float(low)
        # rewards that only rise and fall together are one shape, shifted and scaled
        shape = np.stack([(good - low) / span, (bad - low) / span])
        key = (shape.tobytes(), m)
        if key not in self._known:
            ends = self._alpha, self._beta, shape[0], shape[1]
            self._known[key] = expected_sum_of_largest(*ends, self._counts, m)
        return float(m * low + span * self._known[key])


def expected_sum_of_largest(
    alpha: Floats,
    beta: Floats,
    good: Floats,
    bad: Floats,
    counts: npt.NDArray[np.int64],
    m: int,
    power: int = 1,
) -> float:
    """E of the sum of the m largest bad + theta (good - bad) in [0, 1]; groups of `counts` arms.

    With a power, of the sum of their powers: the integrand is weighted by power x^(power - 1).
    """
    from scipy.special import betainc  # late: trials do not need scipy

    slope = good - bad

    def exceeding(x: Floats) -> Floats:
        points = x[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            below = betainc(alpha, beta, np.clip((points - bad) / slope, 0.0, 1.0))
        above = np.where(slope > 0, 1.0 - below, np.where(slope < 0, below, bad > points))
        weight = power * x ** (power - 1)
        return np.asarray(weight * _expected_minimum(above, 1.0 - above, counts, m))

    cuts = _cuts(alpha, beta, good, bad, counts)
    return integral(exceeding, cuts, ACCURACY)


def _cuts(
    alpha: Floats, beta: Floats, good: Floats, bad: Floats, counts: npt.NDArray[np.int64]
) -> Floats:
    """Return ends and inner points of [0, 1] between which the integrand is smooth."""
    from scipy.special import betaincinv

    # of one arm and of the largest of each group, whose distribution is F^count
    levels = np.stack([_QUANTILES + 0 * counts[:, None], _QUANTILES ** (1.0 / counts[:, None])])
    theta = betaincinv(alpha[:, None], beta[:, None], levels)
    points = bad[:, None] + theta * (good - bad)[:, None]
    inner = np.unique(np.concatenate([points.ravel(), good, bad]).clip(0.0, 1.0).round(9))
    cuts = inner[np.linspace(0, inner.size - 1, min(inner.size, MAX_PANELS)).round().astype(int)]
    return np.unique(np.concatenate([[0.0], cuts, [1.0]]))


def _expected_minimum(
    above: Floats, below: Floats, counts: npt.NDArray[np.int64], m: int
) -> Floats:
    """E[min(N, m)] = m - sum_{i<m} (m - i) P(N = i), N a sum of binomials, one per group.

    above, below (M, groups): chances of an arm, in M cases.
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


def best_mean_moments(problem: Problem, stage: int = 0) -> tuple[float, float]:
    """E and E of the square of the largest mean reward of a pull at a stage."""
    groups = problem.groups
    alpha, beta = np.array([[g.alpha, g.beta] for g in groups]).T
    good, bad = np.array([[g.reward_good[stage], g.reward_bad[stage]] for g in groups]).T
    counts = np.array([g.count for g in groups])
    low = min(good.min(), bad.min())
    span = (max(good.max(), bad.max()) - low) or 1.0
    ends = alpha, beta, (good - low) / span, (bad - low) / span, counts
    first = expected_sum_of_largest(*ends, 1)
    second = expected_sum_of_largest(*ends, 1, power=2)
    return float(low + span * first), float(low**2 + 2 * low * span * first + span**2 * second)
