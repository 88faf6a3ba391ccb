"""Thompson sampling in batches: every unit goes to the arm of the largest drawn mean reward.

    bad + (good - bad) p,   p ~ Beta(a, b)        drawn anew for each unit, posterior of the stage

The m separate draws of Thompson sampling, all from the posterior at the begin of the batch. The
units of the arms are then multinomial, with the chances of being best as shares.
"""

from __future__ import annotations

import numpy as np

from ...problem import Problem, States
from ...support import Ints
from ..best_arm import ByChanceOfBest
from .base import BatchPolicy, as_compared

MOST_DRAWS = 4_000_000  # at a time


class BatchThompsonPolicy(ByChanceOfBest, BatchPolicy):
    """Gives each unit to the arm of the largest draw."""

    name = "thompson"
    randomised = True

    def as_compared(self) -> Problem:
        return as_compared(self.problem)

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        assert rng is not None
        given = np.zeros(states.pulls.shape, dtype=np.int64)
        rows = max(1, MOST_DRAWS // (self.problem.units * self.problem.n_arms))
        for first in range(0, len(given), rows):
            part = slice(first, first + rows)
            best = self.compared.draws(stage, states.rows(part), self.problem.units, rng)
            if states.allowed is not None:
                best = np.where(states.allowed[part, None, :], best, -np.inf)
            np.add.at(given[part], (np.arange(len(best))[:, None], best.argmax(axis=2)), 1)
        return given
