"""Priors and rewards of a problem with binary outcomes, arm by arm."""

from __future__ import annotations

import numpy as np

from ..problem import Problem, State
from ..support import Floats


class ArmArrays:
    """Priors (arms,) and rewards (stages, arms) of a problem, arm by arm."""

    def __init__(self, problem: Problem) -> None:
        groups = [problem.groups[k] for k in problem.group_of_arm]
        self.alpha = np.array([group.alpha for group in groups])
        self.beta = np.array([group.beta for group in groups])
        self.good = np.ascontiguousarray(np.transpose([group.reward_good for group in groups]))
        self.bad = np.ascontiguousarray(np.transpose([group.reward_bad for group in groups]))

    def posterior(self, state: State) -> tuple[Floats, Floats]:
        """Beta(a, b) of every arm: a and b, each (arms,)."""
        return self.alpha + np.array(state.good), self.beta + np.array(state.bad)
