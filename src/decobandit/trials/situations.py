"""What is known when an arm is asked for, and what may be behind the outcomes that are still open.

Given its posterior Beta(a, b), the good ones among o open outcomes of an arm are beta-binomial:

    P(j of o good) = C(o, j) B(a + j, b + o - j) / B(a, b)

in whatever order they will come, and independent of those of other arms.
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

from ..problem import Problem
from ..state import State

Floats = npt.NDArray[np.float64]
MOST_WAYS = 256  # in which all open outcomes together are looked at one by one; beyond it, drawn
FEW_WAYS = 16  # the same where each takes long


@dataclass(frozen=True)
class Situation:
    """Told outcomes and open allocations of every arm, (arms,) each.

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
            raise ValueError("situation: must have one count of good, bad and open for each arm")
        if min((*self.good, *self.bad, *self.open), default=0) < 0:
            raise ValueError("situation: counts cannot be negative")

    @property
    def pulls(self) -> tuple[int, ...]:
        """Of each arm, open ones included."""
        return tuple(map(sum, zip(self.good, self.bad, self.open, strict=True)))

    @property
    def overdrawn(self) -> bool:
        """Whether an arm has more pulls than stages, as cancellations of others can leave it."""
        return max(self.pulls) > self.stage

    def check(self, problem: Problem) -> None:
        """A ValueError unless it can be one of this problem."""
        arms, m = problem.number_of_arms, problem.pulls_per_stage
        if len(self.good) != arms:
            raise ValueError(f"situation: {len(self.good)} arms; must be {arms}, as in the problem")
        if not 0 <= self.stage <= problem.horizon:
            raise ValueError(f"situation: stage must be 0..{problem.horizon}")
        if not all(0 <= arm < arms for arm in self.taken):
            raise ValueError(f"situation: taken arms must be at positions 0..{arms - 1}")
        if len(self.taken) >= m or (self.taken and self.stage == problem.horizon):
            raise ValueError("situation: more arms are taken than the stage under way can have")
        if sum(self.pulls) != self.stage * m:
            raise ValueError(f"situation: pulls in all must be {m} for each stage that is complete")


def open_chances(a: float, b: float, count: int) -> Floats:
    """Chances of j = 0..count good ones among the open outcomes of an arm in Beta(a, b)."""
    if count == 0:
        return np.ones(1)
    j = np.arange(count)
    # each chance by the one before: sums of logarithms neither vanish nor cancel
    ratios = (count - j) * (a + j) / ((j + 1.0) * (b + count - 1.0 - j))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def posteriors(problem: Problem, situation: Situation) -> Iterator[tuple[float, float]]:
    """Beta(a, b) of every arm by the told outcomes."""
    for arm, good, bad in zip(problem.arms, situation.good, situation.bad, strict=True):
        yield arm.prior.good + good, arm.prior.bad + bad


def drawn_state(problem: Problem, situation: Situation, rng: np.random.Generator | None) -> State:
    """The state with the open outcomes drawn; nothing is drawn where none is open."""
    better = [0] * len(situation.open)
    for arm, (a, b) in enumerate(posteriors(problem, situation)):
        if situation.open[arm]:
            if rng is None:
                raise ValueError("open outcomes are drawn: pass a random generator as rng")
            better[arm] = int(rng.binomial(situation.open[arm], rng.beta(a, b)))
    return _state(situation, better)


def ways(
    problem: Problem,
    situation: Situation,
    rng: np.random.Generator | None,
    most: int = MOST_WAYS,
) -> tuple[list[tuple[State, float]], bool]:
    """States after the open outcomes of all arms with their chances, and whether they were drawn.

    All of them up to `most`; beyond, as many draws.
    """
    if math.prod(count + 1 for count in situation.open) > most:
        drawn = Counter(drawn_state(problem, situation, rng) for _ in range(most))
        return [(state, number / most) for state, number in drawn.items()], True
    chances = [
        open_chances(a, b, count)
        for (a, b), count in zip(posteriors(problem, situation), situation.open, strict=True)
    ]
    found = []
    for better in itertools.product(*(range(count + 1) for count in situation.open)):
        weight = math.prod(float(own[j]) for own, j in zip(chances, better, strict=True))
        found.append((_state(situation, better), weight))
    return found, False


def _state(situation: Situation, better: tuple[int, ...] | list[int]) -> State:
    """With so many good ones among the open outcomes of each arm."""
    worse = map(operator.sub, situation.open, better)
    return State(
        good=tuple(map(operator.add, situation.good, better)),
        bad=tuple(map(operator.add, situation.bad, worse)),
    )
