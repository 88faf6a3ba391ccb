"""Outcomes that are numbers of which only pulls and sum matter: measurements and counts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...support import Floats, float_from, int_from, shown
from .base import ArmModel, Outcome, Stats, is_whole, number_of, whole

NODES = 16  # of a quadrature over pending outcomes
OUTLOOK = np.linspace(-6.0, 6.0, 33)  # deviations of the next measurement
MOST_COUNTS = 64  # that are told apart in an outlook
TAIL = 1e-9  # chance of counts beyond them
FAINT = 1e-12  # chance of all counts that are left out
LARGEST_COUNT = 2**53  # the next one is no number of its own any more
LARGEST_SUM = 1e100  # in size: what is computed from it, squares among it, is a number
_OF_SIZE = f", at most {LARGEST_SUM:g} in size: sums of squares would overflow"
_PULLS = re.compile(r"\s*[0-9]{1,9}\s*")


class Summed(ArmModel):
    """Statistics: pulls, sum of the outcomes. Written sum/pulls."""

    width = 2
    finite = False

    def initial(self) -> Stats:
        return (0, 0.0)

    def pulls(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        found = np.array(stats, dtype=float)
        found[..., 0] += 1.0
        found[..., 1] += outcome
        return found

    def mean_at(self, parameters: Floats) -> Floats:
        return parameters[..., 0]

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return outcome

    def total(self, stats: Floats) -> Floats:
        return stats[..., 1]

    def write(self, stats: Stats) -> str:
        return f"{whole(stats[1])}/{int(stats[0])}"

    def read(self, text: str) -> Stats:
        total, slash, pulls = text.partition("/")
        try:
            if not slash or not _PULLS.fullmatch(pulls):
                raise ValueError
            stats = (int(pulls), float_from(total))
        except ValueError:
            raise ValueError(f"{text!r}; must be sum/pulls, for example {self.example}") from None
        self.check(stats)
        return stats

    @property
    def example(self) -> str:
        """A state as text."""
        return "4/2"

    def check(self, stats: Stats) -> None:
        pulls, total = stats
        if pulls < 0 or not math.isfinite(total):
            raise ValueError(f"{self.write(stats)}; must be a finite sum, and pulls zero or more")
        if pulls == 0 and total != 0:
            raise ValueError(f"{self.write(stats)}; without pulls the sum is 0")
        if abs(total) > LARGEST_SUM:
            raise ValueError(f"{self.write(stats)}; the sum must be a number{_OF_SIZE}")

    def traced(self, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
        read = np.array([self.read_outcome(each, ()) for each in outcomes]).reshape(-1)
        sums = np.concatenate([[0.0], np.cumsum(read)])
        return read, np.stack([np.arange(len(sums), dtype=float), sums], axis=1)


@dataclass(frozen=True)
class Measured(Summed):
    """Normal outcomes of known noise, normal prior on their mean."""

    prior_mean: float
    prior_sd: float
    noise_sd: float

    word = "normal"

    @property
    def example(self) -> str:
        return "1.25/2"

    @property
    def pulls_of_prior(self) -> float:
        """How many pulls the prior is worth."""
        return (self.noise_sd / self.prior_sd) ** 2

    def mean(self, stats: Floats) -> Floats:
        k = self.pulls_of_prior
        return np.asarray((k * self.prior_mean + stats[..., 1]) / (k + stats[..., 0]))

    def sd(self, stats: Floats) -> Floats:
        return np.asarray(self.noise_sd / np.sqrt(self.pulls_of_prior + stats[..., 0]))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        from scipy.special import ndtr  # late: scipy takes half a second to load

        weight = self.pulls_of_prior + stats[..., 0]
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
        found = rng.standard_normal(parameters.shape[:-1])
        found *= self.noise_sd
        found += parameters[..., 0]
        return np.asarray(found)

    def describe(self, stats: Stats) -> str:
        known = np.array(stats, dtype=float)
        return f"N({float(self.mean(known)):.4g}, sd {float(self.sd(known)):.4g})"

    def read_outcome(self, text: object, stats: Stats) -> float:
        outcome = number_of(text)
        if not abs(outcome) <= LARGEST_SUM:
            size = _OF_SIZE if math.isfinite(outcome) else ""
            raise _no_outcome(text, f"a finite number{size}")
        return outcome

    def read_truth(self, given: object) -> Stats:
        mean = number_of(given)
        if not abs(mean) <= LARGEST_SUM:
            size = _OF_SIZE if math.isfinite(mean) else ""
            raise ValueError(
                f"{shown(given)} is not allowed; must be a finite number, the mean{size}"
            )
        return (mean,)

    def plain(self, given: object) -> Outcome:
        if not isinstance(given, float | np.floating) and not is_whole(given):
            raise _no_outcome(given, "a finite number")
        return self.read_outcome(given, ())

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return outcome

    def typed(self, text: str) -> Outcome:
        return self.read_outcome(text, ())

    def ahead(self, stats: Stats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """By Gauss and Hermite: the sum of the outcomes is normal."""
        if count == 0:
            return np.ones(1), np.array([stats], dtype=float)
        if most < NODES:
            return None
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        known = np.array(stats, dtype=float)
        spread = math.sqrt(count * self.noise_sd**2 + (count * float(self.sd(known))) ** 2)
        sums = stats[1] + count * float(self.mean(known)) + spread * nodes
        states = np.stack([np.full(NODES, stats[0] + count), sums], axis=1)
        return np.asarray(weights / weights.sum()), states

    def outlook(self, stats: Floats) -> tuple[Floats, Floats]:
        """By the trapezoidal rule, which converges fast where an integrand is smooth."""
        chances = np.exp(-0.5 * OUTLOOK**2)
        spread = np.sqrt(self.noise_sd**2 + self.sd(stats) ** 2)
        outcomes = self.mean(stats)[..., None] + spread[..., None] * OUTLOOK
        shares = np.broadcast_to(chances / chances.sum(), outcomes.shape)
        return shares, _after_each(self, stats, outcomes)

    @property
    def outcomes(self) -> str:
        return f"measurements, noise sd {self.noise_sd:g}"

    def drawn_together(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        mean = float(self.sample(np.array(stats, dtype=float), rng)[0])
        total = rng.normal(count * mean, math.sqrt(count) * self.noise_sd)
        return self.joined(stats, (count, float(total)))

    @property
    def prior_pulls(self) -> float:
        return self.pulls_of_prior


@dataclass(frozen=True)
class Counted(Summed):
    """Poisson counts, gamma prior on their mean."""

    shape: float
    rate: float

    word = "count"
    whole = True
    mean_range = 0.0, math.inf

    def mean(self, stats: Floats) -> Floats:
        return np.asarray((self.shape + stats[..., 1]) / (self.rate + stats[..., 0]))

    def sd(self, stats: Floats) -> Floats:
        return np.sqrt(self.shape + stats[..., 1]) / (self.rate + stats[..., 0])

    def excess(self, stats: Floats, c: Floats) -> Floats:
        from scipy.stats import nbinom  # late: scipy takes half a second to load

        r, weight = self.shape + stats[..., 1], self.rate + stats[..., 0]
        chance = weight / (weight + 1.0)
        k = c * (weight + 1.0) - r  # the count that leads to c
        j = np.ceil(k)
        beyond = r / weight * nbinom.sf(j - 2.0, r + 1.0, chance) - k * nbinom.sf(
            j - 1.0, r, chance
        )
        return np.asarray(
            np.maximum(np.where(k <= 0.0, r / weight - k, beyond), 0.0) / (weight + 1.0)
        )

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        from scipy.special import gammainc

        above = np.maximum(x, 0.0) * (self.rate + stats[..., 0])
        return np.asarray(gammainc(self.shape + stats[..., 1], above))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        from scipy.special import gammaincinv

        return np.asarray(
            gammaincinv(self.shape + stats[..., 1], level) / (self.rate + stats[..., 0])
        )

    def describe(self, stats: Stats) -> str:
        return f"Gamma({self.shape + stats[1]:g}, {self.rate + stats[0]:g})"

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.standard_gamma(self.shape + stats[..., 1])
        return np.asarray(drawn / (self.rate + stats[..., 0]))[..., None]

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.poisson(parameters[..., 0]), dtype=float)

    def check(self, stats: Stats) -> None:
        super().check(stats)
        if stats[1] < 0 or stats[1] != int(stats[1]):
            raise ValueError(f"{self.write(stats)}; the sum of counts is a whole number, not < 0")

    def read_outcome(self, text: object, stats: Stats) -> float:
        try:
            outcome = -1 if isinstance(text, bool) else int_from(str(text))
        except ValueError:
            outcome = -1
        if not 0 <= outcome <= LARGEST_COUNT:
            rule = "zero or more" if outcome < 0 else f"at most {LARGEST_COUNT}"
            raise _no_outcome(text, f"a whole number, {rule}")
        return float(outcome)

    def read_truth(self, given: object) -> Stats:
        rate = number_of(given)
        if not 0.0 <= rate <= LARGEST_COUNT:
            rule = f"must be a rate, zero or more, at most {LARGEST_COUNT}"
            raise ValueError(f"{shown(given)} is not allowed; {rule}")
        return (rate,)

    def plain(self, given: object) -> Outcome:
        if not is_whole(given):
            raise _no_outcome(given, "a whole number, zero or more")
        return int(self.read_outcome(given, ()))

    def ahead(self, stats: Stats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """The sum of the counts is negative binomial; faint tails are left out."""
        from scipy.stats import nbinom

        if count == 0:
            return np.ones(1), np.array([stats], dtype=float)
        r, weight = self.shape + stats[1], self.rate + stats[0]
        law = nbinom(r, weight / (weight + count))
        first, last = law.ppf([FAINT / 2.0, 1.0 - FAINT / 2.0])
        if not last - first < most:
            return None
        sums = np.arange(first, last + 1.0)
        chances = law.pmf(sums)
        states = np.stack([np.full(sums.size, stats[0] + count), stats[1] + sums], axis=1)
        return np.asarray(chances / chances.sum()), states

    def outlook(self, stats: Floats) -> tuple[Floats, Floats]:
        """Counts one by one; where they are many, neighbours together, the more the larger."""
        r, weight = self.shape + stats[..., 1], self.rate + stats[..., 0]
        mean, spread = r / weight, np.sqrt(r * (weight + 1.0)) / weight
        low = np.maximum(np.floor(mean - 8.0 * spread), 0.0)
        high: Floats = np.ceil(mean + 6.0 * spread)
        while (short := _negative_binomial(r, weight, high) < 1.0 - TAIL).any():
            high = np.where(short, np.ceil(1.5 * high + 1.0), high)
        # each state has as many as it needs: the rest have no chance
        number = np.minimum(high - low + 1.0, MOST_COUNTS)[..., None]
        j = np.arange(number.max(initial=1.0) + 1.0)
        grown = np.floor((high + 1.0 - low)[..., None] * (np.minimum(j / number, 1.0)) ** 2)
        first = low[..., None] + np.where(number == MOST_COUNTS, np.maximum(j, grown), j)
        below = _negative_binomial(r[..., None], weight[..., None], first[..., 1:-1] - 1.0)
        below = np.where(j[1:-1] < number, below, 1.0)
        ends = np.zeros_like(below[..., :1]), np.ones_like(below[..., :1])
        chances = np.diff(np.concatenate([ends[0], below, ends[1]], axis=-1), axis=-1)
        return chances, _after_each(self, stats, 0.5 * (first[..., :-1] + first[..., 1:] - 1.0))

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """One more count takes a Poisson chance off: P(a + 1, z) = P(a, z) - z^a e^-z / a!."""
        if np.any(np.diff(after[..., 1], axis=-1) != 1.0):
            return super().cdf_ahead(after, x)
        from scipy.special import gammaln, xlogy

        first = after[..., :1, :]
        a = self.shape + first[..., 1:]
        z = np.maximum(x, 0.0) * (self.rate + first[..., :1])
        below, taken = self.cdf(first[..., None, :], x), np.exp(xlogy(a, z) - z - gammaln(a + 1.0))
        found = np.empty((*after.shape[:-1], x.shape[-1]))
        for j in range(after.shape[-2]):
            found[..., j, :] = below[..., 0, :]
            below, taken = below - taken, taken * z / (a + j + 1.0)
        return np.maximum(found, 0.0)

    @property
    def outcomes(self) -> str:
        return "counts"

    def drawn_together(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        rate = float(self.sample(np.array(stats, dtype=float), rng)[0])
        return self.joined(stats, (count, float(rng.poisson(count * rate))))

    @property
    def prior_pulls(self) -> float:
        return self.rate


def _negative_binomial(r: Floats, weight: Floats, count: Floats) -> Floats:
    """Chance that the next count is at most `count`, given Gamma(r, weight)."""
    from scipy.special import betainc

    return np.asarray(betainc(r, np.maximum(count, 0.0) + 1.0, weight / (weight + 1.0)))


def _after_each(kind: Summed, stats: Floats, outcomes: Floats) -> Floats:
    """Statistics after each of these outcomes, (..., J, 2)."""
    before = np.broadcast_to(stats[..., None, :], (*outcomes.shape, 2))
    return kind.update(before, outcomes)


def _no_outcome(given: object, rule: str) -> ValueError:
    return ValueError(f"outcome {shown(given)}; must be {rule}")
