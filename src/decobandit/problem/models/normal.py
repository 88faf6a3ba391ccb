"""Normal outcomes with known noise, normal prior on their mean, which may do a random walk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...support import Floats, refuse
from ..fields import Number, PositiveNumber, plain_init
from .base import (
    LARGEST_SUM,
    ArmModel,
    Knots,
    OutcomesInOrder,
    PriorTable,
    Stats,
    SumFormat,
    SumModel,
)

NODES = 16  # of a quadrature over pending outcomes
SCORES = np.linspace(-8.0, 8.0, 97)  # knots of the law of the mean, in standard deviations
OUTLOOK = np.linspace(-6.0, 6.0, 33)  # next measurement, in standard deviations


class NormalNormal(PriorTable):
    """Normal prior on the mean of an arm's outcomes, which are normal with a known `noise_sd`.

    Examples
    --------
    >>> from decobandit import Arm, NormalNormal
    >>> Arm(name="a", prior=NormalNormal(mean=0, sd=1), noise_sd=2).noise_sd
    2.0
    """

    arm_fields = frozenset({"noise_sd", "drift_sd", "range"})

    kind: Literal["normal"] = "normal"
    mean: Number = Field(description="Expected mean of the outcomes.")
    sd: PositiveNumber = Field(description="Standard deviation of that mean.")

    @plain_init
    def __init__(self, mean: float, sd: float, *, kind: Any = "normal") -> None:
        super().__init__(kind=kind, mean=mean, sd=sd)

    def check_arm(self, arm: Any) -> None:
        if arm.noise_sd is None:
            refuse("must be given with a normal prior", found=None, at=("noise_sd",))

    def arm_model(self, arm: Any) -> ArmModel:
        if arm.drift_sd:
            return DriftModel(self.mean, self.sd, arm.noise_sd, arm.drift_sd)
        return NormalModel(self.mean, self.sd, arm.noise_sd)

    def weighted(self, by: float) -> NormalNormal:
        return NormalNormal(self.mean, self.sd / math.sqrt(by))


def normal_excess(c: Floats, sd: float | Floats) -> Floats:
    """E(X - c)^+ of X ~ N(0, sd^2)."""
    from scipy.special import ndtr  # late: scipy takes half a second to load

    z = c / sd
    return np.asarray(sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)))


class NormalMean(ArmModel):
    """Normal outcomes around a mean whose law, `mean` and `sd` of the statistics, is normal."""

    noise_sd: float

    def step_sd(self, sd: Floats) -> Floats:
        """Return the standard deviation of the change of the posterior mean by a pull, (...)."""
        return np.asarray(sd**2 / np.sqrt(sd**2 + self.noise_sd**2))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        return normal_excess(c - self.mean(stats), self.step_sd(self.sd(stats)))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import ndtri

        return np.asarray(self.mean(stats) + ndtri(level) * self.sd(stats))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr((x - self.mean(stats)) / self.sd(stats)))

    def law_knots(self, stats: Floats) -> list[Knots]:
        from scipy.special import ndtr

        f, density = ndtr(SCORES), np.exp(-0.5 * SCORES**2) / np.sqrt(2.0 * np.pi)
        pairs = zip(self.mean(stats), self.sd(stats), strict=True)
        return [(mean + sd * SCORES, f, density / sd) for mean, sd in pairs]

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
        before = np.broadcast_to(stats[..., None, :], (*outcomes.shape, stats.shape[-1]))
        return probabilities, self.update(before, outcomes)

    def posterior(self, stats: Floats) -> NormalNormal:
        return NormalNormal(float(self.mean(stats)), float(self.sd(stats)))


class NormalFormat(SumFormat[Any]):
    """Outcomes are finite numbers."""

    example = "1.25/2"

    def __init__(self, model: NormalMean) -> None:
        super().__init__(model)
        self.outcomes = f"measurements, noise sd {model.noise_sd:g}"

    def describe(self, stats: Stats) -> str:
        now = np.array(stats, dtype=float)
        return f"N({float(self.model.mean(now)):.4g}, sd {float(self.model.sd(now)):.4g})"


@dataclass(frozen=True)
class NormalModel(NormalMean, SumModel):
    """A mean that stays: statistics are pulls and the sum of the outcomes."""

    prior_mean: float
    prior_sd: float
    noise_sd: float

    word = "normal"
    format_class = NormalFormat
    final_tests = ("posterior", "z")

    @property
    def prior_pulls(self) -> float:
        return (self.noise_sd / self.prior_sd) ** 2

    def mean(self, stats: Floats) -> Floats:
        k = self.prior_pulls
        return np.asarray((k * self.prior_mean + stats[..., 1]) / (k + stats[..., 0]))

    def sd(self, stats: Floats) -> Floats:
        return np.asarray(self.noise_sd / np.sqrt(self.prior_pulls + stats[..., 0]))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Quadrature of Gauss and Hermite: the sum of the outcomes is normal."""
        if count == 0:
            return np.ones((len(stats), 1)), stats[:, None, :]
        if most < NODES:
            return None
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        spread = np.sqrt(count * self.noise_sd**2 + (count * self.sd(stats)) ** 2)
        sums = count * self.mean(stats)[:, None] + spread[:, None] * nodes
        probabilities = np.broadcast_to(weights / weights.sum(), sums.shape)
        return probabilities, self.after_sums(stats, count, sums)

    def kl_bound(self, n: Floats, mean: Floats, level: float) -> Floats | None:
        return np.asarray(mean + self.noise_sd * np.sqrt(2.0 * level / n))

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        total = rng.normal(number * parameters[..., 0], math.sqrt(number) * self.noise_sd)
        return self.after_sums(stats, number, np.asarray(total)[..., None])[..., 0, :]

    def log_evidence(self, stats: Floats) -> Floats:
        k, n = self.prior_pulls, stats[..., 0]
        away = (stats[..., 1] - n * self.prior_mean) / self.noise_sd  # variance n + n^2/k
        some = np.maximum(n, 1.0)  # without outcomes nothing is away
        return np.asarray(-0.5 * (away**2 / (some * (1.0 + n / k)) + np.log1p(n / k)))


class DriftFormat(OutcomesInOrder[Any], NormalFormat):
    """Statistics are written mean~sd/pulls; a tally is the outcomes in the order of the pulls.

    The truth is the mean of the first stage.
    """

    form = "mean~sd/pulls"
    example = "0.4~0.2/3"

    def __init__(self, model: DriftModel) -> None:
        super().__init__(model)
        self.outcomes += f", drift sd {model.drift_sd:g}"

    def check(self, stats: Stats) -> None:
        pulls, mean, sd = stats
        if pulls < 0 or not abs(mean) <= LARGEST_SUM or not 0.0 < sd <= LARGEST_SUM:
            raise self.impossible(
                stats, "must be a finite mean, a positive sd, and pulls zero or more"
            )


@dataclass(frozen=True)
class DriftModel(NormalMean):
    """A mean that does a random walk: statistics are pulls, mean and sd of it now.

    A pull at a stage measures the mean of that stage; then the means of all arms take a step. With
    v = sd^2 and q = drift_sd^2 (Kalman's filter):

        pull    mean <- mean + v / (v + noise^2) (outcome - mean),  v <- v noise^2 / (v + noise^2)
        then    v <- v + q                        of an arm that is not pulled: this alone
    """

    prior_mean: float
    prior_sd: float
    noise_sd: float
    drift_sd: float

    word = "drifting"
    format_class = DriftFormat
    finite = False
    ordered = True
    restless = True
    width = 3

    def initial(self) -> Stats:
        return (0, self.prior_mean, self.prior_sd)

    def mean(self, stats: Floats) -> Floats:
        return stats[..., 1]

    def sd(self, stats: Floats) -> Floats:
        return stats[..., 2]

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        v, noise = stats[..., 2] ** 2, self.noise_sd**2
        mean = stats[..., 1] + v / (v + noise) * (outcome - stats[..., 1])
        sd = np.sqrt(v * noise / (v + noise) + self.drift_sd**2)
        return np.stack(np.broadcast_arrays(stats[..., 0] + 1.0, mean, sd), axis=-1)

    def rested(self, drawn: Floats, stats: Floats) -> Floats:
        after = np.array(stats, dtype=float)
        after[..., 2] = np.sqrt(stats[..., 2] ** 2 + self.drift_sd**2)
        return after

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        """Return the outcome of a pull at every stage, around a mean that walks."""
        outcomes, mean = [], parameters[..., 0]
        for _ in range(pulls):
            outcomes.append(rng.normal(mean, self.noise_sd))
            mean = rng.normal(mean, self.drift_sd)
        return np.stack(outcomes, axis=-1)
