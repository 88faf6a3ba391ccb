"""The next arm, with the reason: every arm's posterior, index terms and the price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .policies.deco import DecoPolicy
from .state import State


@dataclass(frozen=True)
class ArmReport:
    """One arm at the moment of the decision. Posterior: Beta(posterior_good, posterior_bad)."""

    name: str
    good: int
    bad: int
    posterior_good: float
    posterior_bad: float
    expected_reward: float
    value_of_information: float
    index: float

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Recommendation:
    """The arms to pull now (most urgent first) and what speaks for each arm."""

    chosen: tuple[str, ...]
    stage: int
    price: float
    arms: tuple[ArmReport, ...]
    deploy: bool = False  # the stages are over: this is the arm to keep

    def to_dict(self) -> dict[str, Any]:
        return {
            "arm": self.chosen[0],
            "chosen": list(self.chosen),
            "stage": self.stage,
            "price": self.price,
            "deploy": self.deploy,
            "arms": [arm.to_dict() for arm in self.arms],
        }


def recommendation(
    policy: DecoPolicy, state: State, *, rng: np.random.Generator | None = None
) -> Recommendation:
    """What the policy pulls next from this state; the stage is the number of pulls made.

    `rng` is needed only by a policy that breaks ties at random.
    """
    problem = policy.problem
    state.check(problem)
    stage = state.stage(problem.pulls_per_stage)
    if stage >= problem.stages:
        raise ValueError(f"all {problem.horizon} stages have been played; nothing is left to pull")
    reports = tuple(
        ArmReport(
            name=arm.name,
            good=good,
            bad=bad,
            posterior_good=arm.prior.good + good,
            posterior_bad=arm.prior.bad + bad,
            expected_reward=terms.expected_reward,
            value_of_information=terms.value_of_information,
            index=terms.index,
        )
        for arm, good, bad, terms in zip(
            problem.arms, state.good, state.bad, policy.terms(stage, state), strict=True
        )
    )
    chosen = tuple(problem.arms[arm].name for arm in policy.choose(stage, state, rng))
    price = float(policy.prices[stage])
    return Recommendation(chosen, stage, price, reports, deploy=stage == problem.horizon)
