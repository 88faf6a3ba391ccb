"""Normal outcomes with unknown mean and variance, normal-gamma prior.

The precision (1 / variance) of the outcomes is Gamma(shape, rate); given the variance, the mean is
normal around `mean` with the variance divided by `pulls`. After n outcomes of sum S and sum of
squares Q

    k' = pulls + n      m' = (pulls mean + S) / k'
    a' = shape + n / 2  b' = rate + (Q + pulls mean^2 - k' m'^2) / 2

and the arm's mean is m' + sqrt(b' / (a' k')) T, T a Student t variable with 2 a' degrees of
freedom. After one more outcome its mean is m' + sqrt(b' / (a' k' (k' + 1))) T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...support import Floats, Ints, InvalidArgument, refuse, shown
from ..fields import Number, PositiveNumber, plain_init
from .base import (
    LARGEST_SUM,
    OF_SIZE,
    ArmModel,
    Knots,
    PriorTable,
    Stats,
    SumFormat,
    SumModel,
    numbers_of,
)

SCORES = np.linspace(-8.0, 0.0, 97)  # knots of a t law, by normal scores of their probability
NODES = 12  # of each variable of a quadrature over pending outcomes
CENTRAL = 0.8413447460685429  # a normal law: one standard deviation above the mean


class NormalGamma(PriorTable):
    """Normal-gamma prior of normal outcomes whose mean and variance are both unknown.

    Examples
    --------
    >>> from decobandit import NormalGamma
    >>> NormalGamma(mean=5, pulls=2, shape=3, rate=8).rate
    8.0
    """

    arm_fields = frozenset({"range"})

    kind: Literal["normal-gamma"] = "normal-gamma"
    mean: Number = Field(description="Expected mean of the outcomes.")
    pulls: PositiveNumber = Field(description="Number of outcomes that the mean is worth.")
    shape: PositiveNumber = Field(description="Of the precision, 1 / variance; above 0.5.")
    rate: PositiveNumber = Field(description="Of the precision: its mean is shape / rate.")

    @plain_init
    def __init__(
        self, mean: float, pulls: float, shape: float, rate: float, *, kind: Any = "normal-gamma"
    ) -> None:
        super().__init__(kind=kind, mean=mean, pulls=pulls, shape=shape, rate=rate)

    def check_arm(self, arm: Any) -> None:
        if self.shape <= 0.5:
            rule = "must be above 0.5: the mean of the next outcome is undefined otherwise"
            refuse(rule, found=self.shape, at=("prior", "shape"))

    def arm_model(self, arm: Any) -> ArmModel:
        return NormalGammaModel(self.mean, self.pulls, self.shape, self.rate)

    def weighted(self, by: float) -> NormalGamma:
        return NormalGamma(self.mean, self.pulls * by, self.shape, self.rate)


class NormalGammaFormat(SumFormat[Any]):
    """Statistics are written sum~squares/pulls; a truth is a mean and a standard deviation."""

    example = "1.25~3.5/2"
    outcomes = "measurements, noise sd unknown"
    form = "sum~squares/pulls"

    def describe(self, stats: Stats) -> str:
        mean, k, shape, rate = self.model.updated(np.array(stats, dtype=float))
        return f"NormalGamma({mean:.4g}, {k:g}, {shape:g}, {rate:.4g})"

    def check(self, stats: Stats) -> None:
        super().check(stats)
        pulls, total, squares = stats
        least = total * (total / max(pulls, 1)) * (1.0 - 1e-9)  # rounding
        if not least <= squares <= (LARGEST_SUM**2 if pulls else 0.0):
            rule = "squares must add up to the square of the sum divided by the pulls, at least"
            raise self.impossible(stats, rule)

    def read_truth(self, value: object) -> Stats:
        numbers = numbers_of(value)
        if len(numbers) != 2 or not abs(numbers[0]) <= LARGEST_SUM or not 0.0 < numbers[1] < 1e100:
            rule = f"must be mean and sd of the outcomes, such as [0.5, 1.2] or 0.5+1.2{OF_SIZE}"
            raise InvalidArgument(f"{shown(value)} is not allowed; {rule}")
        return numbers


@dataclass(frozen=True)
class NormalGammaModel(SumModel):
    """Statistics: pulls, sum and sum of squares of the outcomes; parameters: mean and sd."""

    prior_mean: float
    mean_pulls: float
    shape: float
    rate: float

    word = "normal-gamma"
    format_class = NormalGammaFormat
    width = 3
    known_variance = False
    final_tests = ("posterior", "t", "welch")

    @property
    def prior_pulls(self) -> float:
        return self.mean_pulls

    def initial(self) -> Stats:
        return (0, 0.0, 0.0)

    def updated(self, stats: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return mean, pulls, shape and rate of the posterior, (...) each."""
        n, total, squares = (stats[..., i] for i in range(3))
        k = self.prior_pulls + n
        away = total - n * self.prior_mean  # squares around the prior mean: less rounding
        around = squares - self.prior_mean * (total + away)
        rate = self.rate + 0.5 * np.maximum(around - away**2 / k, 0.0)
        return self.prior_mean + away / k, k, self.shape + 0.5 * n, rate

    def mean(self, stats: Floats) -> Floats:
        return np.asarray(self.updated(stats)[0])

    def law(self, stats: Floats) -> tuple[Floats, Floats, Floats]:
        """Return location, scale and degrees of freedom of the t law of the mean, (...) each."""
        mean, k, shape, rate = self.updated(stats)
        return mean, np.sqrt(rate / (shape * k)), 2.0 * shape

    def sd(self, stats: Floats) -> Floats:
        """Half the central 68% of the posterior where the variance is infinite."""
        mean, scale, v = self.law(stats)
        with np.errstate(divide="ignore", invalid="ignore"):
            finite = scale * np.sqrt(v / (v - 2.0))
        return np.where(v > 2.0, finite, self.quantile(stats, CENTRAL) - mean)

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import stdtrit  # late: scipy takes half a second to load

        mean, scale, v = self.law(stats)
        return np.asarray(mean + scale * stdtrit(v, level))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import stdtr

        mean, scale, v = self.law(stats)
        return np.asarray(stdtr(v, (x - mean) / scale))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        """E(mean' - c)^+ = s ((v + z^2) / (v - 1) f(z) - z P(T > z)), z = (c - mean) / s."""
        from scipy.special import stdtr

        mean, k, shape, rate = self.updated(stats)
        s, v = np.sqrt(rate / (shape * k * (k + 1.0))), 2.0 * shape
        z = (c - mean) / s
        return np.asarray(s * ((v + z * z) / (v - 1.0) * _density(v, z) - z * stdtr(v, -z)))

    def law_knots(self, stats: Floats) -> list[Knots]:
        laws = [(m, s, _knots(float(v))) for m, s, v in zip(*self.law(stats), strict=True)]
        return [(mean + scale * x, f, slope / scale) for mean, scale, (x, f, slope) in laws]

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        after = super().update(stats, outcome)
        after[..., 2] += np.square(outcome)
        return after

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        mean, k, shape, rate = self.updated(stats)
        sd = np.sqrt(rate / np.maximum(rng.standard_gamma(shape), 1e-300))
        drawn = mean + sd / np.sqrt(k) * rng.standard_normal(mean.shape)
        return np.stack([drawn, sd], axis=-1)

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.standard_normal(parameters.shape[:-1])
        return np.asarray(parameters[..., 0] + parameters[..., 1] * drawn)

    def expected(self, stats: Floats, number: Ints) -> Floats:
        mean, _, shape, rate = self.updated(stats)
        squares = mean**2 + rate / shape  # keeps rate / shape as it is
        return np.asarray(stats + np.stack([number, number * mean, number * squares], axis=-1))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Quadrature over the variance and the mean of the outcomes; their spread as expected."""
        from scipy.special import gammaincinv, ndtr

        if count == 0:
            return np.ones((len(stats), 1)), stats[:, None, :]
        if most < NODES**2:
            return None
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        mean, k, shape, rate = (part[:, None, None] for part in self.updated(stats))
        variance = rate / np.maximum(gammaincinv(shape, ndtr(-nodes)[:, None]), 1e-300)
        average = mean + np.sqrt(variance * (1.0 / k + 1.0 / count)) * nodes
        squares = count * average**2 + (count - 1.0) * variance
        added = [np.full(average.shape, float(count)), count * average, squares]
        after = stats[:, None, :] + np.stack(added, axis=-1).reshape(len(stats), -1, 3)
        law = np.outer(weights, weights).ravel()
        return np.broadcast_to(law / law.sum(), after.shape[:-1]), after

    def posterior(self, stats: Floats) -> NormalGamma:
        return NormalGamma(*(float(part) for part in self.updated(stats)))

    def log_evidence(self, stats: Floats) -> Floats:
        from scipy.special import gammaln

        _, k, shape, rate = self.updated(stats)
        log = gammaln(shape) - gammaln(self.shape) + self.shape * math.log(self.rate)
        return np.asarray(log - shape * np.log(rate) + 0.5 * np.log(self.prior_pulls / k))


def _density(v: Any, t: Floats) -> Floats:
    """Return the density of the t law with v degrees of freedom."""
    from scipy.special import gammaln

    log = gammaln(0.5 * (v + 1.0)) - gammaln(0.5 * v) - 0.5 * np.log(np.pi * v)
    return np.asarray(np.exp(log - 0.5 * (v + 1.0) * np.log1p(t * t / v)))


@lru_cache(maxsize=4096)
def _knots(v: float) -> Knots:
    """Return knots of the t law, its distribution function and density there."""
    from scipy.special import ndtr, stdtrit

    low = stdtrit(v, ndtr(SCORES))
    x, f = np.concatenate([low, -low[-2::-1]]), ndtr(np.concatenate([SCORES, -SCORES[-2::-1]]))
    return x, f, _density(v, x)
