"""Outcomes of classes: good and bad (a beta prior), or several (a Dirichlet prior)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from ...support import Floats, int_from, shown
from ..priors import SUM_TOLERANCE
from .base import ArmModel, Outcome, Stats, is_whole, number_of

_GOOD_OF_PULLS = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")
_COUNTS = re.compile(r"\s*[0-9]{1,9}(\s*\+\s*[0-9]{1,9})*\s*")
_OUTCOMES = {
    **dict.fromkeys(("good", "1", "true", "success", "yes"), 1.0),
    **dict.fromkeys(("bad", "0", "false", "failure", "no"), 0.0),
}


@dataclass(frozen=True)
class Binary(ArmModel):
    """Good and bad outcomes, beta prior. Statistics: good, bad. An outcome: 1 or 0."""

    good: float
    bad: float

    word = "good-or-bad"
    finite = True
    counts_good = True
    width = 2

    def states(self, pulls: int) -> float:
        return pulls + 1.0

    def initial(self) -> Stats:
        return (0, 0)

    def pulls(self, stats: Floats) -> Floats:
        return np.asarray(stats[..., 0] + stats[..., 1])

    def mean(self, stats: Floats) -> Floats:
        a, b = self.good + stats[..., 0], self.bad + stats[..., 1]
        return np.asarray(a / (a + b))

    def sd(self, stats: Floats) -> Floats:
        p, weight = self.mean(stats), self.good + self.bad + self.pulls(stats)
        return np.sqrt(p * (1.0 - p) / (weight + 1.0))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        p, weight = self.mean(stats), self.good + self.bad + self.pulls(stats)
        up, down = ((weight * p + x) / (weight + 1.0) - c for x in (1.0, 0.0))
        return np.asarray(p * np.maximum(up, 0.0) + (1.0 - p) * np.maximum(down, 0.0))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import betaincinv  # late: scipy takes half a second to load

        return np.asarray(betaincinv(self.good + stats[..., 0], self.bad + stats[..., 1], level))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import betainc

        a, b = self.good + stats[..., 0], self.bad + stats[..., 1]
        return np.asarray(betainc(a, b, np.clip(x, 0.0, 1.0)))

    @property
    def mean_range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        found = np.array(stats, dtype=float)
        found[..., 0] += outcome
        found[..., 1] += 1.0 - outcome
        return found

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.beta(self.good + stats[..., 0], self.bad + stats[..., 1]))[..., None]

    def mean_at(self, parameters: Floats) -> Floats:
        return parameters[..., 0]

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.random(parameters.shape[:-1]) < parameters[..., 0], dtype=float)

    def following(self, stats: Stats, parameters: Stats | None = None) -> list[tuple[float, Stats]]:
        good, bad = stats
        p = (self.good + good) / (self.good + self.bad + good + bad)
        p = p if parameters is None else parameters[0]
        return [(1.0 - p, (good, bad + 1)), (p, (good + 1, bad))]

    def outlook(self, stats: Floats) -> tuple[Floats, Floats]:
        p = self.mean(stats)
        return np.stack([1.0 - p, p], axis=-1), _one_more(stats, self.width)[..., ::-1, :]

    def read_truth(self, given: object) -> Stats:
        p = number_of(given)
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{shown(given)} is not allowed; must be between 0 and 1")
        return (p,)

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return outcome

    def total(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def describe(self, stats: Stats) -> str:
        return f"Beta({self.good + stats[0]:g}, {self.bad + stats[1]:g})"

    def write(self, stats: Stats) -> str:
        return f"{int(stats[0])}/{int(stats[0] + stats[1])}"

    def read(self, text: str) -> Stats:
        match = _GOOD_OF_PULLS.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r}; must be good/pulls, for example 3/5")
        good, pulls = map(int, match.groups())
        if good > pulls:
            raise ValueError(f"{good} good of {pulls} pulls; good cannot exceed pulls")
        return (good, pulls - good)

    def check(self, stats: Stats) -> None:
        if min(stats) < 0:
            raise ValueError(f"{self.write(stats)}; counts cannot be negative")

    def read_outcome(self, text: object, stats: Stats) -> float:
        found = _OUTCOMES.get(str(text).strip().lower())
        if found is None:
            raise ValueError(f"outcome {text!r}; must be good, bad, 1 or 0")
        return found

    def plain(self, given: object) -> Outcome:
        if given in ("good", "bad"):
            return int(given == "good")
        if not isinstance(given, bool | np.bool_ | int | np.integer) or given not in (0, 1):
            word = isinstance(given, str) and given.strip().lower() in _OUTCOMES
            text = ", as a number, not as text" if word else ""
            raise ValueError(f"outcome {given!r}; must be good, bad, 1 or 0{text}")
        return int(given)

    def named(self, outcome: Outcome) -> str:
        return "good" if outcome else "bad"

    @property
    def choices(self) -> tuple[str, ...]:
        return ("good", "bad")

    def traced(self, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
        read = np.array([self.read_outcome(each, ()) for each in outcomes]).reshape(-1)
        counts = np.cumsum(np.stack([read, 1.0 - read], axis=1), axis=0)
        return read, np.concatenate([np.zeros((1, 2)), counts])

    def ahead(self, stats: Stats, count: int, most: int) -> tuple[Floats, Floats] | None:
        if count == 0:
            return np.ones(1), np.array([stats], dtype=float)
        if count >= most:
            return None
        good, bad = stats
        j = np.arange(count + 1.0)
        states = np.stack([good + j, bad + count - j], axis=1)
        return beta_binomial(self.good + good, self.bad + bad, count), states

    def drawn_ahead(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        good, bad = stats
        better = int(rng.binomial(count, rng.beta(self.good + good, self.bad + bad)))
        return (good + better, bad + count - better)

    @property
    def outcomes(self) -> str:
        return "good or bad"

    @property
    def tally_form(self) -> tuple[str, str]:
        return "good/pulls", "/"

    @property
    def prior_pulls(self) -> float:
        return self.good + self.bad


def beta_binomial(a: float, b: float, count: int) -> Floats:
    """Probabilities of j = 0..count good ones among `count` outcomes, given Beta(a, b)."""
    if count == 0:
        return np.ones(1)
    j = np.arange(count)
    # each from the one before: sums of logarithms neither underflow nor cancel
    ratios = (count - j) * (a + j) / ((j + 1.0) * (b + count - 1.0 - j))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def _one_more(stats: Floats, classes: int) -> Floats:
    """Counts with one more of each class, (..., classes, classes)."""
    return np.asarray(stats[..., None, :] + np.eye(classes))


@dataclass(frozen=True)
class Classes(ArmModel):
    """Outcomes of L classes, Dirichlet prior. Statistics: a count each. An outcome: 0 .. L-1."""

    counts: tuple[float, ...]
    values: tuple[float, ...]

    word = "categorical"
    finite = True
    quantiles_searched = True

    @property
    def width(self) -> int:
        return len(self.counts)

    def states(self, pulls: int) -> float:
        return float(comb(pulls + self.width - 1, self.width - 1))

    def initial(self) -> Stats:
        return (0,) * self.width

    def pulls(self, stats: Floats) -> Floats:
        # classes are few: column by column is faster than along rows
        return np.asarray(sum(stats[..., j] for j in range(1, self.width)) + stats[..., 0])

    def chances(self, stats: Floats) -> Floats:
        """Of each class for the next outcome, (..., L)."""
        weight = np.array(self.counts) + stats
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))

    def mean(self, stats: Floats) -> Floats:
        return np.asarray(self.chances(stats) @ np.array(self.values))

    def sd(self, stats: Floats) -> Floats:
        away = np.array(self.values) - self.mean(stats)[..., None]
        spread = (self.chances(stats) * away**2).sum(axis=-1)
        return np.asarray(np.sqrt(spread / (sum(self.counts) + self.pulls(stats) + 1.0)))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        chances, weight = self.chances(stats), sum(self.counts) + self.pulls(stats)
        total = weight * (chances @ np.array(self.values))
        found = np.zeros_like(weight)
        for j, value in enumerate(self.values):
            found += chances[..., j] * np.maximum((total + value) / (weight + 1.0) - c, 0.0)
        return np.asarray(found)

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
        given: float | Floats,
    ) -> Floats:
        """A function of the Dirichlet weights and a number each, (...)."""
        shape = np.broadcast_shapes(stats.shape[:-1], np.shape(given))
        weights = np.broadcast_to(np.array(self.counts) + stats, (*shape, self.width))
        points = np.array(np.broadcast_to(given, shape), dtype=float, order="C").reshape(-1, 1)
        found = np.empty(points.shape)
        flat = np.array(weights, order="C").reshape(-1, self.width)
        law(flat, np.array(self.values, dtype=float), points, found)
        return found.reshape(shape)

    @property
    def mean_range(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

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

    def outlook(self, stats: Floats) -> tuple[Floats, Floats]:
        return self.chances(stats), _one_more(stats, self.width)

    def read_truth(self, given: object) -> Stats:
        parts = given.split("+") if isinstance(given, str) else given
        chances = tuple(map(number_of, parts)) if isinstance(parts, list | tuple) else ()
        possible = len(chances) == self.width and all(chance >= 0.0 for chance in chances)
        if not possible or not abs(sum(chances) - 1.0) <= SUM_TOLERANCE:
            raise ValueError(
                f"{shown(given)} is not allowed; must be {self.width} chances that sum to 1"
            )
        return chances

    def following(self, stats: Stats, parameters: Stats | None = None) -> list[tuple[float, Stats]]:
        chances = self.chances(np.array(stats, dtype=float)) if parameters is None else parameters
        return [
            (float(chance), tuple(n + (i == j) for i, n in enumerate(stats)))
            for j, chance in enumerate(chances)
        ]

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return np.asarray(np.array(self.values)[outcome.astype(np.int64)])

    def total(self, stats: Floats) -> Floats:
        return np.asarray(stats @ np.array(self.values))

    def describe(self, stats: Stats) -> str:
        known = (f"{a + n:g}" for a, n in zip(self.counts, stats, strict=True))
        return f"Dirichlet({', '.join(known)})"

    def write(self, stats: Stats) -> str:
        return "+".join(str(int(count)) for count in stats)

    def read(self, text: str) -> Stats:
        counts = text.split("+")
        if not _COUNTS.fullmatch(text) or len(counts) != self.width:
            raise ValueError(f"{text!r}; must be {self.width} counts, for example {self._example}")
        return tuple(int(count) for count in counts)

    @property
    def _example(self) -> str:
        return "+".join(map(str, range(self.width)))

    def check(self, stats: Stats) -> None:
        if min(stats) < 0:
            raise ValueError(f"{self.write(stats)}; counts cannot be negative")

    def read_outcome(self, text: object, stats: Stats) -> float:
        try:
            outcome = int_from(str(text))
        except ValueError:
            outcome = -1
        if not 0 <= outcome < self.width:
            raise self._no_outcome(text)
        return float(outcome)

    def plain(self, given: object) -> Outcome:
        if not is_whole(given):
            raise self._no_outcome(given)
        return int(self.read_outcome(given, ()))

    def _no_outcome(self, given: object) -> ValueError:
        rule = f"must be the number of a class, 0 to {self.width - 1}"
        return ValueError(f"outcome {shown(given)}; {rule}")

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.width)))

    def traced(self, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
        read = np.array([self.read_outcome(each, ()) for each in outcomes]).reshape(-1)
        counts = np.cumsum(read[:, None] == np.arange(self.width), axis=0)
        return read, np.concatenate([np.zeros((1, self.width)), counts])

    def sole(self, tally: Stats) -> Outcome:
        return tally.index(1)

    @property
    def outcomes(self) -> str:
        return f"classes worth {', '.join(f'{value:g}' for value in self.values)}"

    @property
    def tally_form(self) -> tuple[str, str]:
        return f"{self.width} counts, one of each class, such as {self._example}", "+"

    def drawn_together(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        chances = self.sample(np.array(stats, dtype=float), rng)
        drawn = rng.multinomial(count, chances / chances.sum()).tolist()
        return self.joined(stats, tuple(map(float, drawn)))

    @property
    def prior_pulls(self) -> float:
        return sum(self.counts)
