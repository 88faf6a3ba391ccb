"""Rolling DeCo: at every stage, solve the dual again from the current posteriors.

The problem that is left at stage t is a problem of its own: posteriors as priors, the remaining
stages as horizon. Its dual is solved anew, starting from the prices of the first solution, and the
arm of largest index at its first stage is pulled. Prices then know what has happened so far.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..dual import DualSolution, solve
from ..problem import Arm, Beta, Problem, Reward
from ..state import State
from .base import DEFAULT_TIES, IndexPolicy, TieRule
from .deco import DecoPolicy

Floats = npt.NDArray[np.float64]


def remaining_problem(problem: Problem, stage: int, state: State) -> Problem:
    """What is left to decide from this stage and state on, as a problem with better priors."""

    def later(reward: float | tuple[float, ...]) -> float | tuple[float, ...]:
        return reward[stage:] if isinstance(reward, tuple) else reward

    def reached(arm: Arm, good: int, bad: int) -> tuple[tuple[float, ...], ...] | None:
        if arm.terminal is None:
            return None
        left = problem.horizon - stage
        return tuple(
            arm.terminal[good + bad + pulls][good : good + pulls + 1] for pulls in range(left + 1)
        )

    arms = tuple(
        Arm(
            name=arm.name,
            prior=Beta(good=arm.prior.good + good, bad=arm.prior.bad + bad),
            reward=Reward(good=later(arm.reward.good), bad=later(arm.reward.bad)),
            terminal=reached(arm, good, bad),
        )
        for arm, good, bad in zip(problem.arms, state.good, state.bad, strict=True)
    )
    return Problem(
        arms=arms,
        horizon=problem.horizon - stage,
        pulls_per_stage=problem.pulls_per_stage,
        terminal=problem.terminal,
    )


class RollingDecoPolicy(IndexPolicy):
    """DeCo with the dual solved again at every decision."""

    name = "rolling-deco"

    def __init__(
        self, solution: DualSolution, *, tol: float = 1e-4, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(solution.problem, ties=ties)
        self._first = DecoPolicy(solution.problem, solution.prices, ties=ties)
        self._tol = tol

    def indices(self, stage: int, state: State) -> Floats:
        # the deployment has no stage after it to price: there the index is the expected reward
        if stage == 0 or stage >= self.problem.horizon:
            return self._first.indices(stage, state)
        left = remaining_problem(self.problem, stage, state)
        solution = solve(left, tol=self._tol, start=self._first.prices[stage:], threads=1)
        return DecoPolicy(left, solution.prices).indices(0, State.fresh(left.number_of_arms))
