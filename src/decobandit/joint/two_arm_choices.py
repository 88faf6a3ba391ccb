"""The choices of an optimal policy of two arms, one byte for each state of each stage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..problem import TIE_TOLERANCE, Problem, tie_tolerance
from ..problem.kernels.two_arms import slab_starts
from ..support import Floats, Ints
from .kernels.two_arm_choices import last_values, step_choices

Choices = npt.NDArray[np.int8]
TIED = 2


class TwoArmChoices:
    """Made backward once; then looked up.

    Parameters
    ----------
    problem : Problem
        Two arms, one pull per stage, no deployment.
    """

    def __init__(self, problem: Problem) -> None:
        groups = [problem.groups[k] for k in problem.group_of_arm]
        alpha, beta = np.array([[group.alpha, group.beta] for group in groups]).T.copy()
        T, tolerance = problem.horizon, tie_tolerance(problem)
        values = np.zeros(int(slab_starts(T)[-1]))
        if any(group.terminal is not None for group in groups):
            none = np.zeros((T + 1) * (T + 2) // 2)
            tables = [none if group.terminal is None else group.terminal for group in groups]
            last_values(T, *tables, values)
        choices: list[Choices] = []
        for t in reversed(range(T)):
            size = int(slab_starts(t)[-1])
            now, choice = np.empty(size), np.empty(size, np.int8)
            good = np.array([group.reward_good[t] for group in groups])
            bad = np.array([group.reward_bad[t] for group in groups])
            step_choices(t, alpha, beta, good, bad, values, tolerance, TIE_TOLERANCE, now, choice)
            values = now
            choices.append(choice)
        self.value = float(values[0])
        self._choices = choices[::-1]

    def at(self, stage: int, pulls: Ints, good: Ints) -> Choices:
        """0 or 1: the better arm; 2: they are tied. pulls, good (states, 2)."""
        begin = slab_starts(stage)[pulls[:, 0]]
        place = begin + good[:, 0] * (pulls[:, 1] + 1) + good[:, 1]
        return np.asarray(self._choices[stage][place])


def tied_shares(choices: Choices) -> Floats:
    """Chances of both arms, (states, 2); even where they are tied."""
    first = np.where(choices == TIED, 0.5, choices == 0)
    return np.stack([first, 1.0 - first], axis=1)
