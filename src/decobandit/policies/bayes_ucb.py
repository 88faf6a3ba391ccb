"""Bayes-UCB: an upper quantile of the posterior expected reward.

    Q(1 - 1 / ((t+1) (log T)^c))        Q: quantiles of the mean reward, given what is known

Kaufmann, Cappe and Garivier, On Bayesian upper confidence bounds for bandit problems, AISTATS 2012:
t+1 is the pull about to be made, T the horizon. Their proofs need c >= 5; c = 0 is what they advise
in practice, and the default. The first pull then looks at the lowest quantile, where arms of the
same rewards tie; where some arm has no least mean, expected rewards decide it. With several pulls
per stage, t counts stages, in batches pulls. Where larger outcomes earn less, the quantile is that
of the other tail. Serves any problem whose arms have an unknown mean.
"""

from __future__ import annotations

import math

import numpy as np

from ..problem import DEFAULT_TIES, Problem, TieRule
from ..support import Floats
from .curve import PosteriorCurves
from .index_policy import IndexPolicy
from .kernels.beta import upper_quantiles
from .refusals import own_state_refusal

MOST_LEVEL = 700.0  # exp(-700) is about the smallest number with all digits


class BayesUcbPolicy(IndexPolicy):
    """Pulls the largest upper quantile."""

    name = "bayes-ucb"
    symmetric = True

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        if not 0.0 <= c < math.inf:
            raise ValueError(f"c: {c} is not allowed; must be a finite number, zero or more")
        self.c = c
        super().__init__(problem, ties=ties)
        # log T is below 1 for T = 1 and 2, where it would leave no quantile
        factor = c * math.log(max(math.log(problem.horizon), 1.0))
        levels = np.log1p(self.clock(np.arange(problem.horizon))) + factor
        self._levels = np.asarray(levels, dtype=np.float64)  # minus log of the chance beyond
        if self._levels[-1] > MOST_LEVEL:
            raise ValueError(
                f"c: {c} is not allowed with horizon {problem.horizon}; the chance that an index "
                "is exceeded would be too small for a number"
            )
        self._curves = PosteriorCurves(problem, self._levels, upper_quantiles)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return own_state_refusal(problem, cls.name)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        arms, at = self.problem.groups[group], self.compared(stage)
        if arms.is_binary:
            return self._curves.solved(stage, at, group, stats)
        tail, rising = math.exp(-self._levels[stage]), arms.reward_factor[at] >= 0.0
        if tail == 1.0:
            ends = [g.model.mean_range[int(g.reward_factor[at] < 0.0)] for g in self.problem.groups]
            mean = arms.model.mean(stats)
            mean = np.full_like(mean, ends[group]) if np.all(np.isfinite(ends)) else mean
        else:
            mean = arms.model.quantile(stats, 1.0 - tail if rising else tail)
        return self.reward_of(stage, group, mean)

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        return self._curves.table(stage, group)
