"""Good and bad outcomes whose rate switches between a low and a high hidden level.

At every stage, an arm that is pulled shows an outcome at the rate of its level now; then the level
of every arm moves, pulled or not. What is known of an arm is the *belief* b, the probability that
its level is high before the outcome of this stage:

    good    b high / m, m = b high + (1 - b) low      bad    b (1 - high) / (1 - m)
    then    b <- up + (1 - up - down) b               of an arm that is not pulled: this alone
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ...support import Floats, TooLarge, refuse
from ..fields import Probability
from .base import ArmModel, OutcomesInOrder, PriorTable, Stats, StatsOverPulls
from .bernoulli import BernoulliFormat

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
