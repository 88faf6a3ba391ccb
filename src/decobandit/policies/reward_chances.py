"""What compares arms of good and bad outcomes: by success probability, or by their rewards."""

from __future__ import annotations

import numpy as np

from ..problem import Problem, Rules
from .comparison import KindChances
from .posterior_chances import LEAST_PRIOR, PosteriorChances

Posteriors = PosteriorChances | KindChances


def posterior_chances(problem: Problem, rules: Rules) -> Posteriors:
    """Return what compares arms of good and bad outcomes at looks, by the rules."""
    alike = problem.is_binary and rules.one_value(problem)
    if not alike or _smallest_prior(problem) < LEAST_PRIOR:
        return KindChances(problem, rules.margin, rewards=rules.compare == "reward")
    _, factor = rules.pull_values(problem)
    return PosteriorChances(problem, rules.margin, float(factor[0]))


def comparable_posteriors(problem: Problem) -> Posteriors | None:
    """Return what has P(best) by the rewards of every stage; None where arms differ by stage."""
    if _smallest_prior(problem) < LEAST_PRIOR:
        return None
    good = np.array([group.reward_good[: problem.horizon] for group in problem.groups])
    bad = np.array([group.reward_bad[: problem.horizon] for group in problem.groups])
    if np.ptp(good, axis=0).any() or np.ptp(bad, axis=0).any() or np.any(good <= bad):
        changing = np.ptp(good, axis=1).any() or np.ptp(bad, axis=1).any()
        constant = np.all(good == bad)  # Thompson sampling breaks such ties evenly
        return None if changing or constant else posterior_chances(problem, Rules())
    return PosteriorChances(problem)


def _smallest_prior(problem: Problem) -> float:
    return min(min(group.alpha, group.beta) for group in problem.groups)
