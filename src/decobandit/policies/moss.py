"""MOSS: an upper bound that knows the horizon, for the smallest worst-case regret.

    g/n + sqrt(max(0, log(N / (K n))) / n)        arms never pulled first

N pulls in all (the horizon times pulls per stage), K arms: no bonus for an arm that has had its
share N / K. Audibert and Bubeck, Minimax policies for adversarial and stochastic bandits, COLT
2009.
"""

from __future__ import annotations

import numpy as np

from ..support import Floats
from .bonus import BonusPolicy


class MossPolicy(BonusPolicy):
    """Pulls the largest minimax-optimal bound."""

    name = "moss"
    kind_place = "decobandit.policies.kinds.bounds:KindMossPolicy"

    def width(self, n: Floats) -> Floats:
        problem = self.problem
        share = problem.horizon * problem.pulls_per_stage / problem.n_arms
        bonus = np.sqrt(np.maximum(0.0, np.log(share / n)) / n)
        return np.asarray(bonus, dtype=np.float64)
