"""Results of the arms of a trial: rates with intervals, posteriors, chances of being best.

Intervals have 95%. The credible interval has equal tails of the posterior. The two confidence
intervals are of the observed rate as if the number of pulls had been fixed beforehand:
Clopper-Pearson (exact) and Wilson.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..policies.best_chances import Floats, best_chances
from ..problem import Problem
from .errors import TrialError
from .ledger import Ledger

LEVEL = 0.95
MAX_COMPARED = 300  # arms up to which the chances of being best are computed: about 2 s
Ends = tuple[float, float]


@dataclass(frozen=True)
class ArmResult:
    """What a trial says about an arm.

    Attributes
    ----------
    name : str
        Its name.
    allocated : int
        Allocations that hold a slot.
    pulls : int
        Recorded outcomes.
    good : int
        Good ones among them.
    pending : int
        Allocations whose outcome is not recorded.
    rate : float | None
        Good outcomes per recorded one; null before the first.
    exact_interval : tuple[float, float] | None
        95% confidence interval of the rate by Clopper and Pearson, for a fixed number of pulls.
    wilson_interval : tuple[float, float] | None
        The same by Wilson's score method.
    prior_good : float
        Pseudo-count of good outcomes of the prior.
    prior_bad : float
        Pseudo-count of bad outcomes of the prior.
    effective_sample_size : float
        Outcomes that the prior is worth: the sum of its pseudo-counts.
    posterior_mean : float
        Of the success probability.
    credible_interval : tuple[float, float]
        95% of the posterior, with equal tails.
    best : float | None
        Posterior probability that its expected reward is the largest; null with very many arms.
    better_than_control : float | None
        Posterior probability that its expected reward exceeds the control's; null for the control.

    Examples
    --------
    >>> trial.report().arms[0].best
    0.5
    """

    name: str
    allocated: int
    pulls: int
    good: int
    pending: int
    rate: float | None
    exact_interval: Ends | None
    wilson_interval: Ends | None
    prior_good: float
    prior_bad: float
    effective_sample_size: float
    posterior_mean: float
    credible_interval: Ends
    best: float | None
    better_than_control: float | None


def control_of(problem: Problem, control: str | None) -> int:
    """Position of the control arm: the first where none is named."""
    names = [arm.name for arm in problem.arms]
    if control is None:
        return 0
    if control not in names:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise TrialError(f"control: no arm is called {control!r}; the arms are {shown}")
    return names.index(control)


def arm_results(ledger: Ledger, control: int) -> tuple[ArmResult, ...]:
    """The results of every arm, in the order of the problem."""
    good, bad = np.array(ledger.good, float), np.array(ledger.bad, float)
    arms = ledger.problem.arms
    a = np.array([arm.beta.good for arm in arms]) + good
    b = np.array([arm.beta.bad for arm in arms]) + bad
    kinds = _rewards(ledger.problem, a, b)
    best = best_chances(*kinds).tolist() if len(arms) <= MAX_COMPARED else [None] * len(arms)
    better = _better(kinds, control)
    exact, wilson = exact_interval(good, good + bad), wilson_interval(good, good + bad)
    credible = credible_interval(a, b)
    found = []
    for k, arm in enumerate(arms):
        pulls = ledger.good[k] + ledger.bad[k]
        found.append(
            ArmResult(
                name=arm.name,
                allocated=pulls + ledger.open[k],
                pulls=pulls,
                good=ledger.good[k],
                pending=ledger.open[k],
                rate=ledger.good[k] / pulls if pulls else None,
                exact_interval=_ends(exact, k) if pulls else None,
                wilson_interval=_ends(wilson, k) if pulls else None,
                prior_good=arm.beta.good,
                prior_bad=arm.beta.bad,
                effective_sample_size=arm.beta.good + arm.beta.bad,
                posterior_mean=float(a[k] / (a[k] + b[k])),
                credible_interval=_ends(credible, k),
                best=best[k],
                better_than_control=better[k],
            )
        )
    return tuple(found)


def _ends(intervals: Floats, k: int) -> Ends:
    return float(intervals[0, k]), float(intervals[1, k])


def credible_interval(a: Floats, b: Floats) -> Floats:
    """Equal-tailed interval of Beta(a, b), (2, arms)."""
    from scipy.special import betaincinv

    tail = (1.0 - LEVEL) / 2.0
    return np.stack([betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)])


def exact_interval(good: Floats, pulls: Floats) -> Floats:
    """Clopper-Pearson interval, (2, arms): ends at which either tail has 2.5%."""
    from scipy.special import betaincinv

    tail, bad = (1.0 - LEVEL) / 2.0, pulls - good
    low = np.where(good > 0, betaincinv(np.maximum(good, 1.0), bad + 1.0, tail), 0.0)
    high = np.where(bad > 0, betaincinv(good + 1.0, np.maximum(bad, 1.0), 1.0 - tail), 1.0)
    return np.stack([low, high])


def wilson_interval(good: Floats, pulls: Floats) -> Floats:
    """Wilson's score interval, (2, arms)."""
    from scipy.special import ndtri

    z, n = float(ndtri((1.0 + LEVEL) / 2.0)), np.maximum(pulls, 1.0)
    rate = good / n
    middle = (rate + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * np.sqrt(rate * (1.0 - rate) / n + z * z / (4.0 * n * n))
    # the ends of all good and all bad, without what rounding leaves of them
    return np.stack(
        [np.where(good > 0, middle - half, 0.0), np.where(good < pulls, middle + half, 1.0)]
    )


def _rewards(problem: Problem, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """As `best_chances` takes them: posterior of the better outcome, least reward, span.

    Rewards that differ from stage to stage are averaged over the stages.
    """
    good = np.array([float(np.mean(arm.outcome_reward.good)) for arm in problem.arms])
    bad = np.array([float(np.mean(arm.outcome_reward.bad)) for arm in problem.arms])
    up = good >= bad
    low, span = np.minimum(good, bad), np.abs(good - bad)
    return np.where(up, a, b), np.where(up, b, a), low, span


def _better(kinds: Sequence[Floats], control: int) -> list[float | None]:
    """Chance of every arm to be better than the control."""
    return [
        None if k == control
        else float(best_chances(*(each[[k, control]] for each in kinds))[0])
        for k in range(kinds[0].size)
    ]  # fmt: skip
