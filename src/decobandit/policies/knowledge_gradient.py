"""Online knowledge gradient: the expected reward, plus the value of one pull for later choices.

    r_a + N (E[max_b r'_b | a pulled] - max_b r_b)        N stages after this one

as if one arm were chosen after this pull and kept. A deployment adds the same difference of success
probabilities, times its worth; the formula is in `kernels.knowledge_gradient`. Ryzhov, Powell and
Frazier, The knowledge gradient algorithm for a general class of online learning problems,
Operations Research 2012, with undiscounted rewards over a finite horizon. One pull per stage.
Rewards may differ from arm to arm, those that change over the stages are refused. An arm's index
depends on all arms.
"""

from __future__ import annotations

import numpy as np

from ..problem import DEFAULT_TIES, TIE_SIGNS, Problem, State, TieRule
from ..support import Floats
from .index_policy import IndexPolicy
from .kernels.episodes import Episodes
from .kernels.knowledge_gradient import fill_indices, play
from .randomised import ArmArrays
from .refusals import refuse_changing_rewards, refuse_several_pulls


class KnowledgeGradientPolicy(IndexPolicy):
    """Pulls the arm of the largest reward and knowledge gradient together."""

    name = "knowledge-gradient"
    symmetric = True
    kind_place = "decobandit.policies.kinds.rules:KindGradientPolicy"
    batch_place = "decobandit.policies.batches.knowledge_gradient:BatchKnowledgeGradientPolicy"
    cost = "decision"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        refuse_several_pulls(problem, self.name)
        refuse_changing_rewards(problem, self.name)
        super().__init__(problem, ties=ties)
        self.arms = ArmArrays(problem)
        self.deploy = 0.0 if problem.terminal is None else problem.terminal.deploy

    def indices(self, stage: int, state: State) -> Floats:
        if stage >= self.problem.horizon:
            return self.arms.expected_reward(stage, state)
        a, b = self.arms.posterior(state)
        mean, reward, index = np.empty_like(a), np.empty_like(a), np.empty_like(a)
        good, bad = self.arms.good[stage], self.arms.bad[stage]
        to_come = self.problem.horizon - stage - 1.0
        fill_indices(a, b, good, bad, to_come, self.deploy, mean, reward, index)
        return index

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Play stages first..last-1 of all episodes."""
        to_come = self.problem.horizon - 1.0 - np.arange(first, last)
        play(
            episodes, to_come, self.arms.alpha, self.arms.beta, self.arms.good[0],
            self.arms.bad[0], self.deploy, self._tolerance, *TIE_SIGNS[self.ties], rng,
        )  # fmt: skip
