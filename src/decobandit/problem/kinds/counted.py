"""Outcomes of classes: good and bad (a beta prior), or several (a Dirichlet prior)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ...support import Floats, shown
from .base import Kind, Stats

_GOOD_OF_PULLS = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")
_COUNTS = re.compile(r"\s*[0-9]{1,9}(\s*\+\s*[0-9]{1,9})*\s*")
_OUTCOMES = {"good": 1.0, "1": 1.0, "bad": 0.0, "0": 0.0}


@dataclass(frozen=True)
class Binary(Kind):
    """Good and bad outcomes, beta prior. Statistics: good, bad. An outcome: 1 or 0."""

    good: float
    bad: float

    word = "good-or-bad"
    finite = True
    width = 2

    def fresh(self) -> Stats:
        return (0, 0)

    def pulls(self, stats: Floats) -> Floats:
        return np.asarray(stats[..., 0] + stats[..., 1])

    def mean(self, stats: Floats) -> Floats:
        return np.asarray((self.good + stats[..., 0]) / (self.good + self.bad + self.pulls(stats)))

    def sd(self, stats: Floats) -> Floats:
        p, weight = self.mean(stats), self.good + self.bad + self.pulls(stats)
        return np.sqrt(p * (1.0 - p) / (weight + 1.0))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        p, weight = self.mean(stats), self.good + self.bad + self.pulls(stats)
        up, down = ((weight * p + x) / (weight + 1.0) - c for x in (1.0, 0.0))
        return np.asarray(p * np.maximum(up, 0.0) + (1.0 - p) * np.maximum(down, 0.0))

    def quantile(self, stats: Floats, level: float) -> Floats:
        from scipy.special import betaincinv  # late: scipy takes half a second to load

        return np.asarray(betaincinv(self.good + stats[..., 0], self.bad + stats[..., 1], level))

    def after(self, stats: Floats, outcome: Floats) -> Floats:
        found = np.array(stats, dtype=float)
        found[..., 0] += outcome
        found[..., 1] += 1.0 - outcome
        return found

    def draw(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.beta(self.good + stats[..., 0], self.bad + stats[..., 1]))[..., None]

    def true_mean(self, parameters: Floats) -> Floats:
        return parameters[..., 0]

    def outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.random(parameters.shape[:-1]) < parameters[..., 0], dtype=float)

    def following(self, stats: Stats) -> list[tuple[float, Stats]]:
        good, bad = stats
        p = (self.good + good) / (self.good + self.bad + good + bad)
        return [(p, (good + 1, bad)), (1.0 - p, (good, bad + 1))]

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return outcome

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


@dataclass(frozen=True)
class Classes(Kind):
    """Outcomes of L classes, Dirichlet prior. Statistics: a count each. An outcome: 0 .. L-1."""

    counts: tuple[float, ...]
    values: tuple[float, ...]

    word = "categorical"
    finite = True

    @property
    def width(self) -> int:
        return len(self.counts)

    def fresh(self) -> Stats:
        return (0,) * self.width

    def pulls(self, stats: Floats) -> Floats:
        return np.asarray(stats.sum(axis=-1))

    def chances(self, stats: Floats) -> Floats:
        """Of each class for the next outcome, (..., L)."""
        weight = np.array(self.counts) + stats
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))

    def mean(self, stats: Floats) -> Floats:
        return np.asarray(self.chances(stats) @ np.array(self.values))

    def sd(self, stats: Floats) -> Floats:
        chances, values = self.chances(stats), np.array(self.values)
        spread = chances @ values**2 - (chances @ values) ** 2
        weight = sum(self.counts) + self.pulls(stats)
        return np.asarray(np.sqrt(np.maximum(spread, 0.0) / (weight + 1.0)))

    def excess(self, stats: Floats, c: Floats) -> Floats:
        chances, weight = self.chances(stats), sum(self.counts) + self.pulls(stats)
        total = weight * (chances @ np.array(self.values))
        found = np.zeros_like(weight)
        for j, value in enumerate(self.values):
            found += chances[..., j] * np.maximum((total + value) / (weight + 1.0) - c, 0.0)
        return np.asarray(found)

    def after(self, stats: Floats, outcome: Floats) -> Floats:
        return np.asarray(stats + (np.arange(self.width) == outcome[..., None]))

    def draw(self, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.standard_gamma(np.array(self.counts) + stats)
        total = drawn.sum(axis=-1, keepdims=True)
        # all gammas of tiny pseudo-counts may be zero: then one class is sure
        sure = np.eye(self.width)[
            np.argmax(np.broadcast_to(np.array(self.counts), drawn.shape), -1)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = np.where(total > 0.0, drawn / total, sure)
        return shares

    def true_mean(self, parameters: Floats) -> Floats:
        return np.asarray(parameters @ np.array(self.values))

    def outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        u = rng.random(parameters.shape[:-1])
        picked, below = np.zeros(u.shape), np.zeros(u.shape)
        for j in range(self.width - 1):
            below += parameters[..., j]
            picked += u >= below
        return picked

    def following(self, stats: Stats) -> list[tuple[float, Stats]]:
        chances = self.chances(np.array(stats, dtype=float))
        return [
            (float(chance), tuple(n + (i == j) for i, n in enumerate(stats)))
            for j, chance in enumerate(chances)
        ]

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        return np.asarray(np.array(self.values)[outcome.astype(np.int64)])

    def describe(self, stats: Stats) -> str:
        known = (f"{a + n:g}" for a, n in zip(self.counts, stats, strict=True))
        return f"Dirichlet({', '.join(known)})"

    def write(self, stats: Stats) -> str:
        return "+".join(str(int(count)) for count in stats)

    def read(self, text: str) -> Stats:
        counts = text.split("+")
        if not _COUNTS.fullmatch(text) or len(counts) != self.width:
            example = "+".join(map(str, range(self.width)))
            raise ValueError(f"{text!r}; must be {self.width} counts, for example {example}")
        return tuple(int(count) for count in counts)

    def check(self, stats: Stats) -> None:
        if min(stats) < 0:
            raise ValueError(f"{self.write(stats)}; counts cannot be negative")

    def read_outcome(self, text: object, stats: Stats) -> float:
        try:
            outcome = int(str(text))
        except ValueError:
            outcome = -1
        if not 0 <= outcome < self.width:
            raise ValueError(
                f"outcome {shown(text)}; must be the number of a class, 0 to {self.width - 1}"
            )
        return float(outcome)
