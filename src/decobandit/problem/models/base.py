"""The protocol of a kind of arm: its statistics, means, draws, and how they are written.

What is known of an arm is a row of numbers, its *statistics* (`width` of them): good and bad
outcomes, counts of classes, pulls and the sum of outcomes, pulls and a state. Methods take arrays
of them, (..., width). The states of an arm in rows, on which values are computed, are made from a
kind in `arm/graph.py` and `arm/grids.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf, nan
from typing import ClassVar

import numpy as np

from ...support import Floats, float_from

Stats = tuple[float, ...]
Outcome = int | float | str  # as logs and files have one
LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(e-?\d+)?")


class ArmModel(ABC):
    """A kind of arm with its prior: frozen, compared and hashed by content."""

    word: ClassVar[str]  # as in "normal arms"
    finite: ClassVar[bool]  # whether there are finitely many states after some pulls
    ordered: ClassVar[bool] = False  # whether the order of outcomes matters
    counts_good: ClassVar[bool] = False  # whether outcomes are good or bad
    whole: ClassVar[bool] = False  # whether outcomes are whole numbers, zero or more
    has_law: ClassVar[bool] = True  # whether the arm's mean has `quantile` and `cdf`
    quantiles_searched: ClassVar[bool] = False  # by `cdf`, which on given points is quicker

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers the statistics of an arm are."""

    @property
    def usual(self) -> tuple[float, float]:
        """Ends of the means that are usual: three deviations around that of the prior."""
        stats = np.array(self.initial(), dtype=float)
        mean, away = float(self.mean(stats)), 3.0 * float(self.sd(stats))
        return mean - away, mean + away

    @property
    def mean_range(self) -> tuple[float, float]:
        """Ends of the means that are possible."""
        return -inf, inf

    def states(self, pulls: int) -> float:
        """How many states an arm may be in after so many pulls."""
        return inf

    @abstractmethod
    def initial(self) -> Stats:
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

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        """Of what is known of the arm's mean, (...)."""
        raise ValueError(f"{self.word} arms: no formula for quantiles of their mean")

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        """Chance that the arm's mean is at most x, (...)."""
        raise ValueError(f"{self.word} arms: no formula for the law of their mean")

    @abstractmethod
    def update(self, stats: Floats, outcome: Floats) -> Floats:
        """Statistics after one more outcome each, (..., width)."""

    @abstractmethod
    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        """Parameters drawn from what is known, (..., parameters)."""

    @abstractmethod
    def mean_at(self, parameters: Floats) -> Floats:
        """Expected value of an outcome at given parameters, (...)."""

    @abstractmethod
    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        """One outcome each, drawn at given parameters, (...)."""

    def following(self, stats: Stats, parameters: Stats | None = None) -> list[tuple[float, Stats]]:
        """Chances of the outcomes of a pull, and the statistics after them, where finitely many.

        Given what is known, or at given parameters.
        """
        raise ValueError(f"{self.word} arms have infinitely many states")

    def outlook(self, stats: Floats) -> tuple[Floats, Floats]:
        """Chances of the outcomes of a pull, (..., J), and what is known after, (..., J, width).

        Where outcomes are infinitely many: those of a quadrature.
        """
        raise ValueError(f"{self.word} arms: their outcomes tell nothing of an unknown mean")

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """`cdf` in the states of an outlook (..., J, width) at points (..., 1, M): (..., J, M)."""
        return self.cdf(after[..., None, :], x)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        """What decides the outcomes of so many pulls, at parameters (E, ...): (E, pulls)."""
        E, number = parameters.shape
        each = np.broadcast_to(parameters[:, None], (E, pulls, number))
        fresh = np.broadcast_to(np.array(self.initial(), dtype=float), (E, pulls, self.width))
        return self.sample_outcome(each, fresh, rng)

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        """The outcomes that entries of a stream are, of arms in these states."""
        return drawn

    @abstractmethod
    def value(self, stats: Floats, outcome: Floats) -> Floats:
        """What outcomes of arms in these states count, before the factor of a stage, (...)."""

    def total(self, stats: Floats) -> Floats:
        """What all outcomes so far count, (...)."""
        raise ValueError(f"{self.word} arms: their states do not tell what outcomes counted")

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

    @abstractmethod
    def read_truth(self, given: object) -> Stats:
        """Parameters as people give the truth of an arm; a ValueError where they are none."""

    # -- outcomes that are recorded one by one ------------------------------------------------

    @abstractmethod
    def plain(self, given: object) -> Outcome:
        """An outcome as logs have it, whatever the state; a ValueError where it is none."""

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        """A drawn outcome of an arm in this state, as logs have it."""
        return int(outcome)

    def typed(self, text: str) -> Outcome:
        """The same from what people type."""
        return int(self.read_outcome(text, self.initial()))

    def named(self, outcome: Outcome) -> str:
        """A recorded outcome, for people."""
        return str(outcome)

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of all outcomes; none where they are numbers."""
        return ()

    def traced(self, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
        """Recorded outcomes as numbers, (n,), and the statistics before each and after all.

        A ValueError where one of them cannot be one of the arm in its state.
        """
        stats, found = [self.initial()], []
        for outcome in outcomes:
            found.append(self.read_outcome(outcome, stats[-1]))
            after = self.update(np.array(stats[-1], dtype=float), np.array(found[-1]))
            stats.append(tuple(after.tolist()))
        return np.array(found), np.array(stats, dtype=float)

    def known(self, outcomes: Sequence[Outcome]) -> Stats:
        """Statistics after recorded outcomes."""
        return tuple(self.traced(outcomes)[1][-1].tolist())

    def values_of(self, outcomes: Sequence[Outcome]) -> Floats:
        """What recorded outcomes count, before the factor of a stage, (n,)."""
        read, stats = self.traced(outcomes)
        return self.value(stats[:-1], read)

    # -- outcomes of several pulls that are recorded together ---------------------------------
    # A tally is what they come to. Where their order does not matter, it is their statistics.

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        """The tally of outcomes as logs have them."""
        return self.known(outcomes)

    def tally_pulls(self, tally: Stats) -> int:
        """How many outcomes are in it."""
        return int(self.pulls(np.array(tally, dtype=float)))

    def sole(self, tally: Stats) -> Outcome:
        """The outcome of a tally of one, as logs have it."""
        return self.recorded(float(self.total(np.array(tally, dtype=float))), self.initial())

    def joined(self, tally: Stats, more: Stats) -> Stats:
        """Two tallies together."""
        return tuple(a + b for a, b in zip(tally, more, strict=True))

    def after_tally(self, stats: Stats, tally: Stats) -> Stats:
        """Statistics after the outcomes of a tally; a ValueError where they cannot follow."""
        return self.joined(stats, tally)

    def tally_value(self, stats: Stats, tally: Stats) -> float:
        """What they count in all, from this state on, before the factor of a stage."""
        return float(self.total(np.array(tally, dtype=float)))

    def read_tally(self, text: str) -> Stats:
        """A tally from text; a ValueError that says what must be written instead."""
        return self.read(text)

    def write_tally(self, tally: Stats) -> str:
        """The text that `read_tally` reads."""
        return self.write(tally)

    @property
    def tally_form(self) -> tuple[str, str]:
        """How tallies are written: words, and the mark between their parts."""
        return "sum/pulls", "/"

    @property
    def no_tally(self) -> Stats:
        """That of no outcome."""
        return self.initial()

    # -- outcomes that are pending ------------------------------------------------------------

    def ahead(self, stats: Stats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Chances (J,) of what may be known after so many more outcomes, (J, width).

        Where that is infinite, a quadrature; None where there are more than `most` possibilities.
        """
        found = {stats: 1.0}
        for _ in range(count):
            later: dict[Stats, float] = {}
            for own, chance in found.items():
                for p, after in self.following(own):
                    later[after] = later.get(after, 0.0) + chance * p
            if len(later) > most:
                return None
            found = later
        return np.array(list(found.values())), np.array(list(found), dtype=float)

    def drawn_ahead(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        """Statistics after so many more outcomes, drawn."""
        own = np.array(stats, dtype=float)
        parameters = self.sample(own, rng)
        for _ in range(count):
            own = self.update(own, self.sample_outcome(parameters, own, rng))
        return tuple(own.tolist())

    def drawn_together(self, stats: Stats, count: int, rng: np.random.Generator) -> Stats:
        """The same of outcomes that are recorded together: by few draws, however many they are."""
        return self.drawn_ahead(stats, count, rng)

    # -- for reports --------------------------------------------------------------------------

    @property
    def outcomes(self) -> str:
        """What outcomes are, in words."""
        return self.word

    @property
    def prior_pulls(self) -> float | None:
        """How many pulls the prior is worth; None where it is no such number."""
        return None


def whole(number: float) -> str:
    """A number as short as it can be read again."""
    plain = abs(number) < 1e21 and number == int(number)
    return str(int(number)) if plain else repr(float(number))


def rounded(record: str) -> str:
    """What is on record of an arm, for people: numbers in six digits; files and logs have all.

    Examples
    --------
    >>> from decobandit.problem.models.base import rounded
    >>> rounded("1.6400000000000003/7"), rounded("2+0+1")
    ('1.64/7', '2+0+1')
    """
    return LONG_NUMBER.sub(lambda found: _six_digits(float(found[0])), record)


def _six_digits(number: float) -> str:
    return f"{number:.6g}" if abs(number) < 1e5 else f"{number:.1f}"


def number_of(given: object) -> float:
    """A number, or text that is one; nan where it is none."""
    try:
        return nan if isinstance(given, bool) else float_from(str(given))
    except ValueError:
        return nan


def is_whole(given: object) -> bool:
    """Whether a value is a whole number, and no truth value."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)
