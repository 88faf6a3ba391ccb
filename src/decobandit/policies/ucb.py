"""Upper confidence bounds on the mean of an arm, from its outcomes alone.

Arms never pulled come first. t: stages so far, in batches pulls; x, s^2: mean and variance of the n
outcomes; r: their range by Hoeffding, the distance of the ends of bounded outcomes and twice the
noise of normal ones.

    ucb1        x + r sqrt(2 log t / n)
    ucb-tuned   x + r sqrt(log t / n min(1/4, v)),  v = s^2 / r^2 + sqrt(2 log t / n); bounded ones
    moss        x + r sqrt(max(0, log(N / (K n))) / n)        N pulls in all, K arms
    kl-ucb      the largest q with n KL(x, q) <= log(t+1) + c log log(t+1)

Auer, Cesa-Bianchi and Fischer, Finite-time analysis of the multiarmed bandit problem, Machine
Learning 47, 2002, figure 1 and section 4; with normal outcomes r = 2 sd leaves the probability of
an error, t^-4, as it is. Audibert and Bubeck, Minimax policies for adversarial and stochastic
bandits, COLT 2009. Garivier and Cappe, The KL-UCB algorithm for bounded stochastic bandits and
beyond, COLT 2011: proofs take c = 3, c = 0 is what they advise in practice and the default; log log
counts as 0 as long as it is negative. Cappe, Garivier, Maillard, Munos and Stoltz 2013 for normal
and Poisson outcomes.

Where one pull is made per stage of binary arms of equal rewards, episodes of bounds that are a mean
plus a bonus are played without tables (kernels/bound_play.py).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..problem import (
    DEFAULT_TIES,
    TIE_SIGNS,
    ArmModel,
    BernoulliModel,
    CategoricalModel,
    NormalModel,
    Problem,
    TieRule,
)
from ..support import Floats, InvalidArgument
from .index_policy import UNPULLED_MEAN, IndexPolicy
from .kernels.bound_play import play_bounds
from .kernels.episodes import Episodes
from .kernels.index_roots import kl_upper_bounds
from .posterior_bounds import Curve, solved
from .requirements import Requirement, known_variances, rising_rewards, unknown_means


def hoeffding_range(model: ArmModel, *, bounded: bool = False) -> float | None:
    """Return r such that P(mean of n outcomes is c too large) <= exp(-2 n c^2 / r^2).

    None where outcomes are not bounded, and not normal unless they have to be bounded.
    """
    if isinstance(model, NormalModel) and not bounded:
        return 2.0 * model.noise_sd
    low, high = model.mean_range
    return high - low if math.isfinite(high - low) else None


def _range_of_outcomes(problem: Problem, *, bounded: bool) -> str | None:
    for group in problem.groups:
        if hoeffding_range(group.model, bounded=bounded) is None:
            return (
                f"needs bounded outcomes, and those of {group.model.word} arms are not; use "
                "'kl-ucb' or 'bayes-ucb'"
            )
    return None


class UpperBoundPolicy(IndexPolicy):
    """Pulls the largest upper bound on the reward."""

    requires: ClassVar[tuple[Requirement, ...]] = (
        unknown_means,
        partial(_range_of_outcomes, bounded=False),
        rising_rewards,
    )

    def level(self, stage: int) -> float:
        """Level of all bonuses at a stage, where the bound is a level times a width."""
        return 1.0

    def width(self, n: Floats) -> Floats:
        """Width of the bonus of arms with n pulls, n at least 1, for outcomes of range 1."""
        raise NotImplementedError

    def bound(
        self, model: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats
    ) -> Floats:
        """Upper bound on the mean of arms with n > 0 outcomes of this mean and variance."""
        reach = hoeffding_range(model)
        assert reach is not None
        return np.asarray(mean + self.level(stage) * (reach * self.width(n)), dtype=np.float64)

    def log_clock(self, stage: int) -> float:
        """Return log t; 0 before the first pull."""
        return math.log(max(float(self.clock(stage)), 1.0))

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        model = self.problem.groups[group].model
        n = np.asarray(model.pulls(stats), dtype=np.float64)
        pulled = n > 0.0
        mean, variance = observed(model, stats[pulled])
        return self._first_unpulled(
            stage, group, pulled, self.bound(model, stage, n[pulled], mean, variance)
        )

    def _first_unpulled(
        self, stage: int, group: int, pulled: npt.NDArray[np.bool_], bounds: Floats
    ) -> Floats:
        """Index of states by the bounds of those with pulls; arms never pulled come first."""
        model = self.problem.groups[group].model
        top = (
            UNPULLED_MEAN if model.counts_good else UNPULLED_MEAN * max(1.0, *map(abs, model.usual))
        )
        x = np.full(pulled.shape, top)
        x[pulled] = bounds
        return self.reward_of(stage, group, x)

    # -- a loop of its own --------------------------------------------------------------------

    @cached_property
    def has_loop(self) -> bool:
        is_bonus = type(self).width is not UpperBoundPolicy.width
        single = self.problem.single_binary and self.problem.pulls_per_stage == 1
        return is_bonus and single and self.equal_rewards

    @cached_property
    def _widths(self) -> Floats:
        """By pulls, (horizon + 1,); 0 before the first."""
        return np.append(0.0, self.width(np.arange(1.0, self.problem.horizon + 1.0)))

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        levels = np.array([self.level(stage) for stage in range(first, last)])
        tolerance = self._tolerance / float(self._factor[0, first])
        rule = TIE_SIGNS[self.ties]
        play_bounds(episodes, levels, self._widths, UNPULLED_MEAN, tolerance, *rule, rng)


class Ucb1Policy(UpperBoundPolicy):
    """Pulls the largest Hoeffding bound."""

    name = "ucb1"
    symmetric = True

    def level(self, stage: int) -> float:
        return math.sqrt(2.0 * self.log_clock(stage))

    def width(self, n: Floats) -> Floats:
        return np.asarray(1.0 / np.sqrt(n), dtype=np.float64)


class MossPolicy(UpperBoundPolicy):
    """Pulls the largest minimax-optimal bound; no bonus for an arm that has had its share N / K."""

    name = "moss"
    symmetric = True

    def width(self, n: Floats) -> Floats:
        share = self.problem.horizon * self.problem.pulls_per_stage / self.problem.n_arms
        bonus = np.sqrt(np.maximum(0.0, np.log(share / n)) / n)
        return np.asarray(bonus, dtype=np.float64)


class UcbTunedPolicy(UpperBoundPolicy):
    """Pulls the largest bound with estimated variance."""

    name = "ucb-tuned"
    symmetric = True
    requires = (unknown_means, partial(_range_of_outcomes, bounded=True), rising_rewards)

    def bound(
        self, model: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats
    ) -> Floats:
        reach, log_t = hoeffding_range(model), self.log_clock(stage)
        if not reach:
            return mean
        v = np.minimum(0.25, variance / reach**2 + np.sqrt(2.0 * log_t / n))
        return np.asarray(mean + reach * np.sqrt(log_t / n * v), dtype=np.float64)


class KlUcbPolicy(UpperBoundPolicy):
    """Pulls the largest Kullback-Leibler bound."""

    name = "kl-ucb"
    symmetric = True
    requires = (unknown_means, known_variances, rising_rewards)

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        if not 0.0 <= c < math.inf:
            raise InvalidArgument(
                f"c: {c} is not allowed; must be a finite number, zero or more", field="c"
            )
        self.c = c
        log_t = np.log1p(self.clock(np.arange(problem.horizon)))
        self._levels = log_t + c * np.log(np.maximum(log_t, 1.0))
        self._curve = Curve(self._levels, kl_upper_bounds, lambda n, g: (n, g))

    def bound(
        self, model: ArmModel, stage: int, n: Floats, mean: Floats, variance: Floats
    ) -> Floats:
        level = float(self._levels[stage])
        if (bound := model.kl_bound(n, mean, level)) is not None:
            return bound
        # of bounded outcomes the divergence of good and bad ones, scaled to the ends: that of
        # other outcomes with these means is larger
        low, high = model.mean_range
        if high == low:
            return mean
        good = n * mean if model.counts_good else n * (mean - low) / (high - low)
        root = solved(kl_upper_bounds, np.ravel(n), np.ravel(good), level)[:, 0]
        return np.asarray(low + (high - low) * root.reshape(mean.shape))

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        bounds = self._curve.at(stage)
        return self._first_unpulled(stage, group, np.arange(bounds.size) > 0, bounds[1:])


def observed(model: ArmModel, stats: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the outcomes so far, of arms with pulls; a variance not known is 0."""
    if isinstance(model, BernoulliModel):
        mean = stats[..., 0] / model.pulls(stats)
        return mean, mean * (1.0 - mean)
    if isinstance(model, CategoricalModel):
        shares, values = stats / model.pulls(stats)[..., None], np.array(model.values)
        mean = shares @ values
        return mean, np.maximum(shares @ values**2 - mean**2, 0.0)
    mean = model.total(stats) / model.pulls(stats)
    return mean, np.zeros_like(mean)
