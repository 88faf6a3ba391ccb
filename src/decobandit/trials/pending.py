"""What is known while outcomes are pending, and the distribution of the pending ones.

Given what is known of an arm, its kind says what may be known after so many more outcomes
(`ArmModel.ahead`): of good and bad ones the good among them are beta-binomial. The order of
recorded outcomes does not matter, and arms are independent.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..problem import ArmModel, Problem, Seen, State, Stats, ahead_of
from ..support import Floats
from .allocations import kinds_of

MOST_AHEAD = 100_000  # states of an arm after its pending outcomes that are looked at


@dataclass(frozen=True)
class PendingState:
    """Recorded outcomes and pending pulls of every arm, (arms,) each."""

    good: tuple[int, ...]
    bad: tuple[int, ...]
    open: tuple[int, ...]
    stage: int  # from 0: slots in use // pulls per stage
    taken: tuple[int, ...] = ()  # arms that the stage has already, while it is decided
    others: tuple[Seen | None, ...] = ()  # of arms with other outcomes than good or bad

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
        found = tuple(map(sum, zip(self.good, self.bad, self.open, strict=True)))
        if not self.others:
            return found
        return tuple(
            n if other is None else n + other.pulls
            for n, other in zip(found, self.others, strict=True)
        )

    @property
    def stats(self) -> list[Stats]:
        """Of each arm, as its kind has them."""
        others = self.others or (None,) * len(self.good)
        known = zip(self.good, self.bad, others, strict=True)
        return [(good, bad) if other is None else other.stats for good, bad, other in known]

    @property
    def known(self) -> State:
        """The recorded outcomes."""
        return State(self.good, self.bad, self.others)

    def check(self, problem: Problem) -> None:
        """A ValueError unless it can be one of this problem."""
        arms, m = problem.n_arms, problem.pulls_per_stage
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


def posterior_means(problem: Problem, pending: PendingState) -> Floats:
    """Expected value of the next outcome of every arm, (arms,).

    Pending outcomes do not change its expectation, for it is a martingale; but of own states.
    """
    stats, found = pending.stats, np.empty(problem.n_arms)
    for group in problem.groups:
        own = list(group.members)
        found[own] = group.model.mean(np.array([stats[arm] for arm in own], dtype=float))
        for arm in own if group.model.ordered else ():
            ahead = ahead_of(group.model, stats[arm], pending.open[arm], MOST_AHEAD)
            if ahead is not None:
                found[arm] = ahead[0] @ group.model.mean(ahead[1])
    return found


def expected_rewards(problem: Problem, pending: PendingState) -> Floats:
    """Of a pull of every arm now, (arms,)."""
    stage, groups = pending.stage, [problem.groups[k] for k in problem.group_of_arm]
    base = np.array([group.reward_base[stage] for group in groups])
    factor = np.array([group.reward_factor[stage] for group in groups])
    return np.asarray(base + factor * posterior_means(problem, pending))


def drawn_state(problem: Problem, pending: PendingState, rng: np.random.Generator | None) -> State:
    """The state with the pending outcomes drawn; nothing is drawn where none is pending."""
    stats = pending.stats
    for arm, kind in enumerate(kinds_of(problem)):
        if pending.open[arm]:
            if rng is None:
                raise ValueError("pending outcomes are drawn: pass a random generator as rng")
            known = np.array(stats[arm], dtype=float)
            later = kind.sample_total(kind.sample(known, rng), known, pending.open[arm], rng)
            stats[arm] = tuple(later.tolist())
    return State.of_stats(problem, stats)


def drawn_ahead(
    kind: ArmModel, stats: Stats, count: int, rng: np.random.Generator | None, draws: int
) -> tuple[Floats, Floats]:
    """What may be known of an arm after so many more outcomes, drawn."""
    if rng is None:
        raise ValueError("pending outcomes are drawn: pass a random generator as rng")
    known = np.tile(np.array(stats, dtype=float), (draws, 1))
    later = kind.sample_total(kind.sample(known, rng), known, count, rng)
    return np.full(draws, 1.0 / draws), later


def ways(
    problem: Problem,
    pending: PendingState,
    rng: np.random.Generator | None,
    most: int,
) -> tuple[list[tuple[State, float]], bool]:
    """States after the pending outcomes, with probabilities, and whether they were drawn.

    All of them up to `most`; beyond, as many draws.
    """
    each = _each_ahead(problem, pending, most)
    if each is None:
        drawn = Counter(drawn_state(problem, pending, rng) for _ in range(most))
        return [(state, number / most) for state, number in drawn.items()], True
    found = []
    for together in itertools.product(*(zip(*own, strict=True) for own in each)):
        weight = math.prod(float(chance) for chance, _ in together)
        found.append((State.of_stats(problem, [stats for _, stats in together]), weight))
    return found, False


def _each_ahead(
    problem: Problem, pending: PendingState, most: int
) -> list[tuple[list[float], list[Stats]]] | None:
    """Of every arm what its pending outcomes may lead to; None where that is too many together."""
    found, number = list[tuple[list[float], list[Stats]]](), 1
    for kind, stats, count in zip(kinds_of(problem), pending.stats, pending.open, strict=True):
        own = ahead_of(kind, stats, count, most)
        number *= most + 1 if own is None else len(own[0])
        if own is None or number > most:
            return None
        found.append((own[0].tolist(), [tuple(each) for each in own[1].tolist()]))
    return found
