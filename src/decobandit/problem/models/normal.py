"""Normal outcomes with known noise, normal prior on their mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...support import Floats, InvalidArgument, refuse, shown
from ..fields import Number, PositiveNumber
from ..model_base import plain_init
from .base import LARGEST_SUM, OF_SIZE, PriorTable, Stats, SumFormat, SumModel, number_of

NODES = 16  # of a quadrature over pending outcomes
OUTLOOK = np.linspace(-6.0, 6.0, 33)  # next measurement, in standard deviations


class NormalNormal(PriorTable):
    """Normal prior on the mean of an arm's outcomes, which are normal with a known `noise_sd`.

    Parameters
    ----------
    mean, sd : float
        Of the arm's mean; the standard deviation is positive.

    Examples
    --------
    >>> from decobandit import Arm, NormalNormal
    >>> Arm(name="a", prior=NormalNormal(mean=0, sd=1), noise_sd=2).noise_sd
    2.0
    """

    arm_fields = frozenset({"noise_sd", "range"})

    kind: Literal["normal"] = "normal"
    mean: Number = Field(description="Expected mean of the outcomes.")
    sd: PositiveNumber = Field(description="Standard deviation of that mean.")

    @plain_init
    def __init__(self, mean: float, sd: float, *, kind: Any = "normal") -> None:
        super().__init__(kind=kind, mean=mean, sd=sd)

    def check_arm(self, arm: Any) -> None:
        if arm.noise_sd is None:
            refuse("must be given with a normal prior", found=None, at=("noise_sd",))

    def arm_model(self, arm: Any) -> NormalModel:
        return NormalModel(self.mean, self.sd, arm.noise_sd)

    def weighted(self, by: float) -> NormalNormal:
        return NormalNormal(mean=self.mean, sd=self.sd / math.sqrt(by))


@dataclass(frozen=True)
class NormalModel(SumModel):
    """Normal outcomes: the posterior of their mean is normal."""

    prior_mean: float
    prior_sd: float
    noise_sd: float

    word = "normal"

    @cached_property
    def format(self) -> NormalFormat:
        return NormalFormat(self)

    @property
    def prior_pulls(self) -> float:
        return (self.noise_sd / self.prior_sd) ** 2

    def mean(self, stats: Floats) -> Floats:
        k = self.prior_pulls
        return np.asarray((k * self.prior_mean + stats[..., 1]) / (k + stats[..., 0]))

    def sd(self, stats: Floats) -> Floats:
        return np.asarray(self.noise_sd / np.sqrt(self.prior_pulls + stats[..., 0]))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        from scipy.special import ndtr  # late: scipy takes half a second to load

        weight = self.prior_pulls + stats[..., 0]
        sd = self.noise_sd / np.sqrt(weight * (weight + 1.0))
        z = (c - self.mean(stats)) / sd
        return np.asarray(sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import ndtri

        return np.asarray(self.mean(stats) + ndtri(level) * self.sd(stats))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr((x - self.mean(stats)) / self.sd(stats)))

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.normal(self.mean(stats), self.sd(stats)))[..., None]

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        outcome = rng.standard_normal(parameters.shape[:-1])
        outcome *= self.noise_sd
        outcome += parameters[..., 0]
        return np.asarray(outcome)

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        """By the trapezoidal rule, which converges fast where an integrand is smooth."""
        weights = np.exp(-0.5 * OUTLOOK**2)
        spread = np.sqrt(self.noise_sd**2 + self.sd(stats) ** 2)
        outcomes = self.mean(stats)[..., None] + spread[..., None] * OUTLOOK
        probabilities = np.broadcast_to(weights / weights.sum(), outcomes.shape)
        return probabilities, self.after_sums(stats, 1, outcomes)

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Quadrature of Gauss and Hermite: the sum of the outcomes is normal."""
        if count == 0:
            return np.ones((len(stats), 1)), stats[:, None, :]
        if most < NODES:
            return None
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        spread = np.sqrt(count * self.noise_sd**2 + (count * self.sd(stats)) ** 2)
        sums = count * self.mean(stats)[:, None] + spread[:, None] * nodes
        chances = np.broadcast_to(weights / weights.sum(), sums.shape)
        return chances, self.after_sums(stats, count, sums)

    def kl_bound(self, n: Floats, mean: Floats, level: float) -> Floats | None:
        return np.asarray(mean + self.noise_sd * np.sqrt(2.0 * level / n))

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        total = rng.normal(number * parameters[..., 0], math.sqrt(number) * self.noise_sd)
        return self.after_sums(stats, number, np.asarray(total)[..., None])[..., 0, :]

    def posterior(self, stats: Floats) -> NormalNormal:
        return NormalNormal(mean=float(self.mean(stats)), sd=float(self.sd(stats)))

    def log_evidence(self, stats: Floats) -> Floats:
        k, n = self.prior_pulls, stats[..., 0]
        away = (stats[..., 1] - n * self.prior_mean) / self.noise_sd  # variance n + n^2/k
        some = np.maximum(n, 1.0)  # without outcomes nothing is away
        return np.asarray(-0.5 * (away**2 / (some * (1.0 + n / k)) + np.log1p(n / k)))


class NormalFormat(SumFormat[NormalModel]):
    """Outcomes are finite numbers."""

    example = "1.25/2"

    @property
    def outcomes(self) -> str:
        return f"measurements, noise sd {self.model.noise_sd:g}"

    def describe(self, stats: Stats) -> str:
        now = np.array(stats, dtype=float)
        return f"N({float(self.model.mean(now)):.4g}, sd {float(self.model.sd(now)):.4g})"

    def read_truth(self, value: object) -> Stats:
        mean = number_of(value)
        if not abs(mean) <= LARGEST_SUM:
            size = OF_SIZE if math.isfinite(mean) else ""
            rule = f"must be a finite number, the mean{size}"
            raise InvalidArgument(f"{shown(value)} is not allowed; {rule}")
        return (mean,)
