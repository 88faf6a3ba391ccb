"""Poisson counts and exponential survival times: gamma priors on their rates.

With rate ~ Gamma(a, b), a = shape + pulls and b = rate + sum of the times, the next posterior has
b' = b + x with P(b' > B) = (b / B)^a for B >= b. The expected value of a time, up to the cap c, is

    m_a(b) = integral of (b / (b + x))^a over [0, c] = b / (a - 1) (1 - (b / (b + c))^(a - 1)),

and E[m_{a+1}(b'); b' > B] = (b / B)^a m_a(B): values are convex in the mean (d b^a / d m_a grows).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...support import Floats, Ints, bisect, decay_integral, refuse
from ..fields import PriorWeight, plain_init
from .base import LARGEST_SUM, PriorTable, Stats, SumFormat, SumModel, WholeNumbers, gamma_evidence

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
    shape: PriorWeight = Field(description="Events that the prior is worth.")
    rate: PriorWeight = Field(description="Pulls that the prior is worth.")

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


# -- survival times --------------------------------------------------------------------------------

TIME_NODES = 48  # of a quadrature over sums of times
CENTRAL = 0.15865525393145707, 0.8413447460685429  # a normal law: one deviation from the mean


class GammaExponential(PriorTable):
    """Gamma prior on the rate of exponential times, worth `shape` events in a total time `rate`.

    Examples
    --------
    >>> from decobandit import GammaExponential
    >>> GammaExponential(3, 20).rate
    20.0
    """

    arm_fields = frozenset({"range", "cap"})

    kind: Literal["exponential"] = "exponential"
    shape: PriorWeight = Field(description="Events that the prior is worth; above 1 without a cap.")
    rate: PriorWeight = Field(description="Total time that the prior is worth.")

    @plain_init
    def __init__(self, shape: float, rate: float, *, kind: Any = "exponential") -> None:
        super().__init__(kind=kind, shape=shape, rate=rate)

    def check_arm(self, arm: Any) -> None:
        if arm.reward.cap is None and self.shape <= 1.0:
            rule = "must be above 1 without a cap of the reward: the expected time is infinite"
            refuse(rule, found=self.shape, at=("prior", "shape"))

    def arm_model(self, arm: Any) -> ExponentialModel:
        return ExponentialModel(self.shape, self.rate, arm.reward.cap or math.inf)

    def weighted(self, by: float) -> GammaExponential:
        shape = 1.0 + (self.shape - 1.0) * by if self.shape > 1.0 else self.shape * by
        return GammaExponential(shape=shape, rate=self.rate * by)


class ExponentialFormat(SumFormat[Any]):
    """Outcomes are positive numbers."""

    example = "12.5/2"
    positive = True
    truths = 5e-324, LARGEST_SUM
    truth_rule = "must be a positive mean time"
    rule = "a positive number"

    def __init__(self, model: ExponentialModel) -> None:
        super().__init__(model)
        limit = "" if model.cap == math.inf else f", counted up to {model.cap:g}"
        self.outcomes = f"survival times{limit}"

    def describe(self, stats: Stats) -> str:
        shape, rate = self.model.shape + stats[0], self.model.rate + stats[1]
        return f"Exponential(Gamma({shape:g}, {rate:g}))"


@dataclass(frozen=True)
class ExponentialModel(SumModel):
    """Exponential times; a parameter is the true mean time, without the cap."""

    shape: float
    rate: float
    cap: float = math.inf

    word = "exponential"
    format_class = ExponentialFormat

    @property
    def mean_range(self) -> tuple[float, float]:
        return 0.0, self.cap

    @property
    def prior_pulls(self) -> float:
        return self.shape

    def _gamma(self, stats: Floats) -> tuple[Floats, Floats]:
        return self.shape + stats[..., 0], self.rate + stats[..., 1]

    def _mean(self, a: Floats, b: Floats) -> Floats:
        if self.cap == math.inf:
            return np.asarray(b / (a - 1.0))
        return np.asarray(b * decay_integral(a - 1.0, np.log1p(self.cap / b)))

    def _scale(self, a: Floats, mean: Floats) -> Floats:
        """Return b with m_a(b) = mean; 0 and inf at and outside the ends of the means."""
        if self.cap == math.inf:
            return np.asarray(np.maximum(mean, 0.0) * (a - 1.0))
        if np.size(a) and np.all(a == np.ravel(a)[0]):
            a = np.ravel(a)[0]  # one row of a grid: one search per mean
        wanted = np.broadcast_to(mean, np.broadcast_shapes(np.shape(a), np.shape(mean)))
        return self._where(lambda b: self._mean(a, b), wanted)

    def _where(self, rising: Callable[[Floats], Floats], mean: Floats) -> Floats:
        scale = self.cap * np.exp(bisect(lambda z: rising(self.cap * np.exp(z)), mean, 600.0))
        return np.where(mean <= 0.0, 0.0, np.where(mean >= self.cap, np.inf, scale))

    def stats_at(self, pulls: float, mean: Floats) -> Floats:
        b = np.maximum(self._scale(np.asarray(self.shape + pulls), mean), self.rate)
        return np.stack([np.full(b.shape, float(pulls)), b - self.rate], axis=-1)

    def mean(self, stats: Floats) -> Floats:
        return self._mean(*self._gamma(stats))

    def sd(self, stats: Floats) -> Floats:
        """Half the central 68% of the posterior where the variance is infinite."""
        a, b = self._gamma(stats)
        if self.cap < math.inf:
            # E of the product of two times: integral of min(s, 2c - s) (b / (b + s))^a
            once, twice = np.log1p(self.cap / b), np.log1p(2.0 * self.cap / b)
            one = [decay_integral(a - 1.0, end) for end in (once, twice)]
            two = [decay_integral(a - 2.0, end) for end in (once, twice)]
            square = b * b * (2.0 * two[0] - two[1] - one[0])
            square += (2.0 * self.cap + b) * b * (one[1] - one[0])
            return np.sqrt(np.maximum(square - (b * one[0]) ** 2, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            finite = b / (a - 1.0) / np.sqrt(a - 2.0)
        low, high = (self.quantile(stats, level) for level in CENTRAL)
        return np.where(a > 2.0, finite, 0.5 * (high - low))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        a, b = self._gamma(stats)
        scale = self._scale(a + 1.0, np.asarray(c, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            beyond = (b / scale) ** a * (self._mean(a, np.minimum(scale, 1e300)) - c)
        beyond = np.where(np.isfinite(scale), np.maximum(beyond, 0.0), 0.0)
        return np.where(b < scale, beyond, self._mean(a, b) - c)

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import gammainccinv  # late: scipy takes half a second to load

        a, b = self._gamma(stats)
        with np.errstate(divide="ignore"):
            return self._capped(b / gammainccinv(a, level))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import gammaincc

        a, b = self._gamma(stats)
        with np.errstate(divide="ignore"):  # times are 0 and inf at the ends
            return np.asarray(gammaincc(a, b / self._time(np.maximum(x, 0.0))))

    def _capped(self, time: Floats) -> Floats:
        """Return the expected value of an outcome with mean time `time`."""
        if self.cap == math.inf:
            return np.asarray(time, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            capped = -time * np.expm1(-self.cap / time)
        return np.where(time > 0.0, np.where(np.isfinite(time), capped, self.cap), 0.0)

    def _time(self, mean: Floats) -> Floats:
        """Return the mean time that has this expected reward."""
        mean = np.asarray(mean, dtype=float)
        return mean if self.cap == math.inf else self._where(self._capped, mean)

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        a, b = self._gamma(stats)
        drawn = np.maximum(rng.standard_gamma(a), 1e-300)
        return np.minimum(np.asarray(b / drawn), LARGEST_SUM)[..., None]

    def mean_at(self, parameters: Floats) -> Floats:
        return self._capped(parameters[..., 0])

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        times = rng.standard_exponential(parameters.shape[:-1]) * parameters[..., 0]
        return np.minimum(times, LARGEST_SUM)

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return np.minimum(outcome, self.cap)

    def total(self, stats: Floats) -> Floats:
        """Return the expected capped total given n pulls and sum S: S (1 - (1 - c / S)_+^n)."""
        n, total = stats[..., 0], stats[..., 1]
        share = np.clip(1.0 - self.cap / np.maximum(total, 1e-300), 0.0, 1.0)
        return np.asarray(np.where(n > 0.0, total * (1.0 - share**n), 0.0))

    def expected(self, stats: Floats, number: Any) -> Floats:
        a, b = self._gamma(stats)
        time = b / np.where(a > 1.0, a - 1.0, a)
        return np.asarray(stats + np.stack([number, number * time], axis=-1))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Quadrature of Gauss and Legendre: b / b' is Beta(a, count)."""
        from scipy.special import betaincinv

        if count == 0:
            return np.ones((len(stats), 1)), stats[:, None, :]
        if most < TIME_NODES:
            return None
        nodes, weights = np.polynomial.legendre.leggauss(TIME_NODES)
        a, b = self._gamma(stats)
        parts = betaincinv(a[..., None], float(count), 0.5 * (1.0 - nodes))
        sums = b[..., None] / np.maximum(parts, 1e-300) - b[..., None]
        probabilities = np.broadcast_to(0.5 * weights, sums.shape)
        return probabilities, self.after_sums(stats, count, np.minimum(sums, LARGEST_SUM))

    def kl_bound(self, n: Floats, mean: Floats, level: float) -> Floats | None:
        """Largest q with n (p / q - 1 - log(p / q)) <= level; None with a cap."""
        if self.cap < math.inf:
            return None
        from scipy.special import lambertw  # p / q = -W(-exp(-1 - level / n))

        return np.asarray(mean / -lambertw(-np.exp(-1.0 - level / n)).real)

    def posterior(self, stats: Floats) -> GammaExponential:
        return GammaExponential(self.shape + float(stats[0]), self.rate + float(stats[1]))

    def log_evidence(self, stats: Floats) -> Floats:
        return gamma_evidence(self.shape, self.rate, stats[..., 0], stats[..., 1])
