"""The protocol of a kind of arm: its statistics, means, draws, and how they are written.

What is known of an arm is a row of numbers, its *statistics* (`width` of them): good and bad
outcomes, counts of classes, pulls and the sum of outcomes, pulls and a state. Methods take arrays
of them, (..., width). The states of an arm in rows, on which values are computed, are made from a
kind in `arm/kinds/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ...support import Floats

Stats = tuple[float, ...]


class Kind(ABC):
    """A kind of arm with its prior: frozen, compared and hashed by content."""

    word: ClassVar[str]  # as in "normal arms"
    finite: ClassVar[bool]  # whether there are finitely many states after some pulls

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers the statistics of an arm are."""

    @property
    def usual(self) -> tuple[float, float]:
        """Ends of the means that are usual: three deviations around that of the prior."""
        stats = np.array(self.fresh(), dtype=float)
        mean, away = float(self.mean(stats)), 3.0 * float(self.sd(stats))
        return mean - away, mean + away

    @abstractmethod
    def fresh(self) -> Stats:
        """Statistics of an arm that has not been pulled."""

    @abstractmethod
    def pulls(self, stats: Floats) -> Floats:
        """Pulls so far, (...)."""

    @abstractmethod
    def mean(self, stats: Floats) -> Floats:
        """Expected value of the next outcome, (...)."""

    @abstractmethod
    def sd(self, stats: Floats) -> Floats:
        """Standard deviation of what is not known of the arm's mean, (...)."""

    @abstractmethod
    def excess(self, stats: Floats, c: Floats) -> Floats:
        """E(mean after one more pull - c)^+, (...)."""

    def quantile(self, stats: Floats, level: float) -> Floats:
        """Of what is known of the arm's mean, (...)."""
        raise ValueError(f"{self.word} arms: no formula for quantiles of their mean")

    @abstractmethod
    def after(self, stats: Floats, outcome: Floats) -> Floats:
        """Statistics after one more outcome each, (..., width)."""

    @abstractmethod
    def draw(self, stats: Floats, rng: np.random.Generator) -> Floats:
        """Parameters drawn from what is known, (..., parameters)."""

    @abstractmethod
    def true_mean(self, parameters: Floats) -> Floats:
        """Expected value of an outcome at given parameters, (...)."""

    @abstractmethod
    def outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        """One outcome each, drawn at given parameters, (...)."""

    def following(self, stats: Stats) -> list[tuple[float, Stats]]:
        """Chances of the outcomes of a pull, and the statistics after them, where finitely many."""
        raise ValueError(f"{self.word} arms have infinitely many states")

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        """What decides the outcomes of so many pulls, at parameters (E, ...): (E, pulls)."""
        E, number = parameters.shape
        each = np.broadcast_to(parameters[:, None], (E, pulls, number))
        fresh = np.broadcast_to(np.array(self.fresh(), dtype=float), (E, pulls, self.width))
        return self.outcome(each, fresh, rng)

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        """The outcomes that entries of a stream are, of arms in these states."""
        return drawn

    @abstractmethod
    def value(self, stats: Floats, outcome: Floats) -> Floats:
        """What outcomes of arms in these states count, before the factor of a stage, (...)."""

    @abstractmethod
    def describe(self, stats: Stats) -> str:
        """What is known of the arm, for people."""

    @abstractmethod
    def write(self, stats: Stats) -> str:
        """Statistics as text, without commas; `read` undoes it."""

    @abstractmethod
    def read(self, text: str) -> Stats:
        """Statistics from text; a ValueError that says what must be written instead."""

    @abstractmethod
    def check(self, stats: Stats) -> None:
        """A ValueError where no outcomes lead to these statistics."""

    @abstractmethod
    def read_outcome(self, text: object, stats: Stats) -> float:
        """An outcome of an arm in this state, as people give it; a ValueError where it is none."""


def whole(number: float) -> str:
    """A number as short as it can be read again."""
    return str(int(number)) if number == int(number) else repr(float(number))
