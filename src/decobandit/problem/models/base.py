"""The protocol of an outcome model: the statistics of an arm, what a pull does, how it is written.

What is known of an arm is a row of numbers, its *statistics* (`width` of them): good and bad
outcomes, counts of classes, pulls and the sum of outcomes, pulls and a state. Methods take arrays
of them, (..., width). `ArmModel` has the mathematics, `OutcomeFormat` (`model.format`) text and
JSON, `PriorTable` the prior as files have it. The states of an arm as arrays, on which values are
computed, are made from a model in `arm/graph.py` and `arm/grids.py`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import inf, nan
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ...support import Floats, Ints, InvalidArgument, float_from, int_from, shown
from ..fields import Frozen, plain_init

Stats = tuple[float, ...]
Outcome = int | float | str  # as logs and files have one
Knots = tuple[Floats, Floats, Floats]  # of a law: points, distribution function, density
LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(e-?\d+)?")
LARGEST_SUM = 1e100  # in size: what is computed from it, squares among it, is a number
OF_SIZE = f", at most {LARGEST_SUM:g} in size: sums of squares would overflow"
MAX_NODES = 1000  # of a quadrature over one outcome
_PULLS = re.compile(r"\s*[0-9]{1,9}\s*")


class ArmModel(ABC):
    """A model of an arm's outcomes with its prior: frozen, compared and hashed by content."""

    word: ClassVar[str]  # as in "normal arms"
    format_class: ClassVar[type[OutcomeFormat[Any]]]
    finite: ClassVar[bool]  # whether there are finitely many states after some pulls
    ordered: ClassVar[bool] = False  # whether the order of outcomes matters
    counts_outcomes: ClassVar[bool] = False  # whether statistics are counts of each outcome
    counts_good: ClassVar[bool] = False  # whether outcomes are good or bad
    has_law: ClassVar[bool] = True  # whether the arm's mean has `quantile` and `cdf`
    known_variance: ClassVar[bool] = True  # whether outcomes of a known mean have a known law
    final_tests: ClassVar[tuple[str, ...]] = ("posterior",)  # that a design may end with
    quantiles_searched: ClassVar[bool] = False  # by `cdf`, which on given points is quicker

    @cached_property
    def format(self) -> OutcomeFormat[Any]:
        """Text and JSON of outcomes, statistics and truth."""
        return type(self).format_class(self)

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers the statistics of an arm are."""

    @property
    def usual(self) -> tuple[float, float]:
        """Ends of the usual means: three standard deviations around that of the prior."""
        stats = np.array(self.initial(), dtype=float)
        mean, away = float(self.mean(stats)), 3.0 * float(self.sd(stats))
        return mean - away, mean + away

    @property
    def mean_range(self) -> tuple[float, float]:
        """Ends of the possible means."""
        return -inf, inf

    @property
    def prior_pulls(self) -> float | None:
        """Effective sample size of the prior; None where it has none."""
        return None

    def states(self, pulls: int) -> float:
        """Return the number of states of an arm after this number of pulls."""
        return inf

    @abstractmethod
    def initial(self) -> Stats:
        """Statistics of an arm that has not been pulled."""

    def pulls(self, stats: Floats) -> Floats:
        """Return pulls so far, (...); the first statistic where none counts outcomes."""
        # outcomes are few: column by column is faster than along rows
        columns = range(1, self.width if self.counts_outcomes else 1)
        return np.asarray(sum((stats[..., j] for j in columns), start=stats[..., 0]))

    @abstractmethod
    def mean(self, stats: Floats) -> Floats:
        """Return the expected value of the next outcome, (...)."""

    @abstractmethod
    def sd(self, stats: Floats) -> Floats:
        """Posterior standard deviation of the arm's mean, (...)."""

    def excess(self, stats: Floats, c: Floats) -> Floats:
        """E(mean after one more pull - c)^+, (...)."""
        probabilities, after = self.transitions(stats)
        beyond = np.maximum(self.mean(after) - np.asarray(c)[..., None], 0.0)
        return np.asarray((probabilities * beyond).sum(axis=-1))

    def quantile(self, stats: Floats, level: float | Floats) -> Floats:
        """Posterior quantile of the arm's mean, (...)."""
        raise InvalidArgument(f"{self.word} arms: no formula for quantiles of their mean")

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        """Posterior probability that the arm's mean is at most x, (...)."""
        raise InvalidArgument(f"{self.word} arms: no formula for the law of their mean")

    def law_knots(self, stats: Floats) -> list[Knots] | None:
        """Return the law of the mean in states (E, width) at knots; None without a closed form."""
        return None

    @abstractmethod
    def update(self, stats: Floats, outcome: Floats) -> Floats:
        """Statistics after one more outcome, (..., width)."""

    @abstractmethod
    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        """Parameters drawn from the posterior, (..., parameters)."""

    def mean_at(self, parameters: Floats) -> Floats:
        """Return the expected value of an outcome at these parameters, (...)."""
        return parameters[..., 0]

    @abstractmethod
    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        """Outcomes drawn at these parameters, (...)."""

    def value(self, stats: Floats, outcome: Floats) -> Floats:
        """Return the value of outcomes in these states, before the factor of a stage, (...)."""
        return outcome

    def total(self, stats: Floats) -> Floats:
        """Return the total value of all outcomes so far, (...)."""
        raise InvalidArgument(f"{self.word} arms: their states do not tell what outcomes counted")

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        """Probabilities of the outcomes of a pull, (..., J), and statistics after, (..., J, width).

        Given what is known, or at true parameters (finite models). A quadrature where outcomes are
        infinitely many.
        """
        raise InvalidArgument(f"{self.word} arms: their outcomes tell nothing of an unknown mean")

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """`cdf` after `transitions` (..., J, width) at points (..., 1, M): (..., J, M)."""
        return self.cdf(after[..., None, :], x)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        """Draw the stream that decides outcomes at parameters (E, ...): (E, pulls)."""
        E, number = parameters.shape
        repeated = np.broadcast_to(parameters[:, None], (E, pulls, number))
        return self.sample_outcome(repeated, self.begun(np.empty((E, pulls))), rng)

    def from_stream(self, drawn: Floats, stats: Floats) -> Floats:
        """Convert entries of a stream to outcomes of arms in these states."""
        return drawn

    # -- arms that move at rest ---------------------------------------------------------------

    @property
    def restless(self) -> bool:
        """Whether an arm that is not pulled may change its state, or earn."""
        return False

    @property
    def rests_observed(self) -> bool:
        """Whether the state after a stage without a pull is observed, not computed."""
        return False

    def first_states(self) -> tuple[Floats, Floats]:
        """Probabilities (J,) and statistics (J, width) of an arm that has not been pulled."""
        return np.ones(1), np.array([self.initial()], dtype=float)

    def reached(self, stages: int) -> Floats:
        """Return the last statistic of all states that can be reached, in order."""
        raise TypeError(f"{self.word} arms have no states beside their pulls")

    def rest_mean(self, stats: Floats) -> Floats:
        """Return what a stage without a pull counts, (...)."""
        return np.zeros(stats.shape[:-1])

    def rest_transitions(self, stats: Floats) -> tuple[Floats, Floats]:
        """Probabilities (..., J) and statistics (..., J, width) after a stage without a pull."""
        return np.ones((*stats.shape[:-1], 1)), self.rested(stats[..., 0], stats)[..., None, :]

    def rested(self, drawn: Floats, stats: Floats) -> Floats:
        """Statistics after a stage without a pull, decided by uniform numbers, (..., width)."""
        return stats

    def begun(self, drawn: Floats) -> Floats:
        """First statistics decided by uniform numbers, (..., width)."""
        probabilities, stats = self.first_states()
        if len(stats) == 1:
            return np.broadcast_to(stats[0], (*drawn.shape, self.width))
        below = np.cumsum(probabilities)[:-1]
        return np.asarray(stats[(drawn[..., None] >= below).sum(axis=-1)])

    # -- outcomes that are pending ------------------------------------------------------------

    def expected(self, stats: Floats, number: Ints) -> Floats:
        """Statistics (E, width) after these pulls (E,) with expected outcomes."""
        raise InvalidArgument(
            f"{self.word} arms: no state is the expected one after pending outcomes; leave the "
            "delay out, or make one pull per stage"
        )

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        """Return probabilities (E, J) of the statistics after further outcomes, (E, J, width).

        A quadrature where these are infinitely many; None where they are more than `most`.
        """
        probabilities: Floats = np.ones((len(stats), 1))
        later: Floats = stats[:, None, :]
        for _ in range(count):
            p, after = self.transitions(later)
            probabilities = (probabilities[..., None] * p).reshape(len(stats), -1)
            later = after.reshape(*probabilities.shape, self.width)
            if len(stats) == 1:
                rows, place = np.unique(later[0], axis=0, return_inverse=True)
                merged = np.bincount(place.reshape(-1), probabilities[0], len(rows))
                possible = merged > 0.0
                probabilities, later = merged.astype(float)[None, possible], rows[None, possible]
            if probabilities.shape[1] > most:
                return None
        return probabilities, later

    def stats_at(self, pulls: float, mean: Floats) -> Floats:
        """Return the statistics after these pulls with a posterior mean, (...) -> (..., width).

        For models on a grid of posterior means, which with the pulls must decide all else.
        """
        raise TypeError(f"{self.word} arms have no grid of posterior means")

    def kl_bound(self, n: Floats, mean: Floats, level: float) -> Floats | None:
        """Return the largest mean within `level` / n of the observed one by Kullback and Leibler.

        None for bounded outcomes, which are compared with good and bad ones.
        """
        return None

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        """Statistics after these pulls, drawn at the parameters by few draws, (..., width)."""
        for _ in range(number):
            stats = self.update(stats, self.sample_outcome(parameters, stats, rng))
        return stats

    # -- priors -------------------------------------------------------------------------------

    def posterior(self, stats: Floats) -> PriorTable:
        """Update the prior by these statistics, (width,); fractions are allowed."""
        raise InvalidArgument(
            f"an arm of {self.word} states has no prior that outcomes could change"
        )

    def log_evidence(self, stats: Floats) -> Floats:
        """Log probability of outcomes with these statistics, (...), up to a term without prior."""
        raise TypeError(f"{self.word} arms have no conjugate prior")


def ahead_of(model: ArmModel, stats: Stats, count: int, most: int) -> tuple[Floats, Floats] | None:
    """Return `ArmModel.ahead` of one state: its positive probabilities (J,) and statistics."""
    law = model.ahead(np.array([stats], dtype=float), count, most)
    if law is None:
        return None
    possible = law[0][0] > 0.0
    return law[0][0][possible], law[1][0][possible]


Model = TypeVar("Model", bound=ArmModel)


class OutcomeFormat(ABC, Generic[Model]):
    """Text and JSON of one model: outcomes, statistics, truth, tallies.

    A tally is what several outcomes of one arm are recorded as: their statistics where their order
    does not matter. A true parameter is a number between the `truths`, unless a model reads
    another; there is none where they are None.
    """

    truths: ClassVar[tuple[float, float] | None] = -LARGEST_SUM, LARGEST_SUM
    truth_rule: ClassVar[str] = f"must be a finite number, the mean{OF_SIZE}"
    form: ClassVar[str]  # notation of statistics, in words
    outcomes: str  # of the model, in words
    rule: str = "a finite number"  # that outcomes obey, in words
    choices: tuple[str, ...] = ()  # names of all outcomes that forms list; none of numbers
    most: int | None = None  # the largest outcome, where outcomes are whole numbers from 0

    def __init__(self, model: Model) -> None:
        self.model = model

    # -- statistics and truth -----------------------------------------------------------------

    @abstractmethod
    def describe(self, stats: Stats) -> str:
        """Describe the posterior of the arm."""

    @abstractmethod
    def write(self, stats: Stats) -> str:
        """Return statistics as text, without commas; `read` is the inverse."""

    @abstractmethod
    def read(self, text: str) -> Stats:
        """Read statistics from text; refuse with an example of what to write instead."""

    @abstractmethod
    def check(self, stats: Stats) -> None:
        """Refuse statistics that no outcomes lead to."""

    def impossible(self, stats: Stats, rule: str) -> InvalidArgument:
        """Return the error of statistics that break a rule."""
        return InvalidArgument(f"{self.write(stats)}; {rule}")

    def read_truth(self, value: object) -> Stats:
        """Read the true parameters of an arm from user input; refuse anything else."""
        if self.truths is None and value in ("-", None):
            return ()
        number = number_of(value)
        if self.truths is None or not self.truths[0] <= number <= self.truths[1]:
            raise InvalidArgument(f"{shown(value)} is not allowed; {self.truth_rule}")
        return (number,)

    # -- outcomes that are recorded one by one ------------------------------------------------

    @abstractmethod
    def read_outcome(self, text: object, stats: Stats) -> float:
        """Read an outcome of an arm in this state from user input; refuse anything else."""

    @abstractmethod
    def plain(self, value: object) -> Outcome:
        """Return an outcome as logs store it, in any state; refuse anything else."""

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        """Return a drawn outcome of an arm in this state as logs store it."""
        return int(outcome)

    def typed(self, text: str) -> Outcome:
        """Return an outcome as logs store it, from text."""
        return self.recorded(self.read_outcome(text, ()), ())

    def named(self, outcome: Outcome) -> str:
        """Describe a recorded outcome."""
        return str(outcome)

    # -- tallies ------------------------------------------------------------------------------

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        """Return the tally of outcomes as logs store them."""
        numbers = np.array([self.read_outcome(outcome, ()) for outcome in outcomes], dtype=float)
        first = self.model.begun(numbers)
        added = (self.model.update(first, numbers) - first).sum(axis=0)
        return tuple((np.array(self.model.initial(), dtype=float) + added).tolist())

    def tally_pulls(self, tally: Stats) -> int:
        """Return the number of outcomes in a tally."""
        return int(self.model.pulls(np.array(tally, dtype=float)))

    def sole(self, tally: Stats) -> Outcome:
        """Return the outcome of a tally of one, as logs store it."""
        value = float(self.model.total(np.array(tally, dtype=float)))
        return self.recorded(value, self.model.initial())

    def joined(self, tally: Stats, more: Stats) -> Stats:
        """Return the tally of the outcomes of two."""
        return tuple(a + b for a, b in zip(tally, more, strict=True))

    def after_tally(self, stats: Stats, tally: Stats) -> Stats:
        """Return statistics after the outcomes of a tally; refuse outcomes that cannot follow."""
        return self.joined(stats, tally)

    def tally_value(self, stats: Stats, tally: Stats) -> float:
        """Return the total value of a tally from this state on, before the factor of a stage."""
        return float(self.model.total(np.array(tally, dtype=float)))

    def read_tally(self, text: str) -> Stats:
        """Read a tally from text; refuse with an example of what to write instead."""
        return self.read(text)

    def write_tally(self, tally: Stats) -> str:
        """Return the text that `read_tally` reads."""
        return self.write(tally)

    @property
    def tally_form(self) -> tuple[str, str]:
        """Notation of tallies in words, and the mark between their parts."""
        return self.form, "/"

    @property
    def no_tally(self) -> Stats:
        """The tally of no outcome."""
        return self.model.initial()


class OutcomesInOrder(OutcomeFormat[Model]):
    """Tallies of outcomes that are numbers, where their order matters: the outcomes themselves."""

    no_tally: Stats = ()
    tally_form = "outcomes in the order of the pulls, such as 1+0", "+"

    def tally(self, outcomes: Sequence[Outcome]) -> Stats:
        return tuple(float(self.plain(outcome)) for outcome in outcomes)

    def tally_pulls(self, tally: Stats) -> int:
        return len(tally)

    def sole(self, tally: Stats) -> Outcome:
        return self.recorded(tally[0], ())

    def joined(self, tally: Stats, more: Stats) -> Stats:
        return tally + more

    def after_tally(self, stats: Stats, tally: Stats) -> Stats:
        now = np.array(stats, dtype=float)
        for outcome in tally:
            now = self.model.update(now, np.array(outcome))
        return tuple(now.tolist())

    def tally_value(self, stats: Stats, tally: Stats) -> float:
        return float(sum(tally))

    def read_tally(self, text: str) -> Stats:
        return self.tally([self.typed(part) for part in parts_of(text)])

    def write_tally(self, tally: Stats) -> str:
        return "+".join(map(shortest, tally))


class WholeNumbers(OutcomeFormat[Model]):
    """Outcomes that are whole numbers from 0 to `most`."""

    most = 2**53  # the next float is not a number of its own
    rule = f"a whole number, zero or more, at most {most}"

    def read_outcome(self, text: object, stats: Stats) -> float:
        try:
            outcome = -1 if isinstance(text, bool) else int_from(str(text))
        except ValueError:
            outcome = -1
        if not 0 <= outcome <= self.most:
            raise no_outcome(text, self.rule)
        return float(outcome)

    def plain(self, value: object) -> Outcome:
        if not is_whole(value):
            raise no_outcome(value, self.rule)
        return int(self.read_outcome(value, ()))

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return int(outcome)


class PriorTable(Frozen):
    """A prior as files and requests have it: makes the model of an arm.

    `arm_fields` are the optional fields of arms and rewards that belong to it.
    """

    arm_fields: ClassVar[frozenset[str]] = frozenset()

    @property
    def restless(self) -> bool:
        """Whether an arm that is not pulled may change its state, or earn."""
        return False

    @plain_init
    def __init__(self, /, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    def arm_model(self, arm: Any) -> ArmModel:
        """Return the outcome model of an arm with this prior."""
        raise NotImplementedError

    def check_arm(self, arm: Any) -> None:
        """Refuse an arm whose fields do not fit the prior."""

    def weighted(self, by: float) -> PriorTable:
        """Return a prior of the same mean worth `by` times the pulls, or itself if undefined."""
        return self

    def uniform(self) -> PriorTable:
        """Return the uniform prior, or itself if there is none."""
        return self


# -- outcomes of which only pulls and sum matter ------------------------------------------------


def gamma_evidence(shape: float, rate: float, events: Floats, exposure: Floats) -> Floats:
    """Log probability of events in an exposure, gamma prior, up to a term without prior."""
    from scipy.special import gammaln

    after = gammaln(shape + events) - (shape + events) * np.log(rate + exposure)
    return np.asarray(after - gammaln(shape) + shape * math.log(rate))


class SumModel(ArmModel):
    """Statistics: pulls, sum of the outcomes."""

    width = 2
    finite = False

    def initial(self) -> Stats:
        return (0, 0.0)

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        after = np.array(stats, dtype=float)
        after[..., 0] += 1.0
        after[..., 1] += outcome
        return after

    def total(self, stats: Floats) -> Floats:
        return stats[..., 1]

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        width, shape = self.width, stats.shape[:-1]
        law = self.ahead(stats.reshape(-1, width), 1, MAX_NODES)
        assert law is not None
        return law[0].reshape(*shape, -1), law[1].reshape(*shape, -1, width)

    def expected(self, stats: Floats, number: Ints) -> Floats:
        return np.asarray(stats + np.stack([number, number * self.mean(stats)], axis=-1))

    def after_sums(self, stats: Floats, number: int, sums: Floats) -> Floats:
        """Statistics after `number` pulls with these sums, (..., J) -> (..., J, 2)."""
        pulls = np.broadcast_to(stats[..., :1] + number, sums.shape)
        return np.stack([pulls, stats[..., 1:] + sums], axis=-1)


class StatsOverPulls(OutcomeFormat[Model]):
    """Statistics that begin with the pulls are written as the others joined by ~, then /pulls."""

    form: ClassVar[str] = "sum/pulls"
    example: ClassVar[str] = "4/2"  # a state as text

    def write(self, stats: Stats) -> str:
        return f"{'~'.join(map(shortest, stats[1:]))}/{int(stats[0])}"

    def read(self, text: str) -> Stats:
        sums, slash, pulls = text.partition("/")
        parts = sums.split("~")
        try:
            if not slash or len(parts) + 1 != self.model.width or not _PULLS.fullmatch(pulls):
                raise ValueError
            stats = (int(pulls), *map(float_from, parts))
        except ValueError:
            rule = f"must be {self.form}, for example {self.example}"
            raise InvalidArgument(f"{text!r}; {rule}") from None
        self.check(stats)
        return stats


class SumFormat(StatsOverPulls[Model]):
    """Outcomes and truth are numbers, whose sum is a statistic."""

    positive: ClassVar[bool] = False  # whether every outcome is above 0

    def check(self, stats: Stats) -> None:
        pulls, total = stats[:2]
        rule = None
        if pulls < 0 or not math.isfinite(total):
            rule = "must be a finite sum, and pulls zero or more"
        elif pulls == 0 and total != 0:
            rule = "without pulls the sum is 0"
        elif self.positive and pulls > 0 and total <= 0:
            rule = "the sum must be positive"
        elif abs(total) > LARGEST_SUM:
            rule = f"the sum must be a number{OF_SIZE}"
        if rule is not None:
            raise self.impossible(stats, rule)

    def read_outcome(self, text: object, stats: Stats) -> float:
        outcome = number_of(text)
        if not abs(outcome) <= LARGEST_SUM or (self.positive and outcome <= 0.0):
            size = OF_SIZE if LARGEST_SUM < abs(outcome) < math.inf else ""
            raise no_outcome(text, f"{self.rule}{size}")
        return outcome

    def plain(self, value: object) -> Outcome:
        if not isinstance(value, float | np.floating) and not is_whole(value):
            raise no_outcome(value, self.rule)
        return self.read_outcome(value, ())

    def recorded(self, outcome: float, stats: Stats) -> Outcome:
        return outcome

    def sole(self, tally: Stats) -> Outcome:
        return self.recorded(tally[1], ())


# -- numbers and text ---------------------------------------------------------------------------


def shortest(number: float) -> str:
    """Write a number as short as it can be read again."""
    integral = abs(number) < 1e21 and number == int(number)
    return str(int(number)) if integral else repr(float(number))


def rounded(record: str) -> str:
    """Round numbers on record of an arm, as 1.6400000000000003/7, to six digits: 1.64/7."""

    def six_digits(match: re.Match[str]) -> str:
        number = float(match[0])
        return f"{number:.6g}" if abs(number) < 1e5 else f"{number:.1f}"

    return LONG_NUMBER.sub(six_digits, record)


def parts_of(text: str) -> list[str]:
    """Return the parts of a text that are joined by +."""
    return [part.strip() for part in text.split("+")] if text.strip() else []


def numbers_of(value: object) -> Stats:
    """Return a list of numbers, or text that has them joined by +; none where it is no list."""
    parts = parts_of(value) if isinstance(value, str) else value
    return tuple(map(number_of, parts)) if isinstance(parts, list | tuple) else ()


def number_of(value: object) -> float:
    """Return a number, or text that is one, as a float; nan where it is none."""
    try:
        return nan if isinstance(value, bool) else float_from(str(value))
    except ValueError:
        return nan


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def no_outcome(value: object, rule: str) -> InvalidArgument:
    """Return the error of something that is no outcome."""
    return InvalidArgument(f"outcome {shown(value)}; must be {rule}", field="outcome")


def shared_out(weights: Floats, number: Ints) -> Floats:
    """Whole numbers (E, L) that add up to `number` (E,), by largest remainders of their shares."""
    exact = number[:, None] * weights / weights.sum(axis=1, keepdims=True)
    floor = np.floor(exact + 1e-9)
    rank = np.argsort(np.argsort(-np.round(exact - floor, 9), axis=1, kind="stable"), axis=1)
    return np.asarray(floor + (rank < (number - floor.sum(axis=1))[:, None]))
