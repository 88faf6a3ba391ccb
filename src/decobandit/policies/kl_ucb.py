"""KL-UCB: the largest success probability that the observations do not rule out.

    max q  with  n kl(g/n, q) <= log(t+1) + c log log(t+1)
    kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))        arms never pulled first

Garivier and Cappe, The KL-UCB algorithm for bounded stochastic bandits and beyond, COLT 2011: t+1
is the pull about to be made. Their proofs take c = 3; c = 0 is what they advise in practice, and
the default. log log counts as 0 as long as it is negative. With several pulls per stage, t counts
stages.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr, rel_entr

from ..problem import Problem
from .base import DEFAULT_TIES, TieRule
from .table import BoundPolicy, Floats

ACCURACY = 1e-12  # of the bound
TINY = 1e-14  # closer to 1 there is no telling bounds apart
MOST_STEPS = 100


def kl_upper_bound(p: Floats, level: Floats) -> Floats:
    """The largest q with kl(p, q) <= level: Newton's method from above.

    kl(p, .) is convex and grows to the right of p, so that steps from above stay above. Above are
    Pinsker's bound p + sqrt(level / 2), and what is left when p log q is dropped from kl.
    """
    other = np.maximum(1.0 - p, TINY)  # not 0 where p = 1: the bound there comes out as 1
    dropped = -np.expm1(-(level + entr(p) + entr(other)) / other)
    q = np.where(level > 0.0, dropped, p)
    inner = (level > 0.0) & (dropped < 1.0 - TINY)
    p, level, dropped = p[inner], level[inner], dropped[inner]
    x = np.minimum(p + np.sqrt(level / 2.0), dropped)
    for _ in range(MOST_STEPS):
        excess = rel_entr(p, x) + rel_entr(1.0 - p, 1.0 - x) - level
        step = excess * x * (1.0 - x) / (x - p)
        x = x - step
        if np.all(np.abs(step) <= ACCURACY):
            break
    q[inner] = x
    return q


class KlUcbPolicy(BoundPolicy):
    """Pulls the largest Kullback-Leibler bound."""

    name = "kl-ucb"

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        if not 0.0 <= c < math.inf:
            raise ValueError(f"c: {c} is not allowed; must be a finite number, zero or more")
        self.c = c

    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        log_t = math.log(stage + 1.0)
        return kl_upper_bound(g / n, (log_t + self.c * math.log(max(log_t, 1.0))) / n)
