"""Greedy: pull the arm of largest expected reward, ignoring the value of information.

The myopic rule of Bayesian bandits; see Berry and Fristedt, Bandit Problems, 1985. Serves any
problem. Batches go to one arm, unless arms tie. Within a budget, by expected reward per cost;
within resources, per part of them that it uses.
Of arms that move at rest it pulls those that gain most by a pull now, over a stage at rest.

Equal allocation: pull the arm with the fewest pulls, independent of the outcomes.

    -n        outside windows: n is counted from the share of the stages in which it could be pulled

The fixed allocation of a classical trial. At a deployment, the largest expected reward. Works for
any problem.

Explore, then commit: every arm m times; from then on the arm of largest posterior mean.

    m = ceil((N / K)^(2/3))        N pulls in all (the horizon times pulls per stage), K arms

    index, with r the largest reward in size, so that the three lines never overlap:
        n < m    (2 + m - n) r         fewest pulls first
        n > m    2 r                   committed: only arms chosen after their m pulls have more
        n = m    expected reward       the choice, by the posterior mean

Lattimore and Szepesvari, Bandit Algorithms, 2020, chapter 6; the length m, with constant 1 and
without the factor (log N)^(1/3) of the worst-case analysis, after Slivkins, Introduction to
Multi-Armed Bandits, 2019, section 1.2. With several pulls per stage, the arms that fill up the last
stage of exploration are committed to at once. Serves any problem.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ..support import Floats
from .index_policy import IndexPolicy, same_rewards


class GreedyPolicy(IndexPolicy):
    """Pulls the largest posterior mean reward."""

    name = "greedy"
    symmetric = True
    plans_budget = plans_resources = True
    per_cost = True
    serves_restless = True

    def is_steady(self, first: int, last: int) -> bool:
        return same_rewards(self.problem, first, last)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        model = self.problem.groups[group].model
        return self.reward_of(stage, group, model.mean(stats) - model.rest_mean(stats))


class EqualPolicy(IndexPolicy):
    """Round robin among the arms that can be pulled."""

    name = "equal"
    symmetric = True
    plans_budget = True
    serves_restless = True

    def is_steady(self, first: int, last: int) -> bool:
        return not self.problem.has_windows

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        # in units of the rewards, as ties are: one pull more must not count as a tie
        pulls = self.problem.groups[group].model.pulls(stats)
        return np.asarray((self._due(stage, group) - pulls) * self.scale, dtype=np.float64)

    def _due(self, stage: int, group: int) -> float:
        """Return pulls that an arm should have by now; within a budget more than all."""
        if self.problem.budget is not None:
            return float(self.problem.most_pulls + 1)
        if not self.problem.has_windows:
            return 0.0
        able = self.problem.available[:stage]
        share = able[:, self.problem.groups[group].members[0]] / able.sum(axis=1)
        return float(self.problem.pulls_per_stage * share.sum())


class ExploreThenCommitPolicy(IndexPolicy):
    """Pulls every arm `explore` times, and then sticks to the best."""

    name = "explore-then-commit"
    symmetric = True

    @cached_property
    def explore(self) -> int:
        """Pulls of every arm before the choice; in batches, whole units."""
        problem = self.problem
        share = problem.horizon * problem.pulls_per_stage / problem.n_arms
        # cube roots of whole numbers come out a rounding error above them
        units = math.ceil(math.ceil(share ** (2 / 3) - 1e-9) / problem.unit)
        return int(problem.unit * units)

    def is_steady(self, first: int, last: int) -> bool:
        return same_rewards(self.problem, first, last)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        model = self.problem.groups[group].model
        n, reward = model.pulls(stats), self.reward_of(stage, group, model.mean(stats))
        turn = (2.0 + np.maximum(self.explore - n, 0.0)) * self.scale
        return np.where(n == self.explore, reward, turn)
