"""Policies that pull an arm with the chance that it is the best, in many states at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import Problem
from ..support import Floats
from .base import Policy
from .chances import Asked
from .posterior_chances import PosteriorChances, comparable_posteriors


class ByChanceOfBest(Policy):
    """Has P(best) as its allocation probabilities, where that is computed without draws."""

    def as_compared(self) -> Problem:
        """The problem whose rewards the policy compares arms by."""
        return self.problem

    @cached_property
    def posteriors(self) -> PosteriorChances | None:
        """P(best) of many states, where arms differ in their success probability only."""
        return comparable_posteriors(self.as_compared())

    def posteriors_by(self, margin: float) -> PosteriorChances:
        """The posteriors of decisions too, so that each state is put on a grid once."""
        if self.posteriors is None:
            return super().posteriors_by(margin)
        if self.posteriors.margin != margin:
            self.posteriors = PosteriorChances(self.problem, margin)
        return self.posteriors

    def chances_many(
        self, stage: int, asked: Asked, rng: np.random.Generator | None = None
    ) -> Floats:
        if self.posteriors is None:
            return super().chances_many(stage, asked, rng)
        return self.posteriors.best(asked.pulls, asked.good, asked.allowed)
