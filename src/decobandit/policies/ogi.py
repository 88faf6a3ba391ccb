"""Optimistic Gittins index: the retirement reward if the next pull revealed the arm's true mean.

    lambda = (1 - gamma) E[p] + gamma E[max(lambda, p)],        p ~ Beta(a, b)

with gamma = 1 - 1/(t+2): at pull number s = t+1, about to be made, the discount factor 1 - 1/(s+1).
Farias and Gutin, Optimistic Gittins indices, NIPS 2016, with one step of lookahead. With several
pulls per stage, t counts stages, in batches pulls. Rewards may differ from arm to arm, bad above
good too: the index moves with them. Rewards that change over the stages are refused, and so are
outcomes other than good or bad: the fixed point has no formula there.
"""

from __future__ import annotations

import numpy as np

from ..problem import DEFAULT_TIES, Problem, TieRule
from ..support import Floats
from .curve import PosteriorCurves
from .index_policy import IndexPolicy
from .kernels.optimistic import optimistic_indices
from .refusals import binary_refusal, changing_rewards_refusal


class OgiPolicy(IndexPolicy):
    """Pulls the largest optimistic Gittins index."""

    name = "ogi"
    symmetric = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        levels = np.log1p(self.clock(np.arange(problem.horizon)))  # log(gamma / (1 - gamma))
        self._levels = np.asarray(levels, dtype=np.float64)
        self._curves = PosteriorCurves(problem, self._levels, optimistic_indices)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return binary_refusal(problem, cls.name) or changing_rewards_refusal(problem, cls.name)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        return self._curves.solved(stage, self.compared(stage), group, stats)

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        return self._curves.table(stage, group)
