"""KL-UCB: the largest success probability that the observations do not rule out.

    max q  with  n kl(g/n, q) <= log(t+1) + c log log(t+1)
    kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))        arms never pulled first

Garivier and Cappe, The KL-UCB algorithm for bounded stochastic bandits and beyond, COLT 2011: t+1
is the pull about to be made. Their proofs take c = 3; c = 0 is what they advise in practice, and
the default. log log counts as 0 as long as it is negative. With several pulls per stage, t counts
stages; in batches, pulls.
"""

from __future__ import annotations

import math

import numpy as np

from ..problem import DEFAULT_TIES, Group, Problem, TieRule
from ..support import Floats
from .curve import Curve, solved
from .kernels.kl_bound import kl_upper_bounds
from .table import BoundPolicy


class KlUcbPolicy(BoundPolicy):
    """Pulls the largest Kullback-Leibler bound."""

    name = "kl-ucb"
    kind_place = "decobandit.policies.kinds.bounds:KindKlUcbPolicy"

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        if not 0.0 <= c < math.inf:
            raise ValueError(f"c: {c} is not allowed; must be a finite number, zero or more")
        self.c = c
        log_t = np.log1p(self.clock(np.arange(problem.horizon)))
        levels = log_t + c * np.log(np.maximum(log_t, 1.0))
        self._curve = Curve(levels, kl_upper_bounds, lambda n, g: (n, g))

    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        return solved(kl_upper_bounds, n, g, float(self._curve.levels[stage]))[:, 0]

    def group_table(self, group: Group, stage: int) -> Floats:
        bounds = self._curve.at(stage)
        return self.reward_at(group, stage, np.arange(bounds.size) > 0, bounds[1:])
