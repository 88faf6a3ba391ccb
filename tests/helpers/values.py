"""Values of policies that were made for their problem."""

from typing import Any

from decobandit.bounds import Bounds, Gap, bound, gap
from decobandit.evaluation import Evaluation, evaluate
from decobandit.policies import Policy
from decobandit.problem import Problem


def evaluated(policy: Policy, **settings: Any) -> Evaluation:
    """The exact value of a policy on its own problem."""
    return evaluate(policy.problem, policy, **settings)


def gap_of(policy: Policy, **settings: Any) -> Gap:
    """The gap of a policy on its own problem."""
    return gap(policy.problem, policy, **settings)


def information_bound(problem: Problem, *, draws: int = 500, **settings: Any) -> Bounds:
    """The information bound beside those of prices and best arms."""
    kinds = ("lagrangian", "trivial", "information")
    return bound(problem, draws=draws, kinds=kinds, **settings)
