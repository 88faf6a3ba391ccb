"""Policies of one problem by name, and which of them have an index of single arms."""

import numpy as np
import numpy.typing as npt

from decobandit.policies import (
    POLICIES,
    Context,
    IndexPolicy,
    Policy,
    make_policies,
    policy_class,
    serving,
)
from decobandit.problem import Problem, State, States

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


def allotted(policy: Policy, stage: int, state: State) -> list[tuple[tuple[int, ...], float]]:
    """What a policy may pull in one state: pulls of every arm, and their probability."""
    _, pulls, shares = policy.allotments(stage, States.of(policy.problem, [state]))
    return list(zip(map(tuple, pulls.tolist()), shares.tolist(), strict=True))


def probabilities_in(policy: Policy, stage: int, state: State) -> npt.NDArray[np.float64]:
    """The probability of every arm in one state, (arms,)."""
    return policy.probabilities(stage, States.of(policy.problem, [state]))[0]
