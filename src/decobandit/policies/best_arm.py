"""Policies that pull an arm with the chance that it is the best, in many states at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import Problem, Rules, States
from ..support import Floats
from .base import Policy
from .posterior_chances import PosteriorChances
from .reward_chances import Posteriors, comparable_posteriors


class ByChanceOfBest(Policy):
    """Has P(best) as its allocation probabilities, where that is computed without draws."""

    def as_compared(self) -> Problem:
        """The problem whose rewards the policy compares arms by."""
        return self.problem

    @cached_property
    def posteriors(self) -> Posteriors | None:
        """P(best) of many states, where arms compare alike at all stages."""
        return comparable_posteriors(self.as_compared())

    @property
    def has_chances(self) -> bool:
        return self.posteriors is not None

    def posteriors_by(self, rules: Rules) -> Posteriors:
        """Posterior probabilities of looks; shared with decisions where both compare alike."""
        by_rules = super().posteriors_by(rules)
        if not isinstance(self.posteriors, PosteriorChances):
            return by_rules
        if isinstance(by_rules, PosteriorChances) and by_rules.down == self.posteriors.down:
            if by_rules.margin != self.posteriors.margin:
                self.posteriors = by_rules
            return self.posteriors
        return by_rules

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        if self.posteriors is None:
            return super().probabilities(stage, states, rng)
        return self.posteriors.best(states)
