"""Upper confidence bounds on the mean of an arm of any kind, from its outcomes alone.

Arms never pulled come first. t: stages so far; r: Hoeffding's range of the kind (`confidence`).

    ucb1        x + r sqrt(2 log t / n)
    ucb-tuned   x + w sqrt(log t / n min(1/4, v)),  v = s^2 / w^2 + sqrt(2 log t / n), w the range
                of bounded outcomes, s^2 their observed variance
    moss        x + r sqrt(max(0, log(N / (K n))) / n)
    kl-ucb      the largest q with n KL(x, q) <= log(t + 1)

Auer, Cesa-Bianchi and Fischer 2002 for outcomes in [0, 1]; with normal outcomes r = 2 sd leaves
UCB1's chance t^-4 of an error as it is. MOSS: Audibert and Bubeck 2009. KL-UCB: Garivier and Cappe
2011 for bounded outcomes; Cappe, Garivier, Maillard, Munos and Stoltz 2013 for normal and Poisson
ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from ...problem import DEFAULT_TIES, ArmModel, Problem, TieRule
from ...support import Floats
from ..table import UNPULLED
from .base import KindPolicy
from .confidence import averages, divergence_bound, ends, hoeffding_range


class KindBoundPolicy(KindPolicy):
    """Pulls the largest upper bound on the reward."""

    by_arm = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        for group in problem.groups:
            name = problem.arms[group.members[0]].name
            if np.any(group.reward_factor[: problem.horizon] < 0.0):
                raise ValueError(
                    f"policy {self.name!r} bounds means from above; arm {name!r} earns less where "
                    "its outcomes are larger"
                )
            one = np.array(group.model.initial(), dtype=float)
            try:
                averages(group.model, one + 1.0)
                self.bound(group.model, 1, np.ones(1), np.ones(1), None)
            except ValueError as error:
                raise ValueError(f"policy {self.name!r}: {error}") from None

    @abstractmethod
    def bound(
        self, kind: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats | None
    ) -> Floats:
        """Upper bound on the mean of arms with n > 0 outcomes of this mean and variance."""

    @staticmethod
    def log_clock(stage: int) -> float:
        """log t; 0 before the first pull."""
        return math.log(max(stage, 1))

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        own = self.problem.groups[group]
        n = np.asarray(own.model.pulls(stats), dtype=float)
        pulled = n > 0.0
        x = np.full(n.shape, UNPULLED * max(1.0, *map(abs, own.model.usual)))
        mean, variance = averages(own.model, stats[pulled])
        x[pulled] = self.bound(own.model, stage, n[pulled], mean, variance)
        return np.asarray(own.reward_base[stage] + own.reward_factor[stage] * x)


class KindUcb1Policy(KindBoundPolicy):
    """Hoeffding's bound."""

    name = "ucb1"
    symmetric = True

    def bound(
        self, kind: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats | None
    ) -> Floats:
        return np.asarray(mean + hoeffding_range(kind) * np.sqrt(2.0 * self.log_clock(stage) / n))


class KindUcbTunedPolicy(KindBoundPolicy):
    """With the observed variance of bounded outcomes."""

    name = "ucb-tuned"
    symmetric = True

    def bound(
        self, kind: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats | None
    ) -> Floats:
        low, high = ends(kind)
        width, log_t = high - low, self.log_clock(stage)
        seen = 0.0 if variance is None or width == 0.0 else variance / width**2
        v = np.minimum(0.25, seen + np.sqrt(2.0 * log_t / n))
        return np.asarray(mean + width * np.sqrt(log_t / n * v))


class KindMossPolicy(KindBoundPolicy):
    """The minimax bound."""

    name = "moss"
    symmetric = True

    def bound(
        self, kind: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats | None
    ) -> Floats:
        share = self.problem.horizon * self.problem.pulls_per_stage / self.problem.n_arms
        bonus = np.sqrt(np.maximum(0.0, np.log(share / n)) / n)
        return np.asarray(mean + hoeffding_range(kind) * bonus)


class KindKlUcbPolicy(KindBoundPolicy):
    """The Kullback-Leibler bound."""

    name = "kl-ucb"
    symmetric = True

    def bound(
        self, kind: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats | None
    ) -> Floats:
        return divergence_bound(kind, n, mean, math.log1p(stage))
