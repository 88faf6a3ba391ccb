"""What the steps of an arm earn, and how steep values can be in the mean."""

from __future__ import annotations

import numpy as np

from ..problem import Group, Problem
from ..support import Floats
from .graph import ArmGraph


class Rewards:
    """A step earns base + factor * mean, each (horizon,); last rewards by state.

    rise, fall (horizon,): V_{t+1} grows by at most rise[t] per unit of the mean, and by at most
    fall[t] per unit downwards: every policy's reward is linear in a shift of the mean.
    """

    def __init__(self, problem: Problem, group: Group, graph: ArmGraph) -> None:
        T = problem.horizon
        # that one arm may take: single pulls of a stage are of different arms
        self.units = problem.units if problem.repeat else 1
        self.per_stage = self.units * graph.steps
        self.base = graph.pulls * group.reward_base[:T]
        self.factor = graph.pulls * group.reward_factor[:T]
        self.deploy = 0.0 if problem.terminal is None else problem.terminal.deploy
        self.rise = self._later(np.maximum(self.per_stage * self.factor, 0.0), self.deploy)
        self.fall = self._later(np.maximum(-self.per_stage * self.factor, 0.0), 0.0)
        self.last = _last_rewards(group, graph)
        low, high = float(graph.mean.min()), float(graph.mean.max())
        pulls = [
            np.abs(group.reward_base[:T] + group.reward_factor[:T] * x).max() for x in (low, high)
        ]
        deployed = self.deploy * max(abs(low), abs(high))
        # the largest reward of a pull in any state, in size
        self.largest = float(max(*pulls, deployed, np.abs(self.last).max()))

    @staticmethod
    def _later(each: Floats, last: float) -> Floats:
        return np.asarray(last + np.append(np.cumsum(each[:0:-1])[::-1], 0.0))

    def of_stage(self, stage: int) -> tuple[float, float, float, float]:
        """Return base, factor, rise and fall."""
        return (
            float(self.base[stage]),
            float(self.factor[stage]),
            float(self.rise[stage]),
            float(self.fall[stage]),
        )


def _last_rewards(group: Group, graph: ArmGraph) -> Floats:
    """After all stages, (states,): those of a table, between entries on chords, or none."""
    if group.terminal is None:
        return np.zeros(graph.size)
    assert graph.good is not None  # tables are of good and bad outcomes
    pulls = np.repeat(np.arange(graph.rows + 1) * graph.pulls, np.diff(graph.start))
    row = pulls * (pulls + 1) // 2
    low = np.minimum(graph.good.astype(np.int64), np.maximum(pulls - 1, 0))
    part = graph.good - low
    entry, after = group.terminal[row + low], group.terminal[row + np.minimum(low + 1, pulls)]
    return np.asarray((1.0 - part) * entry + part * after)
