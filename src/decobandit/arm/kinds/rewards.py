"""What the pulls of an arm of any kind earn, and how steep values can be in the mean."""

from __future__ import annotations

import numpy as np

from ...problem import Group, Problem
from ...support import Floats
from .rows import ArmRows


class RowRewards:
    """A pull earns base + factor * mean, each (horizon,); last rewards by state.

    rise, fall (horizon,): V_{t+1} grows by at most rise[t] per unit of the mean, and by at most
    fall[t] per unit downwards: every policy's reward is linear in a shift of the mean.
    """

    def __init__(self, problem: Problem, group: Group) -> None:
        T = problem.horizon
        # that one arm may take: single pulls of a stage are of different arms
        self.units = problem.units if problem.repeat else 1
        self.per_stage = per_stage = self.units * problem.unit
        self.base = np.ascontiguousarray(group.reward_base[:T])
        self.factor = np.ascontiguousarray(group.reward_factor[:T])
        self.group, self.problem = group, problem
        self.deploy = 0.0 if problem.terminal is None else problem.terminal.deploy
        self.rise = self._later(np.maximum(per_stage * self.factor, 0.0), self.deploy)
        self.fall = self._later(np.maximum(-per_stage * self.factor, 0.0), 0.0)

    @staticmethod
    def _later(each: Floats, last: float) -> Floats:
        return np.asarray(last + np.append(np.cumsum(each[:0:-1])[::-1], 0.0))

    def of_stage(self, stage: int) -> tuple[float, float, float, float]:
        """Base, factor, rise and fall."""
        return (
            float(self.base[stage]), float(self.factor[stage]),
            float(self.rise[stage]), float(self.fall[stage]),
        )  # fmt: skip

    def last(self, rows: ArmRows) -> Floats:
        """Last rewards after all stages, (states,): those of a table, or none."""
        return np.zeros(rows.size) if self.group.terminal is None else self.group.terminal.copy()

    def largest(self, rows: ArmRows) -> float:
        """The largest reward of a pull in any state, in size."""
        low, high = float(rows.mean.min()), float(rows.mean.max())
        pulls = max(float(np.abs(self.base + self.factor * mean).max()) for mean in (low, high))
        last = float(np.abs(self.last(rows)).max())
        return max(pulls, self.deploy * max(abs(low), abs(high)), last)
