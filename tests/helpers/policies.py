"""Policies of one problem by name, and which of them have an index of single arms."""

from decobandit.policies import (
    POLICIES,
    Context,
    IndexPolicy,
    Policy,
    make_policies,
    policy_class,
    serving,
)
from decobandit.problem import Problem

SINGLE_PULLS = serving(Problem.uniform(arms=2, horizon=2), POLICIES)
NO_INDEX = tuple(
    name
    for name in SINGLE_PULLS
    if getattr(policy_class(name), "index", IndexPolicy.index) is IndexPolicy.index
)


class Bench(Context):
    """Policies that share one solved dual."""

    def policy(self, name: str) -> Policy:
        (made,) = make_policies(self, [name])
        return made
