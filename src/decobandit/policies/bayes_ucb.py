"""Bayes-UCB: an upper quantile of the posterior expected reward.

    Q(1 - 1 / ((t+1) (log T)^c))        Q: quantiles of bad + (good - bad) p, p ~ Beta(a, b)

Kaufmann, Cappe and Garivier, On Bayesian upper confidence bounds for bandit problems, AISTATS 2012:
t+1 is the pull about to be made, T the horizon. Their proofs need c >= 5; c = 0 is what they advise
in practice, and the default. The first pull then looks at the lowest quantile, where arms of the
same rewards tie. With several pulls per stage, t counts stages, in
batches pulls. Where a bad outcome earns more, the
quantile is that of its probability. Serves any problem.
"""

from __future__ import annotations

import math

import numpy as np

from ..problem import DEFAULT_TIES, Problem, TieRule
from ..support import Floats
from .curve import Solve
from .kernels.beta import upper_quantiles
from .table import PosteriorPolicy

MOST_LEVEL = 700.0  # exp(-700) is about the smallest number with all digits


class BayesUcbPolicy(PosteriorPolicy):
    """Pulls the largest upper quantile."""

    name = "bayes-ucb"
    kind_place = "decobandit.policies.kinds.rules:KindQuantilePolicy"

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        if not 0.0 <= c < math.inf:
            raise ValueError(f"c: {c} is not allowed; must be a finite number, zero or more")
        self.c = c
        super().__init__(problem, ties=ties)
        if self._levels[-1] > MOST_LEVEL:
            raise ValueError(
                f"c: {c} is not allowed with horizon {problem.horizon}; the chance that an index "
                "is exceeded would be too small for a number"
            )

    @property
    def solve(self) -> Solve:
        return upper_quantiles

    def levels(self) -> Floats:
        """Minus the logarithm of the chance that the index is exceeded."""
        # log T is below 1 for T = 1 and 2, where it would leave no quantile
        horizon = self.problem.horizon
        factor = self.c * math.log(max(math.log(horizon), 1.0))
        return np.asarray(np.log1p(self.clock(np.arange(horizon))) + factor, dtype=np.float64)
