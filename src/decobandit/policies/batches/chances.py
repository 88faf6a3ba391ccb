"""Thompson sampling by shares, and top-two Thompson sampling: chances of being best, by a grid.

    p_k = P(arm k has the largest mean reward)                                 Thompson sampling
    p_k (b + (1 - b) sum_{j != k} p_j / (1 - p_j)),   b = 1/2                  top-two

Units are multinomial with these shares. The first is what Thompson sampling does with separate
draws for each unit (`thompson`). The second draws an arm as Thompson sampling does, and with
probability 1 - b draws on until another arm is best: Russo, Simple Bayesian algorithms for best-arm
identification, Operations Research 2020. Chances are integrals; those of a state do not depend on
the other states of a call.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...problem import Problem, States
from ...support import Floats
from ..kinds.chances import KindChances
from ..reward_chances import Posteriors, comparable_posteriors
from .base import as_compared
from .shares import SharesPolicy

TOP = 0.5  # probability of the first of the two


class ThompsonSharesPolicy(SharesPolicy):
    """Thompson sampling, multinomial by the chances of being best."""

    name = "thompson-shares"
    randomised = True

    @cached_property
    def _seen(self) -> Problem:
        return as_compared(self.problem)

    @cached_property
    def _posteriors(self) -> Posteriors | None:
        """P(best) where arms differ in their success probability only."""
        return comparable_posteriors(self._seen)

    def shares(self, stage: int, states: States) -> Floats:
        if self._posteriors is not None:
            return self._posteriors.best(States(states.problem, states.stats))
        chances = KindChances(self._seen, rewards=True, stage=stage)
        return chances.best(States(states.problem, states.stats))


class TopTwoPolicy(ThompsonSharesPolicy):
    """Top-two Thompson sampling."""

    name = "top-two"

    def shares(self, stage: int, states: States) -> Floats:
        p = super().shares(stage, states)
        if p.shape[1] == 1:
            return p
        odds = p / np.maximum(1.0 - p, 1e-12)
        found = p * (TOP + (1.0 - TOP) * (odds.sum(axis=1, keepdims=True) - odds))
        return np.asarray(found / found.sum(axis=1, keepdims=True))
