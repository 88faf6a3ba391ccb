"""Outcomes of several classes, Dirichlet prior."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ...support import Floats, Ints, InvalidArgument, refuse, shown
from ..fields import FirstError, PriorWeight, plain_init
from .base import ArmModel, Outcome, PriorTable, Stats, WholeNumbers, numbers_of, shared_out

MOST_CLASSES = 20
SUM_TOLERANCE = 1e-9  # of probabilities that are to sum to 1
_COUNTS = re.compile(r"\s*[0-9]{1,9}(\s*\+\s*[0-9]{1,9})*\s*")


class DirichletCategorical(PriorTable):
    """Dirichlet prior on the probabilities of classes, with one pseudo-count per class.

    Examples
    --------
    >>> from decobandit import Arm, DirichletCategorical, Reward
    >>> arm = Arm(name="a", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3]))
    >>> arm.prior.counts
    (1.0, 1.0, 1.0)
    """

    arm_fields = frozenset({"values"})

    kind: Literal["categorical"] = "categorical"
    counts: Annotated[tuple[PriorWeight, ...], FirstError()] = Field(
        description="Pseudo-counts of the classes, 1e-12 or more; at least two.",
        json_schema_extra={"minItems": 2, "maxItems": MOST_CLASSES},
    )

    @plain_init
    def __init__(self, counts: Any, *, kind: Any = "categorical") -> None:
        super().__init__(kind=kind, counts=counts)

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if not 2 <= len(self.counts) <= MOST_CLASSES:
            rule = f"must be 2 to {MOST_CLASSES} pseudo-counts"
            refuse(rule, found=self.counts, at=("counts",))
        return self

    def check_arm(self, arm: Any) -> None:
        values = arm.reward.values
        if values is None or len(values) != len(self.counts):
            rule = f"must be {len(self.counts)} numbers, the value of each class of the prior"
            refuse(rule, found=values, at=("reward", "values"))

    def arm_model(self, arm: Any) -> CategoricalModel:
        return CategoricalModel(self.counts, arm.reward.values)

    def weighted(self, by: float) -> DirichletCategorical:
        return DirichletCategorical([by * count for count in self.counts])

    def uniform(self) -> DirichletCategorical:
        return DirichletCategorical([1.0] * len(self.counts))


class CategoricalFormat(WholeNumbers[Any]):
    """Statistics are written as counts joined by +."""

    def __init__(self, model: CategoricalModel) -> None:
        super().__init__(model)
        self.outcomes = f"classes worth {', '.join(f'{value:g}' for value in model.values)}"
        self.most = model.width - 1
        self.rule = f"the number of a class, 0 to {self.most}"
        self.choices = tuple(map(str, range(model.width)))
        self._example = "+".join(self.choices)

    def describe(self, stats: Stats) -> str:
        counts = (f"{a + n:g}" for a, n in zip(self.model.counts, stats, strict=True))
        return f"Dirichlet({', '.join(counts)})"

    def write(self, stats: Stats) -> str:
        return "+".join(str(int(count)) for count in stats)

    def read(self, text: str) -> Stats:
        counts, classes = text.split("+"), self.model.width
        if not _COUNTS.fullmatch(text) or len(counts) != classes:
            rule = f"must be {classes} counts, for example {self._example}"
            raise InvalidArgument(f"{text!r}; {rule}")
        return tuple(map(int, counts))

    def check(self, stats: Stats) -> None:
        if min(stats) < 0:
            raise self.impossible(stats, "counts cannot be negative")

    def read_truth(self, value: object) -> Stats:
        probabilities, classes = numbers_of(value), self.model.width
        possible = len(probabilities) == classes and min(probabilities) >= 0.0
        if not possible or not abs(sum(probabilities) - 1.0) <= SUM_TOLERANCE:
            rule = f"must be {classes} probabilities that sum to 1"
            raise InvalidArgument(f"{shown(value)} is not allowed; {rule}")
        return probabilities

    def sole(self, tally: Stats) -> Outcome:
        return tally.index(1)

    @property
    def tally_form(self) -> tuple[str, str]:
        return f"{self.model.width} counts, one of each class, such as {self._example}", "+"


@dataclass(frozen=True)
class CategoricalModel(ArmModel):
    """Statistics: a count of each of L classes. An outcome: 0 .. L-1."""

    counts: tuple[float, ...]
    values: tuple[float, ...]

    word = "categorical"
    format_class = CategoricalFormat
    finite = True
    counts_outcomes = True
    quantiles_searched = True

    @property
    def width(self) -> int:
        return len(self.counts)

    @property
    def mean_range(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

    @property
    def prior_pulls(self) -> float:
        return sum(self.counts)

    def states(self, pulls: int) -> float:
        return float(comb(pulls + self.width - 1, self.width - 1))

    def initial(self) -> Stats:
        return (0,) * self.width

    def probabilities(self, stats: Floats) -> Floats:
        """Probability of each class for the next outcome, (..., L)."""
        weight = np.array(self.counts) + stats
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))

    def mean(self, stats: Floats) -> Floats:
        return np.asarray(self.probabilities(stats) @ np.array(self.values))

    def sd(self, stats: Floats) -> Floats:
        away = np.array(self.values) - self.mean(stats)[..., None]
        spread = (self.probabilities(stats) * away**2).sum(axis=-1)
        return np.asarray(np.sqrt(spread / (sum(self.counts) + self.pulls(stats) + 1.0)))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        probabilities, weight = self.probabilities(stats), sum(self.counts) + self.pulls(stats)
        total = weight * (probabilities @ np.array(self.values))
        excess = np.zeros_like(weight)
        for j, value in enumerate(self.values):
            excess += probabilities[..., j] * np.maximum((total + value) / (weight + 1.0) - c, 0.0)
        return np.asarray(excess)

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from ..kernels.dirichlet import dirichlet_mean_cdf  # late: loads the compiler

        return self._of_law(dirichlet_mean_cdf, stats, x)

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from ..kernels.dirichlet import dirichlet_mean_quantile

        return self._of_law(dirichlet_mean_quantile, stats, level)

    def _of_law(
        self,
        law: Callable[[Floats, Floats, Floats, Floats], None],
        stats: Floats,
        numbers: float | Floats,
    ) -> Floats:
        """Apply a function of the Dirichlet weights and a number, (...)."""
        shape = np.broadcast_shapes(stats.shape[:-1], np.shape(numbers))
        weights = np.broadcast_to(np.array(self.counts) + stats, (*shape, self.width))
        points = np.array(np.broadcast_to(numbers, shape), dtype=float, order="C").reshape(-1, 1)
        result = np.empty(points.shape)
        flat = np.array(weights, order="C").reshape(-1, self.width)
        law(flat, np.array(self.values, dtype=float), points, result)
        return result.reshape(shape)

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        return np.asarray(stats + (np.arange(self.width) == outcome[..., None]))

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.standard_gamma(np.array(self.counts) + stats)
        # all gammas of tiny pseudo-counts may be zero: given that, their logarithms are minus
        # exponential times of these rates, thousands apart, so that the first class is sure
        lost = ~drawn.any(axis=-1)
        times = rng.standard_exponential((int(lost.sum()), self.width)) / np.array(self.counts)
        drawn[lost] = np.eye(self.width)[times.argmin(axis=-1)]
        return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))

    def mean_at(self, parameters: Floats) -> Floats:
        return np.asarray(parameters @ np.array(self.values))

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        u = rng.random(parameters.shape[:-1])
        picked, below = np.zeros(u.shape), np.zeros(u.shape)
        for j in range(self.width - 1):
            below += parameters[..., j]
            picked += u >= below
        return picked

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return np.asarray(np.array(self.values)[outcome.astype(np.int64)])

    def total(self, stats: Floats) -> Floats:
        return np.asarray(stats @ np.array(self.values))

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        known = self.probabilities(stats) if truth is None else truth
        probabilities = np.broadcast_to(known, stats.shape)
        return probabilities, np.asarray(stats[..., None, :] + np.eye(self.width))

    def expected(self, stats: Floats, number: Ints) -> Floats:
        return np.asarray(stats + shared_out(np.array(self.counts) + stats, number))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Return the Dirichlet-multinomial distribution of future counts."""
        from scipy.special import gammaln

        if comb(count + self.width - 1, count) > most:
            return None
        more, alpha = compositions(count, self.width), (np.array(self.counts) + stats)[:, None, :]
        logs = (gammaln(alpha + more) - gammaln(alpha) - gammaln(more + 1.0)).sum(axis=-1)
        probabilities = np.exp(logs - logs.max(axis=1, keepdims=True))
        return probabilities / probabilities.sum(axis=1, keepdims=True), stats[:, None, :] + more

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        probabilities = parameters / parameters.sum(axis=-1, keepdims=True)
        return np.asarray(stats + rng.multinomial(number, probabilities))

    def posterior(self, stats: Floats) -> DirichletCategorical:
        return DirichletCategorical((np.array(self.counts) + stats).tolist())

    def log_evidence(self, stats: Floats) -> Floats:
        from scipy.special import gammaln

        before = np.array(self.counts)
        classes = np.sum(gammaln(before + stats) - gammaln(before), axis=-1)
        total = before.sum()
        return np.asarray(classes - gammaln(total + stats.sum(axis=-1)) + gammaln(total))


@lru_cache(maxsize=64)
def compositions(count: int, classes: int) -> Floats:
    """Return all ways to divide `count` outcomes among classes, (J, classes)."""
    bars = np.array(list(combinations(range(count + classes - 1), classes - 1)), dtype=float)
    bars = bars.reshape(-1, classes - 1)
    ends = np.full((len(bars), 1), float(count + classes - 1))
    ways = np.diff(np.hstack([-np.ones((len(bars), 1)), bars, ends]), axis=1) - 1.0
    ways.flags.writeable = False
    return ways
