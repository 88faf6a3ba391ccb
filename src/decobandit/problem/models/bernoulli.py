"""Good and bad outcomes, beta prior."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from ...support import Floats, Ints, InvalidArgument
from ..fields import PriorWeight, plain_init
from .base import ArmModel, Outcome, OutcomeFormat, PriorTable, Stats, no_outcome, shared_out

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
