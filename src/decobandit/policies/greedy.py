"""Greedy: pull the arm of largest expected reward, ignoring the value of information.

    bad + (good - bad) a / (a + b)        posterior Beta(a, b), rewards of the stage

The myopic rule of Bayesian bandits; see Berry and Fristedt, Bandit Problems, 1985. Serves any
problem.
"""

from __future__ import annotations

from ..problem import Group
from ..support import Floats
from .table import TablePolicy, expected_reward, same_rewards


class GreedyPolicy(TablePolicy):
    """Pulls the largest posterior mean reward."""

    name = "greedy"
    kind_place = "decobandit.policies.kinds.rules:KindGreedyPolicy"
    kind_batch_place = "decobandit.policies.kinds.batches:KindBatchGreedyPolicy"

    def is_steady(self, first: int, last: int) -> bool:
        return same_rewards(self.problem, first, last)

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        return expected_reward(group, stage, n, g)
