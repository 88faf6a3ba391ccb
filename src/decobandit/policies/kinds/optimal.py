"""The optimal policy where outcomes are others than good or bad, but finitely many: small problems.

One step of look-ahead on the exact values of all joint states.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ...joint import kind_values
from ...problem import DEFAULT_TIES, TIE_TOLERANCE, Problem, States, Stats, TieRule
from ...support import Floats
from ..refusals import refuse_ruled_optimum
from .base import KindPolicy


class KindOptimalPolicy(KindPolicy):
    """Pulls the arms of largest expected reward in all."""

    name = "optimal"
    symmetric = True
    cost = "decision"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        self.optimum = kind_values(problem)

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        """Expected reward from now on; with several pulls 1 of the best set, 0 of other arms."""
        rows, place = np.unique(np.hstack(self.arm_stats(states)), axis=0, return_inverse=True)
        cuts = np.cumsum([0, *(group.model.width for group in self.groups)])
        several = self.problem.pulls_per_stage > 1
        found = np.empty((len(rows), len(self.groups)))
        for row, own in zip(rows, found, strict=True):
            arms = [tuple(row[cuts[k] : cuts[k + 1]].tolist()) for k in range(own.size)]
            own[:] = self._best_set(stage, arms) if several else self._each(stage, arms)
        return np.asarray(found[place.reshape(-1)])

    def _each(self, stage: int, arms: list[Stats]) -> list[float]:
        """Of a pull of every arm."""
        joint, groups = self.optimum.joint(arms), self.problem.group_of_arm.tolist()
        found = {own: self.optimum.worth(stage, joint, (i,)) for i, own in enumerate(joint)}
        return [found[own] for own in zip(groups, arms, strict=True)]

    def _best_set(self, stage: int, arms: list[Stats]) -> list[float]:
        """Ties: the arms pulled least so far, then those that stand first."""
        joint, groups = self.optimum.joint(arms), self.problem.group_of_arm.tolist()
        pulls = [
            float(group.model.pulls(np.array(own, dtype=float)))
            for group, own in zip(self.groups, arms, strict=True)
        ]
        order = sorted(range(len(arms)), key=lambda arm: (pulls[arm], arm))
        sets = list(combinations(order, self.problem.pulls_per_stage))
        worth = np.empty(len(sets))
        for number, chosen in enumerate(sets):
            left, places = list(joint), []
            for arm in chosen:  # equal arms in equal states stand side by side
                places.append(left.index((groups[arm], arms[arm])))
                left[places[-1]] = (-1, ())
            worth[number] = self.optimum.worth(stage, joint, tuple(places))
        best = float(worth.max())
        tied = worth >= best - max(self._tolerance, TIE_TOLERANCE * abs(best))
        chosen = sets[int(np.argmax(tied))]
        return [float(arm in chosen) for arm in range(len(arms))]

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        refuse_ruled_optimum(states, self.name)
        return super().probabilities(stage, states, rng)
