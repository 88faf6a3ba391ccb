"""Requirements of policies on a problem: a sentence where one is not met, else None.

A policy lists its requirements in `requires`; the first that a problem does not meet is the reason
why the policy refuses it (`Policy.refusal`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..problem import Problem

Requirement = Callable[[Problem], str | None]
GENERAL = "use 'deco', 'greedy' or 'equal'"  # which serve every problem
NOT_RESTLESS = (
    "assumes that an arm stays as it is while it is not pulled; use 'deco', 'deco-rolling' or "
    "'greedy'"
)


def _unless(holds: Callable[[Problem], bool], sentence: str) -> Requirement:
    return lambda problem: None if holds(problem) else sentence


batches = _unless(
    lambda problem: problem.repeat,
    "shares batches among arms: it needs a problem with repeat = true (--batch); for single pulls "
    "use 'deco', 'greedy' or 'thompson'",
)
single_pulls = _unless(
    lambda problem: batches(problem) is not None,
    "chooses arms for single pulls, and does not share a batch among them; use 'deco', 'greedy' "
    "or 'thompson'",
)
no_windows = _unless(
    lambda problem: not problem.has_windows,
    f"needs arms that can be pulled at every stage; {GENERAL}",
)
one_deployed = _unless(
    lambda problem: problem.deployed == 1,
    f"deploys one arm, not a shortlist; {GENERAL}",
)
binary_outcomes = _unless(lambda problem: problem.is_binary, f"needs binary outcomes; {GENERAL}")
binary_or_restless = _unless(
    lambda problem: problem.is_restless or binary_outcomes(problem) is None,
    f"needs binary outcomes or arms that move at rest; {GENERAL}",
)
restless_arms = _unless(
    lambda problem: problem.is_restless, f"needs arms that move at rest; {GENERAL}"
)
unknown_means = _unless(
    lambda problem: all(group.model.has_law for group in problem.groups),
    f"compares unknown means, and Markov arms have none; {GENERAL}",
)
known_variances = _unless(
    lambda problem: all(group.model.known_variance for group in problem.groups),
    "needs arms of known variance; use 'knowledge-gradient', 'bayes-ucb', 'thompson' or 'greedy'",
)
prior_weight = _unless(
    lambda problem: all(group.model.prior_pulls is not None for group in problem.groups),
    f"has to know how many pulls the prior of an arm is worth; {GENERAL}",
)


def one_pull(problem: Problem) -> str | None:
    """One pull per stage."""
    if problem.pulls_per_stage == 1:
        return None
    return f"needs one pull per stage; the problem has {problem.pulls_per_stage}; {GENERAL}"


def rising_rewards(problem: Problem) -> str | None:
    """Larger outcomes earn more: for upper bounds on means."""
    for group in problem.groups:
        if np.any(group.reward_factor[: problem.horizon] < 0.0):
            name = problem.arms[group.members[0]].name
            return (
                f"needs rewards that grow with the outcome; arm {name!r} has rewards that fall; "
                f"{GENERAL}"
            )
    return None


def steady_rewards(problem: Problem) -> str | None:
    """Rewards are the same at all stages, at which all arms can be pulled."""
    if (sentence := no_windows(problem)) is not None:
        return sentence
    for group in problem.groups:
        rewards = [played[: problem.horizon] for played in group.played_rewards]
        if any(np.any(played != played[0]) for played in rewards):
            name = problem.arms[group.members[0]].name
            return f"needs the same rewards at all stages; those of arm {name!r} change; {GENERAL}"
    return None


def finite_outcomes(problem: Problem) -> str | None:
    """Require that a pull has finitely many outcomes."""
    words = [group.model.word for group in problem.groups if not group.model.finite]
    return (
        f"needs finitely many states, and {words[0]} arms have more; {GENERAL}" if words else None
    )
