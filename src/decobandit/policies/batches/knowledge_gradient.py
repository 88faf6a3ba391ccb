"""Knowledge gradient in batches: what this batch earns, and what it tells for the choice after it.

    maximise over shares   m sum_k share_k r_k  +  N E[max_k r'_k]  +  D E[max_k p'_k]

r_k is the expected reward of a pull, r'_k and p'_k those and the success probability after the
batch, which move as in `rho` but by the m pulls of this batch alone; N pulls follow this batch, and
D is the worth of a deployment: as if one arm were chosen after this batch and kept. The myopic rule
of batches. Shares are rounded to units. Rewards that change over the stages are refused.
"""

from __future__ import annotations

import numpy as np

from ...problem import DEFAULT_TIES, Problem, States, TieRule
from ...support import Floats
from ..refusals import refuse_changing_rewards
from .rho import best_shares
from .shares import SharesPolicy


class BatchKnowledgeGradientPolicy(SharesPolicy):
    """Gives a batch as if one arm were chosen after it."""

    name = "knowledge-gradient"
    cost = "decision"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        refuse_changing_rewards(problem, self.name)

    def shares(self, stage: int, states: States) -> Floats:
        problem, arms = self.problem, self.arms
        m = float(problem.pulls_per_stage)
        terms = []
        later = m * (problem.horizon - stage - 1)
        if later:
            terms.append((later, arms.good[stage], arms.bad[stage]))
        if problem.terminal is not None:
            ones = np.ones(problem.n_arms)
            terms.append((problem.terminal.deploy, ones, 0.0 * ones))
        earned = m * arms.expected_rewards(stage, states)
        if not terms:  # the last pulls of all
            terms = [(0.0, arms.good[stage], arms.bad[stage])]
        more = earned - earned.min(axis=1, keepdims=True)
        more[more <= m * self.tolerance] = 0.0  # equal but for rounding
        return best_shares(self, states, terms, m, more)
