"""What is known while outcomes are pending, and the distribution of the pending ones.

Given its posterior Beta(a, b), the good ones among o pending outcomes of an arm are beta-binomial:

    P(j of o good) = C(o, j) B(a + j, b + o - j) / B(a, b)

in any order, and independently of those of other arms.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..problem import Problem, State

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PendingState:
    """Recorded outcomes and pending allocations of every arm, (arms,) each.

    Those of the stage under way are left out: pulls of one stage are decided on the same knowledge.
    """

    good: tuple[int, ...]
    bad: tuple[int, ...]
    open: tuple[int, ...]
    stage: int  # from 0: slots in use // pulls per stage
    taken: tuple[int, ...] = ()  # arms allocated in the stage under way, by position

    def __post_init__(self) -> None:
        for counts in ("good", "bad", "open", "taken"):
            object.__setattr__(self, counts, tuple(map(operator.index, getattr(self, counts))))
        if not len(self.good) == len(self.bad) == len(self.open):
            raise ValueError("pending state: needs one count of good, bad and open for each arm")
        if min((*self.good, *self.bad, *self.open), default=0) < 0:
            raise ValueError("pending state: counts cannot be negative")

    @property
    def pulls(self) -> tuple[int, ...]:
        """Of each arm, pending ones included."""
        return tuple(map(sum, zip(self.good, self.bad, self.open, strict=True)))

    @property
    def overdrawn(self) -> bool:
        """Whether an arm has more pulls than stages, which cancellations of others can cause."""
        return max(self.pulls) > self.stage

    def check(self, problem: Problem) -> None:
        """A ValueError unless it can be one of this problem."""
        arms, m = problem.number_of_arms, problem.pulls_per_stage
        if len(self.good) != arms:
            raise ValueError(f"pending state: {len(self.good)} arms; the problem has {arms}")
        if not 0 <= self.stage <= problem.horizon:
            raise ValueError(f"pending state: stage must be 0..{problem.horizon}")
        if not all(0 <= arm < arms for arm in self.taken):
            raise ValueError(f"pending state: taken arms must be at positions 0..{arms - 1}")
        if len(self.taken) >= m or (self.taken and self.stage == problem.horizon):
            raise ValueError("pending state: more arms are taken than the stage under way can have")
        if sum(self.pulls) != self.stage * m:
            raise ValueError(f"pending state: must have {m} pulls for each stage that is complete")


def pending_probabilities(a: float, b: float, count: int) -> Floats:
    """Probabilities of j = 0..count good ones among the pending outcomes, given Beta(a, b)."""
    if count == 0:
        return np.ones(1)
    j = np.arange(count)
    # each from the one before: sums of logarithms neither underflow nor cancel
    ratios = (count - j) * (a + j) / ((j + 1.0) * (b + count - 1.0 - j))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def posteriors(problem: Problem, pending: PendingState) -> Iterator[tuple[float, float]]:
    """Beta(a, b) of every arm given the recorded outcomes."""
    for arm, good, bad in zip(problem.arms, pending.good, pending.bad, strict=True):
        yield arm.beta.good + good, arm.beta.bad + bad


def expected_rewards(problem: Problem, pending: PendingState) -> Floats:
    """Of a pull of every arm now, (arms,).

    The posterior mean is a martingale: pending outcomes do not change its expectation.
    """
    stage, groups = pending.stage, [problem.groups[k] for k in problem.group_of_arm]
    bad = np.array([group.reward_bad[stage] for group in groups])
    spread = np.array([group.reward_good[stage] for group in groups]) - bad
    mean = np.array([a / (a + b) for a, b in posteriors(problem, pending)])
    return np.asarray(bad + spread * mean)


def drawn_state(problem: Problem, pending: PendingState, rng: np.random.Generator | None) -> State:
    """The state with the pending outcomes drawn; nothing is drawn where none is pending."""
    better = [0] * len(pending.open)
    for arm, (a, b) in enumerate(posteriors(problem, pending)):
        if pending.open[arm]:
            if rng is None:
                raise ValueError("pending outcomes are drawn: pass a random generator as rng")
            better[arm] = int(rng.binomial(pending.open[arm], rng.beta(a, b)))
    return _state(pending, better)


def ways(
    problem: Problem,
    pending: PendingState,
    rng: np.random.Generator | None,
    most: int,
) -> tuple[list[tuple[State, float]], bool]:
    """States after the pending outcomes, with probabilities, and whether they were drawn.

    All of them up to `most`; beyond, as many draws.
    """
    if math.prod(count + 1 for count in pending.open) > most:
        drawn = Counter(drawn_state(problem, pending, rng) for _ in range(most))
        return [(state, number / most) for state, number in drawn.items()], True
    chances = [
        pending_probabilities(a, b, count)
        for (a, b), count in zip(posteriors(problem, pending), pending.open, strict=True)
    ]
    found = []
    for better in itertools.product(*(range(count + 1) for count in pending.open)):
        weight = math.prod(float(own[j]) for own, j in zip(chances, better, strict=True))
        found.append((_state(pending, better), weight))
    return found, False


def _state(pending: PendingState, better: tuple[int, ...] | list[int]) -> State:
    """With so many good ones among the pending outcomes of each arm."""
    worse = map(operator.sub, pending.open, better)
    return State(
        good=tuple(map(operator.add, pending.good, better)),
        bad=tuple(map(operator.add, pending.bad, worse)),
    )
