"""The optimal policy of every outcome model and batch size, from the values of all joint states.

Single pulls of good and bad outcomes have kernels of their own: `policies/optimal.py`.
"""

from __future__ import annotations

import numpy as np

from ...joint import ShapeValues, optimum
from ...problem import DEFAULT_TIES, Problem, State, States, TieRule
from ...support import Floats, Ints
from ..allotting import sole_arm
from ..refusals import refuse_ruled_optimum
from .base import KindPolicy


class KindOptimalPolicy(KindPolicy):
    """Pulls the arms of largest expected reward in all."""

    name = "optimal"
    symmetric = True
    cost = "decision"
    in_units = True
    serves_batches = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties if problem.units == 1 else DEFAULT_TIES)
        self.optimum = optimum(problem, keep=True)
        assert isinstance(self.optimum.tables, ShapeValues)
        self._tables = self.optimum.tables

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        """Expected reward from now on of one pull; units of the best allotment of several."""
        if self.problem.units == 1:
            return np.asarray(
                self._tables.worths(stage, states) @ np.array(self._tables.allotments)
            )
        return self._tables.choices(stage, states, self._tolerance).astype(float)

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        if stage < self.problem.horizon and self.problem.repeat:
            return self.problem.unit * self._tables.choices(stage, states, self._tolerance)
        return super().allocate_many(stage, states, rng)

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        refuse_ruled_optimum(states, self.name)
        if self.problem.units == 1:
            return super().probabilities(stage, states, rng)
        pulls = self.allocate_many(stage, states, rng)
        return np.asarray(pulls / pulls.sum(axis=1, keepdims=True))

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        pulls = self.allocation(stage, state, rng)
        if self.problem.repeat:
            return sole_arm(pulls, self.name)
        return tuple(np.flatnonzero(pulls).tolist())

    def indices(self, stage: int, state: State) -> Floats | None:  # type: ignore[override]
        return None if self.problem.repeat else super().indices(stage, state)
