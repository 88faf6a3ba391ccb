"""The same problem with fewer stages: its prices are where a search for the others may start."""

from __future__ import annotations

import numpy as np

from ..support import Ints
from .arm_model import Arm
from .model import Problem


def stages_kept(horizon: int, number: int) -> Ints:
    """So many stages of a horizon, evenly spaced."""
    return np.floor((np.arange(number) + 0.5) * horizon / number).astype(np.int64)


def thinned(problem: Problem, number: int) -> Problem:
    """A problem with so many of the stages, and the deployment; without tables of last rewards."""
    kept = stages_kept(problem.horizon, number)

    def of_stages(reward: float | tuple[float, ...]) -> float | tuple[float, ...]:
        return tuple(reward[t] for t in kept) if isinstance(reward, tuple) else reward

    def with_fewer(arm: Arm) -> Arm:
        paid = arm.reward
        fields = {name: getattr(paid, name) for name in type(paid).model_fields}
        rates = {name: of_stages(fields[name]) for name in paid.per_stage}
        return arm.model_copy(update={"reward": type(paid)(**fields | rates), "terminal": None})

    arms = [with_fewer(arm) for arm in problem.arms]
    return problem.model_copy(update={"horizon": number, "arms": arms})
