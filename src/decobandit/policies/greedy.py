"""Greedy: pull the arm of largest expected reward, ignoring the value of information.

The myopic rule of Bayesian bandits; see Berry and Fristedt, Bandit Problems, 1985. Serves any
problem. Batches go to one arm, unless arms tie.
"""

from __future__ import annotations

from ..support import Floats
from .index_policy import IndexPolicy, same_rewards


class GreedyPolicy(IndexPolicy):
    """Pulls the largest posterior mean reward."""

    name = "greedy"
    symmetric = True

    def is_steady(self, first: int, last: int) -> bool:
        return same_rewards(self.problem, first, last)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        return self.reward_of(stage, group, self.problem.groups[group].model.mean(stats))
