"""The test at the end of a trial: which arms are declared better than control, or best.

    posterior    P(better than control by the margin), or without a control arm P(best), is at least
                 the threshold
    fisher       one-sided P(as many good outcomes of the arm or more | margins of the 2 x 2 table)
                 is at most alpha; no correction for several arms
    conditional  two arms. With one success probability for both, given the size of the trial and
                 its good outcomes the probability of an end does not depend on it: it follows from
                 the design, here with a common rate that is drawn uniformly, so that no number of
                 good outcomes is too rare. The p-value is that of P(better than control) being as
                 large as it is, or larger; the arm is declared where it is at most alpha
    unconditional  the same with the largest p-value over all common rates, not conditional on the
                 size of the trial and its good outcomes
    z            one-sided P(as large a mean of the arm less that of control, or larger), from the
                 rewards of the outcomes alone, at a difference of the margin and known noise, is
                 at most alpha; no correction for several arms or for adaptive allocation
    t            the same with one estimated variance for both arms: n + m - 2 degrees of freedom
    welch        the same with a variance for each arm, degrees of freedom by Satterthwaite's
                 formula; operating characteristics say by how much the type I errors of both differ
                 from alpha in an adaptive trial

Arms are compared by the expected reward of a pull, or by the outcome if the rules say so: if
fewer good outcomes earn more, Fisher's test counts the bad ones, and the z-test is of mean rewards.
With concurrent controls an arm is compared with the outcomes of control at stages at which the arm
is available. Arms with states of their own have no unknown mean: none is declared, nor is one that
was dropped. A trial that stopped at a look declares what it declared there; only the exact tests
of the design itself test every trial, and only they declare.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..policies import SAME, RuledPolicy, at_least, at_most
from ..problem import EXACT_TESTS, FinalTest, Problem, Rules, States, has_unknown_means
from ..support import Floats, Ints
from .playing import Endings, Flags, follow

# of both arms, at which the unconditional test is computed: closer to each other near 0 and 1
COMMON_RATES = np.sin(np.linspace(0.0, np.pi / 2.0, 201)[1:-1]) ** 2


class Tested(NamedTuple):
    """The result of the test in every ending."""

    declared: Flags  # (S, K)
    statistic: Floats  # (S, K) what is compared with the threshold; p-values for other tests
    decided: Flags  # (S,) at a look, before the test


def final_test(policy: RuledPolicy, test: FinalTest, ends: Endings) -> Tested:
    """Return the declared arms of all endings."""
    rivals = ends.allowed.copy()
    if policy.control is not None:
        rivals[:, policy.control] = False
    decided = ends.reason > 0
    if not has_unknown_means(policy.problem):
        return Tested(np.zeros_like(rivals), np.zeros(rivals.shape), decided)
    if test.kind in EXACT_TESTS:
        exact = conditional_p_values if test.kind == "conditional" else unconditional_p_values
        p = exact(policy, ends)
        return Tested(rivals & at_most(p, test.level), p, np.zeros_like(decided))
    statistic = np.zeros(ends.pulls.shape) if test.kind == "posterior" else np.ones(rivals.shape)
    left = ~decided
    if left.any():
        statistic[left] = _statistic(policy, test, ends.pulls[left], ends.stats[left], rivals[left])
    if left.any() and ends.controls is not None:
        assert policy.control is not None
        for arm in np.flatnonzero([arm.available is not None for arm in policy.problem.arms]):
            pulls, stats = ends.pulls[left].copy(), ends.stats[left].copy()
            stats[:, policy.control] = ends.controls[left, arm]
            own = policy.problem.groups[policy.problem.group_of_arm[policy.control]].model
            pulls[:, policy.control] = own.pulls(stats[:, policy.control, : own.width])
            statistic[left, arm] = _statistic(policy, test, pulls, stats, rivals[left])[:, arm]
    meets = at_least if test.kind == "posterior" else at_most
    verdicts = meets(statistic, test.level)
    declared = np.where(decided[:, None], ends.declared, rivals & verdicts)
    return Tested(declared, statistic, decided)


def _statistic(
    policy: RuledPolicy, test: FinalTest, pulls: Ints, stats: Floats, rivals: Flags
) -> Floats:
    if test.kind == "posterior":
        allowed = rivals.copy()
        if policy.control is not None:
            allowed[:, policy.control] = True
        return policy.statistic(States(policy.problem, stats, None, allowed))
    assert policy.control is not None
    if test.kind in ("z", "t", "welch"):
        arguments = (policy.problem, pulls, stats, policy.control, policy.rules)
        return mean_p_values(*arguments, test.kind)
    _, factor = policy.rules.pull_values(policy.problem)  # the same of all arms
    better = stats[:, :, 0 if factor[0] > 0.0 else 1].astype(np.int64)
    return fisher_p_values(pulls, better, policy.control)


def mean_p_values(
    problem: Problem, pulls: Ints, stats: Any, control: int, rules: Rules, kind: str
) -> Floats:
    """One-sided p-values of every arm against control, (S, K), by a z-, t- or Welch's test.

    1 for control, and without pulls or variances. stats (S, K, 2 or 3): pulls, sums and, for
    unknown variances, sums of squares of the outcomes.
    """
    from scipy.special import ndtr, stdtr  # late: scipy takes half a second to load

    def both(values: Floats) -> Floats:
        return np.asarray(values + values[:, [control]])

    base, factor = rules.pull_values(problem)
    n, divisor = pulls.astype(float), np.maximum(pulls, 1)
    mean, free = stats[..., 1] / divisor, np.maximum(n - 1.0, 0.0)
    apart = base + factor * mean
    apart = apart - apart[:, [control]] - rules.margin
    least = np.minimum(n, n[:, [control]])
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "z":
            noise = np.array([problem.groups[k].model.noise_sd for k in problem.group_of_arm])
            enough = least >= 1.0
            spread = np.sqrt(both((factor * noise) ** 2 / divisor))
        else:
            scatter = factor**2 * np.maximum(stats[..., 2] - n * mean**2, 0.0)
            if kind == "t":
                freedom = both(free)
                enough = (least >= 1.0) & (freedom >= 1.0)
                spread = np.sqrt(both(scatter) / freedom * both(1.0 / n))
            else:
                square, enough = scatter / free / n, least >= 2.0
                freedom, spread = both(square) ** 2 / both(square**2 / free), np.sqrt(both(square))
        tail = ndtr(-apart / spread) if kind == "z" else stdtr(freedom, -apart / spread)
        p_values = np.where(spread > 0.0, tail, apart <= 0.0)
    p_values = np.where(enough, p_values, 1.0)
    p_values[:, control] = 1.0
    return np.asarray(p_values)


def fisher_p_values(pulls: Ints, good: Ints, control: int) -> Floats:
    """One-sided p-values of every arm against control, (S, K); 1 for control.

    good (S, K): outcomes of which more are better.
    """
    from scipy.stats import hypergeom

    p_values = np.ones(pulls.shape)
    for arm in range(pulls.shape[1]):
        if arm != control:
            table = np.stack(
                [good[:, arm], pulls[:, arm], good[:, control], pulls[:, control]], axis=1
            )
            rows, place = np.unique(table, axis=0, return_inverse=True)
            g, n, h, k = rows.T
            p_values[:, arm] = hypergeom.sf(g - 1, n + k, g + h, n)[place.reshape(-1)]
    return p_values


def conditional_p_values(policy: RuledPolicy, ends: Endings, null: Endings | None = None) -> Floats:
    """P-values of the exact test of the design itself, (S, 2); 1 for control.

    null: how trials end under a common rate.
    """
    null = follow(policy, None) if null is None else null
    assert policy.control is not None
    arm = 1 - policy.control
    both = Endings.joined([null, ends])
    ended = States(policy.problem, both.stats)
    # ties are decided by rounding, so that equal states of both parts fall together
    statistic = np.round(policy.statistic(ended)[:, arm] / SAME)
    weight = both.weight.copy()
    weight[len(null.weight) :] = 0.0
    size, good = both.size, both.stats[:, :, 0].sum(axis=1)
    order = np.lexsort((-statistic, good, size))
    new_class = np.diff(size[order], prepend=-1) + 1j * np.diff(good[order], prepend=-1) != 0
    new_value = new_class | (np.diff(statistic[order], prepend=np.nan) != 0)
    cumulated = np.cumsum(weight[order])
    class_of, value_of = np.cumsum(new_class) - 1, np.cumsum(new_value) - 1
    before = np.concatenate([[0.0], cumulated])[np.flatnonzero(new_class)]
    last_of_value = np.append(np.flatnonzero(new_value)[1:], len(order)) - 1
    last_of_class = np.append(np.flatnonzero(new_class)[1:], len(order)) - 1
    total = cumulated[last_of_class] - before
    tail = cumulated[last_of_value][value_of] - before[class_of]
    p_values = np.where(total[class_of] > 0.0, tail / np.maximum(total[class_of], 1e-300), 1.0)
    p = np.ones(both.pulls.shape)
    p[order, arm] = p_values
    return p[len(null.weight) :]


def unconditional_p_values(
    policy: RuledPolicy, ends: Endings, null: Endings | None = None
) -> Floats:
    """P-values of the exact test whatever the common rate, (S, 2); 1 for control.

    null: how trials end under a common rate that is drawn uniformly.
    """
    from scipy.special import betaln, xlog1py, xlogy

    null = follow(policy, None) if null is None else null
    assert policy.control is not None
    arm = 1 - policy.control

    def statistic(endings: Endings) -> Floats:
        values = policy.statistic(States(policy.problem, endings.stats))[:, arm]
        return np.round(values / SAME)  # ties are decided by rounding

    values, rank = np.unique(statistic(null), return_inverse=True)
    counts = np.stack([null.stats[:, :, 0].sum(axis=1), null.stats[:, :, 1].sum(axis=1)], axis=1)
    pairs, code = np.unique(counts, axis=0, return_inverse=True)
    (good, bad), code = pairs.T, code.reshape(-1)
    largest = np.zeros(len(values) + 1)  # the last: of a larger statistic than any
    for rate in COMMON_RATES:
        at_rate = np.exp(xlogy(good, rate) + xlog1py(bad, -rate) - betaln(good + 1, bad + 1))
        chance = np.bincount(rank.reshape(-1), null.weight * at_rate[code], len(values))
        largest[:-1] = np.maximum(largest[:-1], np.cumsum(chance[::-1])[::-1])
    p = np.ones(ends.pulls.shape)
    p[:, arm] = largest[np.searchsorted(values, statistic(ends))]
    return p
