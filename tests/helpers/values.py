"""Values of policies that were made for their problem."""

from typing import Any

from decobandit.bounds import Gap, gap
from decobandit.evaluation import Evaluation, evaluate
from decobandit.policies import Policy


def evaluated(policy: Policy, **settings: Any) -> Evaluation:
    """The exact value of a policy on its own problem."""
    return evaluate(policy.problem, policy, **settings)


def gap_of(policy: Policy, **settings: Any) -> Gap:
    """The gap of a policy on its own problem."""
    return gap(policy.problem, policy, **settings)
