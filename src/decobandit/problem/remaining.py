"""The remaining problem at a later stage: its priors are the current posteriors."""

from __future__ import annotations

from .arm_model import Arm, Beta, Reward
from .model import Problem
from .state import State


def remaining_problem(problem: Problem, stage: int, state: State) -> Problem:
    """What is left to decide from this stage and state on, as a problem with better priors."""

    def later(reward: float | tuple[float, ...]) -> float | tuple[float, ...]:
        return reward[stage:] if isinstance(reward, tuple) else reward

    def reached(arm: Arm, good: int, bad: int) -> tuple[tuple[float, ...], ...] | None:
        if arm.terminal is None:
            return None
        left = problem.most_pulls * (problem.horizon - stage) // problem.horizon
        return tuple(
            arm.terminal[good + bad + pulls][good : good + pulls + 1] for pulls in range(left + 1)
        )

    arms = tuple(
        Arm(
            name=arm.name,
            prior=Beta(good=arm.beta.good + good, bad=arm.beta.bad + bad),
            reward=Reward(good=later(arm.outcome_reward.good), bad=later(arm.outcome_reward.bad)),
            terminal=reached(arm, good, bad),
        )
        for arm, good, bad in zip(problem.arms, state.good, state.bad, strict=True)
    )
    return problem.model_copy(update={"arms": arms, "horizon": problem.horizon - stage})
