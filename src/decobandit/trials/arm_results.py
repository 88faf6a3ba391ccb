"""Results of the arms of a trial: rates with intervals, posteriors, chances of being best.

Intervals have 95%. The credible interval has equal tails of the posterior. The two confidence
intervals are of the observed rate as if the number of pulls had been fixed beforehand:
Clopper-Pearson (exact) and Wilson. Where outcomes are not good or bad, the rate is the mean of what
they count, and the posterior that of the arm's mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..policies import MeanComparison
from ..policies.comparison import best_probabilities
from ..problem import Arm, ArmModel, Problem, Rules, State, States
from ..support import Floats
from .allocations import Allocation, ArmPulls, kinds_of, parts_by_arm, tallies
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
    good : int | None
        Good ones among them; null where outcomes are not good or bad.
    pending : int
        Allocations whose outcome is not recorded.
    rate : float | None
        Good outcomes per recorded one, or their mean; null before the first.
    exact_interval : tuple[float, float] | None
        95% confidence interval of the rate by Clopper and Pearson, for a fixed number of pulls.
    wilson_interval : tuple[float, float] | None
        The same by Wilson's score method.
    prior_good : float | None
        Pseudo-count of good outcomes of the prior.
    prior_bad : float | None
        Pseudo-count of bad outcomes of the prior.
    effective_sample_size : float | None
        Outcomes that the prior is worth: the sum of its pseudo-counts, or what answers to it.
    posterior_mean : float
        Of the success probability, or of the mean of outcomes.
    credible_interval : tuple[float, float] | None
        95% of the posterior, with equal tails; null of own states.
    best : float | None
        Posterior probability that its expected reward of a pull is the largest, or its mean outcome
        where the rules compare outcomes; null with very many arms.
    better_than_control : float | None
        Posterior probability that it exceeds the control's; null for the control.
    seen : str
        What is on record, as states are written.
    prior : str
        What was known before.
    prior_mean : float
        Of the success probability, or of the mean of outcomes.

    Examples
    --------
    >>> trial.report().arms[0].best
    0.5
    """

    name: str
    allocated: int
    pulls: int
    good: int | None
    pending: int
    rate: float | None
    exact_interval: Ends | None
    wilson_interval: Ends | None
    prior_good: float | None
    prior_bad: float | None
    effective_sample_size: float | None
    posterior_mean: float
    credible_interval: Ends | None
    best: float | None
    better_than_control: float | None
    seen: str
    prior: str
    prior_mean: float


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
    problem, state = ledger.problem, ledger.known
    compare = _compared_binary if problem.is_binary else _compared
    best, better = compare(problem, state, control, ledger.settings.rules or Rules())
    written, stats = str(state).split(","), state.stats(problem)
    parts, found = parts_by_arm(ledger.allocations.values()), []
    for k, (arm, kind) in enumerate(zip(problem.arms, kinds_of(problem), strict=True)):
        pulls, fresh = state.pulls[k], np.array(kind.initial(), dtype=float)
        found.append(
            ArmResult(
                name=arm.name,
                allocated=pulls + ledger.open[k],
                pulls=pulls,
                pending=ledger.open[k],
                **(_counted(arm, state.good[k], pulls) if kind.counts_good else _NOT_COUNTED),
                rate=_observed_mean(kind, parts.get(arm.name, [])),
                effective_sample_size=kind.prior_pulls,
                posterior_mean=float(kind.mean(stats[k])),
                credible_interval=kind_interval(kind, stats[k]),
                best=best[k],
                better_than_control=better[k],
                seen=written[k],
                prior=kind.format.describe(kind.initial()),
                prior_mean=float(kind.mean(fresh)),
            )
        )
    return tuple(found)


_NOT_COUNTED = dict.fromkeys(
    ("good", "exact_interval", "wilson_interval", "prior_good", "prior_bad")
)


def _counted(arm: Arm, good: int, pulls: int) -> dict[str, Any]:
    """What is said of good and bad outcomes only."""
    both = np.array([float(good)]), np.array([float(pulls)])
    return {
        "good": good,
        "exact_interval": _ends(exact_interval(*both), 0) if pulls else None,
        "wilson_interval": _ends(wilson_interval(*both), 0) if pulls else None,
        "prior_good": arm.beta.good,
        "prior_bad": arm.beta.bad,
    }


def _observed_mean(kind: ArmModel, parts: list[tuple[Allocation, ArmPulls]]) -> float | None:
    number = sum(part.told for _, part in parts)
    known = tallies(kind, parts)
    total = sum(kind.format.tally_value(before, tally) for _, _, before, tally in known)
    return total / number if number else None


def kind_interval(kind: ArmModel, stats: Floats) -> Ends | None:
    """Equal tails of what is known of the mean of an arm; None of own states, which have none."""
    if not kind.has_law:
        return None
    low, high = kind.quantile(stats, np.array([(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])).tolist()
    return low, high


def posteriors_of(ledger: Ledger) -> list[tuple[float, Ends | None]]:
    """Posterior mean and credible interval of every arm."""
    pairs = zip(kinds_of(ledger.problem), ledger.known.stats(ledger.problem), strict=True)
    return [(float(kind.mean(own)), kind_interval(kind, own)) for kind, own in pairs]


Chances = tuple[list[float | None], list[float | None]]


def _compared(problem: Problem, state: State, control: int, rules: Rules) -> Chances:
    """P(best) and P(better than control) of arms of any kind; none where there are own states."""
    arms: list[float | None] = [None] * problem.n_arms
    kinds = kinds_of(problem)
    if len(kinds) > MAX_COMPARED or any(kind.ordered for kind in kinds):
        return arms, arms
    chances = MeanComparison(problem, rewards=rules.compare == "reward")
    states = States.of(problem, [state])
    better: list[float | None] = chances.better(states, control)[0].tolist()
    better[control] = None
    return chances.best(states)[0].tolist(), better


def _compared_binary(problem: Problem, state: State, control: int, rules: Rules) -> Chances:
    a = np.array([arm.beta.good for arm in problem.arms]) + np.array(state.good, float)
    b = np.array([arm.beta.bad for arm in problem.arms]) + np.array(state.bad, float)
    rewards = _rewards(*rules.pull_values(problem), a, b)
    many = len(problem.arms) > MAX_COMPARED
    best = [None] * len(problem.arms) if many else best_probabilities(*rewards).tolist()
    return best, _better(rewards, control)


def _ends(intervals: Floats, k: int) -> Ends:
    return float(intervals[0, k]), float(intervals[1, k])


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


def _rewards(
    base: Floats, factor: Floats, a: Floats, b: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """As `best_probabilities` takes them: posterior of the better outcome, least reward, span."""
    up = factor >= 0.0
    low, span = np.minimum(base, base + factor), np.abs(factor)
    return np.where(up, a, b), np.where(up, b, a), low, span


def _better(kinds: Sequence[Floats], control: int) -> list[float | None]:
    """Chance of every arm to be better than the control; equal constant rewards are not better."""
    low, span = kinds[2:]
    return [
        None
        if k == control
        else float(low[k] > low[control])
        if span[k] == span[control] == 0.0
        else float(best_probabilities(*(each[[k, control]] for each in kinds))[0])
        for k in range(kinds[0].size)
    ]
