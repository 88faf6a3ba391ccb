"""The exact value of a policy: forward over the joint states that it reaches, and only those.

Stage by stage, equal states are merged and carry their probability; at given true success
probabilities also the first two moments of the reward so far. Index policies run compiled; any
other policy is asked in each state.

A state is the multiset of the outcomes of exchangeable arms. That is exact as long as ties do not
turn on which of them is which. `kernels.reach` notices where they do (rules "first" and "last",
mostly); then every arm keeps a slot of its own, and more states are reached.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .best_arm import best_mean_reward
from .forward import Forward, Occupied, Reached, Report, TooManyStates, Truth, Watch
from .policies.base import IndexPolicy, Policy, draws_arms
from .problem import Problem

__all__ = [
    "Evaluation",
    "Occupied",
    "Reached",
    "Report",
    "TooManyStates",
    "Watch",
    "check_truth",
    "evaluate",
]
LIMIT_STATES = 50_000_000


@dataclass(frozen=True)
class Evaluation:
    """What a policy earns, exactly: over the prior, or at given true success probabilities.

    `regret` is against pulling the arms of largest mean at every stage; None where the problem has
    tables of last rewards. Fields from `truth` to `best_arm_probability` need the truth.
    """

    policy: str
    value: float  # expected total reward, deployment and last rewards included
    regret: float | None
    stage_rewards: tuple[float, ...]  # (stages,) expected reward of each
    last_reward: float  # expected sum of the arms' last rewards
    group_pulls: tuple[float, ...]  # (groups,) expected pulls of a group's arms, deployment apart
    states: int  # distinct states in which the policy decides
    probability: float  # total over those of the last stage: 1 up to rounding
    merged: bool  # exchangeable arms were merged
    seconds: float
    truth: Truth | None = None
    variance: float | None = None  # of the total reward
    arm_pulls: tuple[float, ...] | None = None  # (arms,)
    best_arm_probability: float | None = None  # that the largest posterior mean is a best arm's
    standard_error: float = 0.0
    method: str = "exact"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; without those that need the truth where it is not given."""
        known = {k: v for k, v in self.__dict__.items() if v is not None or k == "regret"}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}

    def __repr__(self) -> str:
        at = "" if self.truth is None else f" at {', '.join(map(str, self.truth))}"
        regret = "" if self.regret is None else f", regret {self.regret:.6f}"
        return (
            f"Evaluation({self.policy}{at}: value {self.value:.6f}{regret}, exact over "
            f"{self.states} states, {self.seconds:.2f} s)"
        )


def evaluate(
    policy: Policy,
    problem: Problem | None = None,
    *,
    truth: Sequence[float] | None = None,
    limit_states: int = LIMIT_STATES,
    progress: Report | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """The exact value of a policy; at the success probabilities `truth` (arms,) where given.

    An index policy with `stage_index(stage)` runs compiled, whatever its rule for ties. Any other
    policy is asked `choose(stage, state, None)`, or `distribution(stage, state)` where it has that:
    a list of (arms, probability). Without a truth it sees the arms of each group sorted, most
    pulled first, then most good; a policy that minds the positions of equal arms must have
    `symmetric = False`. Raises TooManyStates where more than `limit_states` are reached.
    `watch(stage, occupied)` is told which states single arms are in, and in which they are pulled;
    a policy whose ties ask for arms that are not merged is followed a second time from stage 0.
    """
    began = time.perf_counter()
    problem = _problem_of(policy, problem)
    known = None if truth is None else check_truth(truth, problem)
    name = str(getattr(policy, "name", type(policy).__name__))
    forward = Forward(problem, known, limit_states, progress, watch)
    if isinstance(policy, IndexPolicy) and hasattr(policy, "stage_index"):
        total = forward.by_index(policy)
    else:
        _refuse_random(policy, name)
        total = forward.by_asking(policy)
    value = float(total.rewards.sum()) + total.last_reward
    best = best_mean_reward(problem, known)
    arm_pulls = tuple(total.pulls.tolist())
    return Evaluation(
        policy=name,
        value=value,
        regret=None if best is None else best - value,
        stage_rewards=tuple(total.rewards.tolist()),
        last_reward=total.last_reward,
        group_pulls=tuple(sum(arm_pulls[a] for a in g.members) for g in problem.groups),
        states=total.states,
        probability=total.probability,
        merged=total.merged,
        seconds=time.perf_counter() - began,
        truth=known,
        variance=total.variance,
        arm_pulls=None if known is None else arm_pulls,
        best_arm_probability=total.best_arm,
    )


def _problem_of(policy: Policy, problem: Problem | None) -> Problem:
    own = getattr(policy, "problem", None)
    if problem is not None and own is not None and own != problem:
        raise ValueError("problem: not the one that the policy was made for; leave it out")
    found = problem if own is None else own
    if not isinstance(found, Problem):
        raise ValueError("problem: the policy has none of its own; pass one")
    return found


def check_truth(truth: Sequence[float], problem: Problem) -> Truth:
    known, arms = tuple(float(p) for p in truth), problem.number_of_arms
    if len(known) != arms:
        raise ValueError(f"truth: {len(known)} given; must be {arms}, one per arm")
    for p in known:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"truth: {p} is not allowed; must be between 0 and 1")
    return known


def _refuse_random(policy: Policy, name: str) -> None:
    if draws_arms(policy) and not hasattr(policy, "distribution"):
        raise ValueError(
            f"{name!r} draws arms at random and does not tell their distribution: "
            "it cannot be evaluated exactly; simulate it"
        )
