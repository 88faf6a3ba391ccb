"""The default policy: `auto` picks one of the named policies for a problem.

    a budget, or resources          the best of deco and greedy
    arms with windows               the best of deco, greedy and knowledge-gradient
    single pulls                    deco-calibrated; non-binary outcomes: fh-gittins
    single pulls and a deployment   optimal where the exact optimum is small and no rules bind, else
                                    the best of deco-calibrated (non-binary outcomes: fh-gittins)
                                    and knowledge-gradient
    batches                         up to 5 stages, or rewards that change over the stages: the best
                                    of deco-repriced, knowledge-gradient, greedy and deco; else
                                    deco-repriced. Non-binary outcomes: the best of deco and greedy
    arms that move at rest          deco
    arms of unknown variance        the best of knowledge-gradient, thompson and greedy

The best policy has the largest value, computed exactly if that takes few states. Otherwise
candidates are compared on common draws, and the first is replaced only by one that earns more by
several standard errors; if simulation would be slow, the first is used. Measurements:
`docs/decisions/0019-auto.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..joint import count_states
from ..problem import State
from .allocation import Random
from .base import Context, Policy
from .calibrated import best_on_draws, exact_value
from .catalogue import make_policies, serving
from .index_policy import same_rewards
from .names import DEFAULT_POLICY
from .requirements import batches, binary_outcomes

# joint states of all stages up to which the exact optimum is used
OPTIMUM_STATES = 1_000_000
OPTIMUM_STATES_NON_BINARY = 20_000  # whose recursion is not compiled
SHORT_STAGES = 5  # stages of batches up to which prices of single stages are a poor guide
# states that are kept to compute the value of a candidate exactly
EXACT_STATES, EXACT_STATES_SHORT = 20_000, 200_000
SAMPLED_PULLS = 5_000  # pulls of an episode times arms up to which candidates are simulated
DRAWS, PER_DRAW = 1000, 2
OF_UNKNOWN_VARIANCE = ("knowledge-gradient", "thompson", "greedy")
MIN_Z = 3.0  # standard errors by which a rival must earn more on common draws


class AutoPolicy(Policy):
    """Picks a policy for its problem: `make` returns that policy, with its own name."""

    name = DEFAULT_POLICY
    plans_budget = plans_resources = True
    serves_restless = is_tuned = True
    cost = "tables"  # of most of the policies that it makes

    @classmethod
    def make(cls, context: Context) -> Policy:
        first, *rivals = _candidates(context)
        policies = make_policies(context, [first])
        for name in rivals:
            with suppress(ValueError):  # it does not serve this problem
                policies += make_policies(context, [name])
        return _best(policies)

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        return type(cls.make(context)).successor(context, planned)

    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        raise NotImplementedError("'auto' makes another policy: use make_policy")


def _candidates(context: Context) -> tuple[str, ...]:
    """Names of the policies to compare, the one for larger problems first."""
    problem = context.problem
    if not all(group.model.known_variance for group in problem.groups):
        return serving(problem, OF_UNKNOWN_VARIANCE)
    if problem.is_restless and not problem.may_wait:
        return ("deco",)
    if problem.may_wait:
        return ("deco", "greedy")
    if problem.has_windows:
        return ("deco", "greedy", "knowledge-gradient")
    binary = binary_outcomes(problem) is None
    if batches(problem) is None:
        if not binary:
            return ("deco", "greedy")
        if problem.horizon > SHORT_STAGES and same_rewards(problem, 0, problem.stages):
            return ("deco-repriced",)
        return ("deco-repriced", "knowledge-gradient", "greedy", "deco")
    first = "deco-calibrated" if binary else "fh-gittins"
    if all(last is None for last in (problem.terminal, *(g.terminal for g in problem.groups))):
        return (first,)
    most = OPTIMUM_STATES if binary else OPTIMUM_STATES_NON_BINARY
    with suppress(ValueError):  # infinitely many outcomes
        if not context.under_rules and count_states(problem)[0] <= most:
            return ("optimal",)
    return (first, "knowledge-gradient")


def _best(policies: Sequence[Policy]) -> Policy:
    """Return the policy of largest value; the first among equals, and where none can be told."""
    if len(policies) == 1:
        return policies[0]
    short = policies[0].problem.horizon <= SHORT_STAGES
    limit = EXACT_STATES_SHORT if short else EXACT_STATES
    try:
        values = [exact_value(policy, limit).value for policy in policies]
    except ValueError:
        pulls = int(policies[0].problem.pulls.sum()) * policies[0].problem.n_arms
        few = pulls <= SAMPLED_PULLS
        return policies[best_on_draws(policies, DRAWS, PER_DRAW, MIN_Z) if few else 0]
    return policies[int(np.argmax(values))]
