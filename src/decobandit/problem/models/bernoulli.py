"""Good and bad outcomes: beta prior, or a rate that switches between two hidden levels.

A two-level arm that is pulled shows an outcome at the rate of its level now; then the level of
every arm moves, pulled or not. What is known of an arm is the *belief* b, the probability that its
level is high before the outcome of this stage:

    good    b high / m, m = b high + (1 - b) low      bad    b (1 - high) / (1 - m)
    then    b <- up + (1 - up - down) b               of an arm that is not pulled: this alone
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from ...support import Floats, Ints, InvalidArgument, TooLarge, refuse
from ..fields import PriorWeight, Probability, plain_init
from .base import (
    ArmModel,
    Outcome,
    OutcomeFormat,
    OutcomesInOrder,
    PriorTable,
    Stats,
    StatsOverPulls,
    no_outcome,
    shared_out,
)

_GOOD_OF_PULLS = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")
_OUTCOMES = {
    **dict.fromkeys(("good", "1", "true", "success", "yes"), 1.0),
    **dict.fromkeys(("bad", "0", "false", "failure", "no"), 0.0),
}


def _with_kind(schema: dict[str, Any]) -> None:
    schema["properties"]["kind"] = {"type": "string", "enum": ["beta"], "title": "Kind"}


class BetaBernoulli(PriorTable):
    """Beta prior on an arm's success probability: pseudo-counts of good and bad outcomes.

    `BetaBernoulli(1, 1)` is the uniform prior.

    Examples
    --------
    >>> from decobandit import BetaBernoulli
    >>> BetaBernoulli(2, 8)
    BetaBernoulli(good=2.0, bad=8.0)
    """

    arm_fields = frozenset({"terminal"})
    kind: ClassVar[str] = "beta"
    # files and requests may name the kind
    model_config = ConfigDict(json_schema_extra=_with_kind)

    good: PriorWeight = Field(description="Pseudo-count of good outcomes, 1e-12 or more.")
    bad: PriorWeight = Field(description="Pseudo-count of bad outcomes, 1e-12 or more.")

    @plain_init
    def __init__(self, good: float, bad: float) -> None:
        super().__init__(good=good, bad=bad)

    def arm_model(self, arm: Any) -> BernoulliModel:
        return BernoulliModel(self.good, self.bad)

    def weighted(self, by: float) -> BetaBernoulli:
        return BetaBernoulli(self.good * by, self.bad * by)

    def uniform(self) -> BetaBernoulli:
        return BetaBernoulli(1, 1)


class BernoulliFormat(OutcomeFormat[Any]):
    """Statistics are written good/pulls."""

    outcomes = "good or bad"
    rule = "good, bad, 1 or 0"
    form = "good/pulls"
    truths: ClassVar[tuple[float, float] | None] = 0.0, 1.0
    truth_rule = "must be between 0 and 1"

    def describe(self, stats: Stats) -> str:
        return f"Beta({self.model.good + stats[0]:g}, {self.model.bad + stats[1]:g})"

    def write(self, stats: Stats) -> str:
        return f"{int(stats[0])}/{int(stats[0] + stats[1])}"

    def read(self, text: str) -> Stats:
        match = _GOOD_OF_PULLS.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"{text!r}; must be good/pulls, for example 3/5")
        good, pulls = map(int, match.groups())
        self.check((good, pulls - good))
        return (good, pulls - good)

    def check(self, stats: Stats) -> None:
        good, pulls = int(stats[0]), int(stats[0] + stats[1])
        if min(stats) < 0:
            rule = "good cannot exceed pulls" if good > pulls >= 0 else "counts cannot be negative"
            raise InvalidArgument(f"{good} good of {pulls} pulls; {rule}")

    def read_outcome(self, text: object, stats: Stats) -> float:
        outcome = _OUTCOMES.get(str(text).strip().lower())
        if outcome is None:
            raise no_outcome(text, self.rule)
        return outcome

    def plain(self, value: object) -> Outcome:
        if value in ("good", "bad"):
            return int(value == "good")
        if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
            text = ", as a number, not as text" if str(value).lower() in _OUTCOMES else ""
            raise no_outcome(value, f"{self.rule}{text if isinstance(value, str) else ''}")
        return int(value)

    def named(self, outcome: Outcome) -> str:
        return "good" if outcome else "bad"


@dataclass(frozen=True)
class BernoulliModel(ArmModel):
    """Statistics: good, bad. An outcome: 1 or 0."""

    good: float
    bad: float

    word = "good-or-bad"
    format_class = BernoulliFormat
    finite = True
    counts_outcomes = True
    counts_good = True
    final_tests = ("posterior", "fisher", "conditional", "unconditional")
    width = 2
    mean_range = 0.0, 1.0

    @property
    def prior_pulls(self) -> float:
        return self.good + self.bad

    def states(self, pulls: int) -> float:
        return pulls + 1.0

    def initial(self) -> Stats:
        return (0, 0)

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

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        after = np.array(stats, dtype=float)
        after[..., 0] += outcome
        after[..., 1] += 1.0 - outcome
        return after

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.beta(self.good + stats[..., 0], self.bad + stats[..., 1]))[..., None]

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.random(parameters.shape[:-1]) < parameters[..., 0], dtype=float)

    def total(self, stats: Floats) -> Floats:
        return stats[..., 0]

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        p = self.mean(stats) if truth is None else np.full(stats.shape[:-1], truth[0])
        return np.stack([1.0 - p, p], axis=-1), stats[..., None, :] + np.eye(2)[::-1]

    def expected(self, stats: Floats, number: Ints) -> Floats:
        return np.asarray(stats + shared_out(np.array([self.good, self.bad]) + stats, number))

    def ahead(self, stats: Floats, count: int, most: int) -> tuple[Floats, Floats] | None:
        if count >= most:
            return None
        j = np.arange(count + 1.0)
        good, bad = stats[:, :1], stats[:, 1:]
        states = np.stack([good + j, bad + count - j], axis=-1)
        return beta_binomial(self.good + good, self.bad + bad, count), states

    def sample_total(
        self, parameters: Floats, stats: Floats, number: int, rng: np.random.Generator
    ) -> Floats:
        good = rng.binomial(number, parameters[..., 0])
        return np.asarray(stats + np.stack([good, number - good], axis=-1))

    def posterior(self, stats: Floats) -> BetaBernoulli:
        return BetaBernoulli(self.good + float(stats[0]), self.bad + float(stats[1]))

    def log_evidence(self, stats: Floats) -> Floats:
        from scipy.special import betaln

        after = betaln(self.good + stats[..., 0], self.bad + stats[..., 1])
        return np.asarray(after - betaln(self.good, self.bad))


def beta_binomial(a: Floats | float, b: Floats | float, count: int) -> Floats:
    """Return the probabilities of 0..count good ones among `count` outcomes, given Beta(a, b).

    a and b are numbers, or arrays (..., 1) for probabilities (..., count + 1).
    """
    j = np.arange(count)
    # from one number to the next: sums of logarithms neither underflow nor cancel
    ratios = np.log((count - j) * (a + j) / ((j + 1.0) * (b + count - 1.0 - j)))
    before = np.zeros((*np.shape(a)[:-1], 1))
    logs = np.cumsum(np.concatenate([before, ratios], axis=-1), axis=-1)
    probabilities = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(probabilities / probabilities.sum(axis=-1, keepdims=True), dtype=np.float64)


# -- two hidden levels -----------------------------------------------------------------------------

MAX_BELIEFS = 20_000  # up to which every one is followed


class TwoLevel(PriorTable):
    """An arm whose success probability switches between two levels; the level is hidden.

    Examples
    --------
    >>> from decobandit import Problem, TwoLevel, solve
    >>> channel = TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.5)
    >>> round(solve(Problem.uniform(arms=2, horizon=3, prior=channel)).upper_bound, 3)
    1.255
    """

    kind: Literal["two-level"] = "two-level"
    low: Probability = Field(description="Success probability at the low level.")
    high: Probability = Field(description="Success probability at the high level.")
    up: Probability = Field(description="Probability of going from low to high after a stage.")
    down: Probability = Field(description="Probability of going from high to low after a stage.")
    start: Probability = Field(description="Probability that the first level is high.")

    @property
    def restless(self) -> bool:
        return True

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            refuse(f"must be at least low, {self.low:g}", found=self.high, at=("high",))
        return self

    def arm_model(self, arm: Any) -> TwoLevelModel:
        return TwoLevelModel(self.low, self.high, self.up, self.down, self.start)


class TwoLevelFormat(OutcomesInOrder[Any], StatsOverPulls[Any], BernoulliFormat):
    """Statistics are written belief/pulls; a tally is the outcomes in the order of the pulls."""

    truths = None
    truth_rule = 'must be "-": the level of an arm is drawn, and moves'
    form = "belief/pulls"
    example = "0.4/2"

    def describe(self, stats: Stats) -> str:
        return f"P(high) {stats[1]:.4g}"

    def check(self, stats: Stats) -> None:
        if stats[0] < 0 or not 0.0 <= stats[1] <= 1.0:
            raise self.impossible(stats, "must be a belief from 0 to 1, and pulls zero or more")


@dataclass(frozen=True)
class TwoLevelModel(ArmModel):
    """Statistics: pulls, belief. An outcome: 1 or 0."""

    low: float
    high: float
    up: float
    down: float
    start: float

    word = "two-level"
    format_class = TwoLevelFormat
    finite = True
    ordered = True
    has_law = False
    restless = True
    width = 2

    @property
    def usual(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def mean_range(self) -> tuple[float, float]:
        return self.low, self.high

    def states(self, pulls: int) -> float:
        beliefs = self.beliefs(pulls)
        return float(inf if beliefs is None else beliefs.size)

    @lru_cache(maxsize=16)  # noqa: B019  # models are few and small
    def beliefs(self, stages: int) -> Floats | None:
        """Return all beliefs that can be reached, in order; None if there are too many."""
        every = last = np.array([self.start])
        for _ in range(stages):
            learned = [self.learned(last, np.full(last.shape, outcome)) for outcome in (0.0, 1.0)]
            following = np.unique(self.drifted(np.concatenate([last, *learned])))
            last = following[~np.isin(following, every)]
            every = np.union1d(every, last)
            if every.size > MAX_BELIEFS:
                return None
        return every

    def reached(self, stages: int) -> Floats:
        beliefs = self.beliefs(stages)
        if beliefs is None:
            raise TooLarge(
                f"two-level arms: {stages} stages lead to more than {MAX_BELIEFS} beliefs; "
                "use fewer stages, or simulate"
            )
        return beliefs

    def initial(self) -> Stats:
        return (0, self.start)

    def rate(self, belief: Floats) -> Floats:
        """Return the probability of a good outcome, (...)."""
        return np.asarray(self.low + (self.high - self.low) * belief)

    def drifted(self, belief: Floats) -> Floats:
        """Return beliefs after the levels have moved, (...)."""
        return np.asarray(self.up + (1.0 - self.up - self.down) * belief)

    def learned(self, belief: Floats, outcome: Floats) -> Floats:
        """Return beliefs after an outcome, before the levels move; as they were if it cannot be."""
        good = outcome > 0.5
        probability = np.where(good, self.rate(belief), 1.0 - self.rate(belief))
        likely = np.where(good, self.high, 1.0 - self.high)
        possible = probability > 0.0
        after = np.where(possible, belief * likely, belief) / np.where(possible, probability, 1.0)
        return np.asarray(np.minimum(after, 1.0))

    def mean(self, stats: Floats) -> Floats:
        return self.rate(stats[..., 1])

    def sd(self, stats: Floats) -> Floats:
        b = stats[..., 1]
        return np.asarray((self.high - self.low) * np.sqrt(b * (1.0 - b)))

    def update(self, stats: Floats, outcome: Floats) -> Floats:
        belief = self.drifted(self.learned(stats[..., 1], np.asarray(outcome)))
        return np.stack(np.broadcast_arrays(stats[..., 0] + 1.0, belief), axis=-1)

    def rested(self, drawn: Floats, stats: Floats) -> Floats:
        return np.stack([stats[..., 0], self.drifted(stats[..., 1])], axis=-1)

    def transitions(self, stats: Floats, truth: Stats | None = None) -> tuple[Floats, Floats]:
        p = self.mean(stats)
        after = [self.update(stats, np.full(p.shape, outcome)) for outcome in (0.0, 1.0)]
        return np.stack([1.0 - p, p], axis=-1), np.stack(after, axis=-2)

    # -- draws --------------------------------------------------------------------------------

    def sample(self, stats: Floats, rng: np.random.Generator) -> Floats:
        """Levels of now, 0 or 1."""
        return np.asarray(rng.random(stats.shape[:-1]) < stats[..., 1], dtype=float)[..., None]

    def mean_at(self, parameters: Floats) -> Floats:
        return self.rate(parameters[..., 0])

    def sample_outcome(self, parameters: Floats, stats: Floats, rng: np.random.Generator) -> Floats:
        drawn = rng.random(parameters.shape[:-1]) < self.mean_at(parameters)
        return np.asarray(drawn, dtype=float)

    def stream(self, parameters: Floats, pulls: int, rng: np.random.Generator) -> Floats:
        """Return the outcome of a pull at every stage: the levels move whatever is pulled."""
        shape = (pulls, *parameters.shape[:-1])
        moves, outcomes = rng.random(shape), rng.random(shape)
        if parameters.shape[-1]:
            level = parameters[..., 0]
        else:
            level = np.asarray(rng.random(shape[1:]) < self.start, dtype=float)
        drawn = np.empty(shape)
        for t in range(pulls):
            drawn[t] = outcomes[t] < self.rate(level)
            level = np.asarray(moves[t] < self.drifted(level), dtype=float)
        return np.moveaxis(drawn, 0, -1)
