"""Expected reward of always pulling the best arms: the reference for regret.

An arm's mean reward at stage t is X_a = bad_t + theta_a (good_t - bad_t), theta_a beta distributed.
With N(x) the number of arms whose mean is above x, the expected sum of the m largest means is

    E[X_(1) + ... + X_(m)] = m low + integral over [low, high] of E[min(N(x), m)] dx

where [low, high] holds all means: the j-th largest is above x when N(x) >= j.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .model import Problem

Floats = npt.NDArray[np.float64]

ACCURACY = 1e-12  # of the integral, in units of the range of the means; what is asked for
MAX_PANELS = 60
SAME_MEAN = 1e-12  # posterior means closer than this are equal
# where a distribution function bends: the integral is cut there, or a narrow one would be missed
_QUANTILES = np.array([1e-9, 1e-5, 1e-3, 0.05, 0.3, 0.7, 0.95, 1 - 1e-3, 1 - 1e-5, 1 - 1e-9])


def best_mean_reward(problem: Problem, truth: Sequence[float] | None = None) -> float | None:
    """Expected reward of pulling the arms of largest mean at every stage, and deploying the best.

    Over the prior, or at the success probabilities `truth` (arms,). None where arms have tables of
    last rewards: what is best then depends on the whole history, and regret is not defined; nor is
    it, yet, where outcomes are others than good or bad.
    """
    if not problem.is_binary or any(group.terminal is not None for group in problem.groups):
        return None
    arms = problem.groups if truth is None else [problem.groups[k] for k in problem.group_of_arm]
    good = np.array([arm.reward_good for arm in arms])  # (groups or arms, stages)
    bad = np.array([arm.reward_bad for arm in arms])
    # the best arm takes the whole of a batch; single pulls go to as many arms
    pulls = np.ones(problem.stages, int) if problem.repeat else problem.pulls.astype(int)
    times = np.append(np.full(problem.horizon, problem.unit), 1)[: problem.stages] * (
        problem.pulls if problem.repeat else 1
    )
    if truth is not None:
        means = np.sort(bad + np.array(truth)[:, None] * (good - bad), axis=0)[::-1]
        return float(sum(times[t] * means[:m, t].sum() for t, m in enumerate(pulls)))
    sums = _Sums(problem)
    return float(sum(times[t] * sums(good[:, t], bad[:, t], m) for t, m in enumerate(pulls)))


def best_true_reward(problem: Problem, means: Sequence[float]) -> float | None:
    """Reward of pulling the arms of largest mean at every stage, arms of any kind at true means."""
    if any(group.terminal is not None for group in problem.groups):
        return None
    groups = [problem.groups[k] for k in problem.group_of_arm]
    base = np.array([group.reward_base for group in groups])
    factor = np.array([group.reward_factor for group in groups])
    each = np.sort(base + factor * np.array(means)[:, None], axis=0)[::-1]
    pulls = problem.pulls.astype(int)
    return float(sum(each[:m, t].sum() for t, m in enumerate(pulls)))


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
    # late: scipy takes half a second to load, and trials do not need it
    from scipy.integrate import quad
    from scipy.special import betainc

    slope = good - bad

    def exceeding(x: float) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            below = betainc(alpha, beta, np.clip((x - bad) / slope, 0.0, 1.0))
        above = np.where(slope > 0, 1.0 - below, np.where(slope < 0, below, bad > x))
        weight = power * x ** (power - 1)
        return weight * _expected_minimum(above, 1.0 - above, counts, m)

    cuts = _cuts(alpha, beta, good, bad, counts)
    panels = [
        quad(
            exceeding, a, b, epsabs=ACCURACY / len(cuts), epsrel=ACCURACY, limit=200, full_output=1
        )
        for a, b in pairwise(cuts)
    ]  # full_output: no warning where rounding, near 1e-16, is all that is left of the error
    return float(sum(panel[0] for panel in panels))


def _cuts(
    alpha: Floats, beta: Floats, good: Floats, bad: Floats, counts: npt.NDArray[np.int64]
) -> Floats:
    """Ends and inner points of [0, 1] between which the integrand is smooth."""
    from scipy.special import betaincinv

    # of one arm and of the largest of each group, whose distribution is F^count
    levels = np.stack([_QUANTILES + 0 * counts[:, None], _QUANTILES ** (1.0 / counts[:, None])])
    theta = betaincinv(alpha[:, None], beta[:, None], levels)
    points = bad[:, None] + theta * (good - bad)[:, None]
    inner = np.unique(np.concatenate([points.ravel(), good, bad]).clip(0.0, 1.0).round(9))
    kept = inner[np.linspace(0, inner.size - 1, min(inner.size, MAX_PANELS)).round().astype(int)]
    return np.unique(np.concatenate([[0.0], kept, [1.0]]))


def _expected_minimum(above: Floats, below: Floats, counts: npt.NDArray[np.int64], m: int) -> float:
    """E[min(N, m)] = m - sum_{i<m} (m - i) P(N = i), N a sum of binomials, one per group."""
    from scipy.special import gammaln, xlogy

    if m == 1:
        return 1.0 - float(np.exp(xlogy(counts, below).sum()))
    i = np.arange(m)
    distribution = (i == 0).astype(float)  # of the groups so far, up to m - 1
    for s, f, count in zip(above, below, counts, strict=True):
        k = i[: count + 1]
        ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
        own = np.exp(ways + xlogy(k, s) + xlogy(count - k, f))
        distribution = np.convolve(distribution, own)[:m]
    return float(m - (m - i) @ distribution)


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
