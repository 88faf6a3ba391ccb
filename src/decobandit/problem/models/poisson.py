"""Poisson counts, gamma prior on their mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...support import Floats, Ints
from ..fields import PriorWeight, plain_init
from .base import PriorTable, Stats, SumFormat, SumModel, WholeNumbers, gamma_evidence

MOST_COUNTS = 64  # that transitions tell apart
TAIL = 1e-9  # probability of counts beyond them
NEGLIGIBLE_PROBABILITY = 1e-12  # of all counts that are left out
HALVINGS = 60  # of a bracket of a Kullback-Leibler bound


class GammaPoisson(PriorTable):
    """Gamma prior on the mean of Poisson counts, worth `shape` events in `rate` pulls.

    The expected count of a pull is shape / rate.

    Examples
    --------
    >>> from decobandit import Arm, GammaPoisson
    >>> Arm(name="a", prior=GammaPoisson(shape=2, rate=1)).prior.shape
    2.0
    """

    arm_fields = frozenset({"range"})

    kind: Literal["gamma"] = "gamma"
    shape: PriorWeight = Field(description="Events seen before, as if.")
    rate: PriorWeight = Field(description="Pulls in which they were seen, as if.")

    @plain_init
    def __init__(self, shape: float, rate: float, *, kind: Any = "gamma") -> None:
        super().__init__(kind=kind, shape=shape, rate=rate)

    def arm_model(self, arm: Any) -> PoissonModel:
        return PoissonModel(self.shape, self.rate)

    def weighted(self, by: float) -> GammaPoisson:
        return GammaPoisson(shape=self.shape * by, rate=self.rate * by)


class PoissonFormat(WholeNumbers[Any], SumFormat[Any]):
    """Outcomes are whole numbers, zero or more."""

    outcomes = "counts"
    truths = 0.0, float(WholeNumbers.most)
    truth_rule = f"must be a rate, zero or more, at most {WholeNumbers.most}"

    def describe(self, stats: Stats) -> str:
        return f"Gamma({self.model.shape + stats[1]:g}, {self.model.rate + stats[0]:g})"

    def check(self, stats: Stats) -> None:
        super().check(stats)
        if stats[1] < 0 or stats[1] != int(stats[1]):
            raise self.impossible(stats, "the sum of counts is a whole number, not < 0")


@dataclass(frozen=True)
class PoissonModel(SumModel):
    """Poisson counts: the posterior of their mean is a gamma law."""

    shape: float
    rate: float

    word = "count"
    format_class = PoissonFormat
    mean_range = 0.0, math.inf

    @property
    def prior_pulls(self) -> float:
        return self.rate

    def mean(self, stats: Floats) -> Floats:
        return np.asarray((self.shape + stats[..., 1]) / (self.rate + stats[..., 0]))

    def sd(self, stats: Floats) -> Floats:
        return np.sqrt(self.shape + stats[..., 1]) / (self.rate + stats[..., 0])

    def excess(self, stats: Floats, c: Floats) -> Floats:
        from scipy.stats import nbinom  # late: scipy takes half a second to load

        r, weight = self.shape + stats[..., 1], self.rate + stats[..., 0]
        probability = weight / (weight + 1.0)
        k = c * (weight + 1.0) - r  # the count that leads to c
        j = np.ceil(k)
        tails = nbinom.sf(j - 2.0, r + 1.0, probability), nbinom.sf(j - 1.0, r, probability)
        beyond = np.where(k <= 0.0, r / weight - k, r / weight * tails[0] - k * tails[1])
        return np.asarray(np.maximum(beyond, 0.0) / (weight + 1.0))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import gammainc

        above = np.maximum(x, 0.0) * (self.rate + stats[..., 0])
        return np.asarray(gammainc(self.shape + stats[..., 1], above))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import gammaincinv

        quantile = gammaincinv(self.shape + stats[..., 1], level)
        return np.asarray(quantile / (self.rate + stats[..., 0]))

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.standard_gamma(self.shape + stats[..., 1])
        return np.asarray(drawn / (self.rate + stats[..., 0]))[..., None]

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.poisson(parameters[..., 0]), dtype=float)

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        """Return counts one by one, neighbours merged where they are many."""
        r, weight = self.shape + stats[..., 1], self.rate + stats[..., 0]
        mean, spread = r / weight, np.sqrt(r * (weight + 1.0)) / weight
        low = np.maximum(np.floor(mean - 8.0 * spread), 0.0)
        high: Floats = np.ceil(mean + 6.0 * spread)
        while (short := _negative_binomial(r, weight, high) < 1.0 - TAIL).any():
            high = np.where(short, np.ceil(1.5 * high + 1.0), high)
        # each state has as many as it needs: the rest have no probability
        number = np.minimum(high - low + 1.0, MOST_COUNTS)[..., None]
        j = np.arange(number.max(initial=1.0) + 1.0)
        grown = np.floor((high + 1.0 - low)[..., None] * (np.minimum(j / number, 1.0)) ** 2)
        first = low[..., None] + np.where(number == MOST_COUNTS, np.maximum(j, grown), j)
        below = _negative_binomial(r[..., None], weight[..., None], first[..., 1:-1] - 1.0)
        below = np.where(j[1:-1] < number, below, 1.0)
        ends = np.zeros_like(below[..., :1]), np.ones_like(below[..., :1])
        probabilities = np.diff(np.concatenate([ends[0], below, ends[1]], axis=-1), axis=-1)
        middle = 0.5 * (first[..., :-1] + first[..., 1:] - 1.0)
        return probabilities, self.after_sums(stats, 1, middle)

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """One more count takes a Poisson probability off: P(a + 1, z) = P(a, z) - z^a e^-z / a!."""
        if np.any(np.diff(after[..., 1], axis=-1) != 1.0):
            return super().cdf_ahead(after, x)
        from scipy.special import gammaln, xlogy

        first = after[..., :1, :]
        a = self.shape + first[..., 1:]
        z = np.maximum(x, 0.0) * (self.rate + first[..., :1])
        below, taken = self.cdf(first[..., None, :], x), np.exp(xlogy(a, z) - z - gammaln(a + 1.0))
        result = np.empty((*after.shape[:-1], x.shape[-1]))
        for j in range(after.shape[-2]):
            result[..., j, :] = below[..., 0, :]
            below, taken = below - taken, taken * z / (a + j + 1.0)
        return np.maximum(result, 0.0)

    def expected(self, stats: Floats, number: Ints) -> Floats:
        return np.rint(super().expected(stats, number))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Return the negative binomial distribution of the sum, without negligible tails."""
        from scipy.stats import nbinom

        if count == 0:
            return np.ones((len(stats), 1)), stats[:, None, :]
        r, weight = self.shape + stats[:, 1:], self.rate + stats[:, :1]
        probability, tail = weight / (weight + count), NEGLIGIBLE_PROBABILITY / 2.0
        first, last = nbinom.ppf(tail, r, probability), nbinom.ppf(1.0 - tail, r, probability)
        if not last.max() - first.min() < most:
            return None
        sums = np.arange(first.min(), last.max() + 1.0)
        probabilities = nbinom.pmf(sums, r, probability)
        probabilities[(sums < first) | (sums > last)] = 0.0  # needed by other states only
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        every = np.broadcast_to(sums, probabilities.shape)
        return probabilities, self.after_sums(stats, count, every)

    def kl_bound(self, n: Floats, mean: Floats, level: float) -> Floats | None:
        """KL(p, q) = q - p + p log(p / q), by bisection."""
        budget = level / n
        # above p it grows faster than (q - p)^2 / 2q, so that this q is too large
        low, high = mean, mean + budget + np.sqrt(budget * budget + 2.0 * budget * mean) + 1e-300
        for _ in range(HALVINGS):
            q = 0.5 * (low + high)
            with np.errstate(divide="ignore", invalid="ignore"):
                spent = q - mean + np.where(mean > 0.0, mean * np.log(mean / q), 0.0)
            low, high = np.where(spent <= budget, q, low), np.where(spent <= budget, high, q)
        return np.asarray(low)

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        total = np.asarray(rng.poisson(number * parameters[..., 0]), dtype=float)
        return self.after_sums(stats, number, total[..., None])[..., 0, :]

    def posterior(self, stats: Floats) -> GammaPoisson:
        return GammaPoisson(shape=self.shape + float(stats[1]), rate=self.rate + float(stats[0]))

    def log_evidence(self, stats: Floats) -> Floats:
        return gamma_evidence(self.shape, self.rate, stats[..., 1], stats[..., 0])


def _negative_binomial(r: Floats, weight: Floats, count: Floats) -> Floats:
    """Probability that the next count is at most `count`, given Gamma(r, weight)."""
    from scipy.special import betainc

    return np.asarray(betainc(r, np.maximum(count, 0.0) + 1.0, weight / (weight + 1.0)))
