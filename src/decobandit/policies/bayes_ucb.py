"""Bayes-UCB: an upper quantile of the posterior expected reward.

    Q(1 - 1 / ((t+1) (log T)^c))        Q: quantiles of bad + (good - bad) p, p ~ Beta(a, b)

Kaufmann, Cappe and Garivier, On Bayesian upper confidence bounds for bandit problems, AISTATS 2012:
t+1 is the pull about to be made, T the horizon. Their proofs need c >= 5; c = 0 is what they advise
in practice, and the default. The first pull then looks at the lowest quantile, where arms of the
same rewards tie. With several pulls per stage, t counts stages. Where a bad outcome earns more, the
quantile is that of its probability. Serves any problem.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainccinv

from ..problem import Group, Problem
from .base import DEFAULT_TIES, TieRule
from .table import Floats, TablePolicy, better_outcome


class BayesUcbPolicy(TablePolicy):
    """Pulls the largest upper quantile."""

    name = "bayes-ucb"

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        if not 0.0 <= c < math.inf:
            raise ValueError(f"c: {c} is not allowed; must be a finite number, zero or more")
        self.c = c

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        a, b, low, high = better_outcome(group, stage, n, g)
        # log T is below 1 for T = 1 and 2, where it would leave no quantile
        above = 1.0 / ((stage + 1) * max(math.log(self.problem.horizon), 1.0) ** self.c)
        quantile = np.asarray(betainccinv(a, b, above), dtype=np.float64)
        return low + (high - low) * quantile
