"""Optimistic Gittins index: the retirement reward if the next pull revealed the arm's true mean.

    lambda = (1 - gamma) E[p] + gamma E[max(lambda, p)],        p ~ Beta(a, b)

with gamma = 1 - 1/(t+2): at pull number s = t+1, about to be made, the discount factor 1 - 1/(s+1).
Farias and Gutin, Optimistic Gittins indices, NIPS 2016, with one step of lookahead. With several
pulls per stage, t counts stages, in batches pulls. Rewards may differ from arm to arm, bad above
good too: the index moves with them. Rewards that change over the stages are refused.
"""

from __future__ import annotations

import numpy as np

from ..problem import DEFAULT_TIES, Problem, TieRule
from ..support import Floats
from .curve import Solve
from .kernels.optimistic import optimistic_indices
from .refusals import refuse_changing_rewards
from .table import PosteriorPolicy


class OgiPolicy(PosteriorPolicy):
    """Pulls the largest optimistic Gittins index."""

    name = "ogi"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        refuse_changing_rewards(problem, self.name)
        super().__init__(problem, ties=ties)

    @property
    def solve(self) -> Solve:
        return optimistic_indices

    def levels(self) -> Floats:
        """log(gamma / (1 - gamma)) = log(t+1)."""
        return np.asarray(np.log1p(self.clock(np.arange(self.problem.horizon))), dtype=np.float64)
