"""Policies that pull an arm with the chance that it is the best, in many states at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import Problem, Rules
from ..support import Floats
from .base import Policy
from .chances import Asked
from .posterior_chances import PosteriorChances, comparable_posteriors
from .reward_chances import RewardChances


class ByChanceOfBest(Policy):
    """Has P(best) as its allocation probabilities, where that is computed without draws."""

    def as_compared(self) -> Problem:
        """The problem whose rewards the policy compares arms by."""
        return self.problem

    @cached_property
    def posteriors(self) -> PosteriorChances | None:
        """P(best) of many states, where arms differ in their success probability only."""
        return comparable_posteriors(self.as_compared())

    def posteriors_by(self, rules: Rules) -> PosteriorChances | RewardChances:
        """Posterior probabilities of looks; shared with decisions where both compare alike."""
        compared = super().posteriors_by(rules)
        if self.posteriors is None or isinstance(compared, RewardChances):
            return compared
        if compared.margin != self.posteriors.margin:
            self.posteriors = compared
        return self.posteriors

    def chances_many(
        self, stage: int, asked: Asked, rng: np.random.Generator | None = None
    ) -> Floats:
        if self.posteriors is None:
            return super().chances_many(stage, asked, rng)
        return self.posteriors.best(asked.pulls, asked.good, asked.allowed)
