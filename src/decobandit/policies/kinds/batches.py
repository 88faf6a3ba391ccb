"""Batches of arms of any kind: DeCo, Thompson sampling, greedy, equal.

What they do is what their namesakes in `policies/batches/` do, on statistics of any kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ...arm import UnitRelaxation
from ...problem import DEFAULT_TIES, Problem, State, TieRule
from ...support import Floats, Ints
from ..allotting import largest_arms, sole_arm
from ..asked_states import check_turn
from ..batches.deco import knapsacks
from ..chances import Allowed, Asked
from ..fixed_prices import FixedPricePolicy
from .base import KindPolicy
from .grouped import GroupedStats
from .rules import refuse_own_arms


class KindBatchPolicy(KindPolicy):
    """Shares the pulls of a stage among arms, in units; deploys the largest expected reward."""

    in_units = True
    serves_batches = True

    @abstractmethod
    def share_units(
        self, stage: int, stats: GroupedStats, pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        """Units of every arm at a stage before any deployment, (E, K).

        allowed (E, K): arms that may be given some; all where it is None.
        """

    def choose_many(
        self,
        stage: int,
        stats: Sequence[Floats],
        pulls: Ints,
        rng: np.random.Generator | None = None,
    ) -> Ints:
        if stage >= self.problem.horizon:
            worth = self.rewards(stage, self.means(stats))
            return largest_arms(worth, pulls, 1, self._tolerance, self.ties, rng)
        if rng is None and self.randomised:
            raise ValueError(f"policy {self.name!r} draws pulls: pass a random generator as rng")
        grouped = GroupedStats.of(self.problem, stats)
        return self.problem.unit * self.share_units(stage, grouped, pulls, rng)

    def allot(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        check_turn(self.problem, stage, state)
        stats = [own[None, :] for own in state.stats(self.problem)]
        (given,) = self.choose_many(stage, stats, np.array([state.pulls]), rng).tolist()
        return tuple(given)

    def chances_many(
        self, stage: int, asked: Asked, rng: np.random.Generator | None = None
    ) -> Floats:
        known = self.stats_of(np.asarray(asked.good, dtype=float))
        grouped = GroupedStats.of(self.problem, known)
        units = self.share_units(
            stage, grouped, np.asarray(asked.pulls, dtype=np.int64), rng, asked.allowed
        )
        return np.asarray(units / self.problem.units)

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """The arm of a deployment, or of a stage that is one pull."""
        return sole_arm(self.allot(stage, state, rng), self.name)

    def indices(self, stage: int, state: State) -> None:  # type: ignore[override]
        """None: batches are not decided by an index of single arms."""

    def unit_by_unit(
        self, values: Callable[[Ints], Floats], pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        """Each unit to the arm of largest value, given the pulls and what the batch has so far."""
        given = np.zeros(pulls.shape, dtype=np.int64)
        for _ in range(self.problem.units):
            now = pulls + self.problem.unit * given
            worth = of_allowed(values(now), allowed)
            given += largest_arms(worth, now, 1, self._tolerance, self.ties, rng)
        return given

    def compared(self, stage: int) -> int:
        """The stage by whose rewards means are compared: the deployment, where only that pays."""
        last = self.problem.stages - 1
        return stage if np.any(self._factor[:, stage] != 0.0) else last


class KindBatchDecoPolicy(FixedPricePolicy, KindBatchPolicy):
    """DeCo at fixed prices: units by an exact knapsack over what they are worth."""

    name = "deco"
    cost = "tables"
    relaxation: UnitRelaxation

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = UnitRelaxation(problem, prices)

    def price(self, stage: int) -> float:
        """Of one pull."""
        units = self.problem.unit if stage < self.problem.horizon else 1
        return float(self.prices[stage]) / units

    def share_units(
        self, stage: int, stats: GroupedStats, pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        E, K = pulls.shape
        worth = np.empty((E, K, self.problem.units + 1))
        for k, group in enumerate(self.problem.groups):
            own = self.relaxation.unit_values(stage, k, stats.of_group(k))
            worth[:, list(group.members)] = own
        return knapsacks(worth.reshape(E * K, -1), np.arange(E * K).reshape(E, K), allowed)


class KindBatchCalibratedPolicy(KindBatchDecoPolicy):
    """DeCo by the name of the default: an index of single pulls does not share a batch."""

    name = "deco-calibrated"


class KindBatchThompsonPolicy(KindBatchPolicy):
    """Gives each unit to the arm of the largest draw."""

    name = "thompson"
    randomised = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        refuse_own_arms(problem, self.name)

    def share_units(
        self, stage: int, stats: GroupedStats, pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        assert rng is not None
        given, every = np.zeros(pulls.shape, dtype=np.int64), np.arange(len(pulls))
        kinds = [group.model for group in self.problem.groups]
        for _ in range(self.problem.units):
            drawn = self.by_group(stats, lambda k, own: kinds[k].mean_at(kinds[k].sample(own, rng)))
            worth = of_allowed(self.rewards(self.compared(stage), drawn), allowed)
            given[every, worth.argmax(axis=1)] += 1
        return given


class KindBatchGreedyPolicy(KindBatchPolicy):
    """Gives each unit to the arm of largest expected reward: all to one, but for ties."""

    name = "greedy"

    def share_units(
        self, stage: int, stats: GroupedStats, pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        worth = self.rewards(self.compared(stage), self.means(stats))
        return self.unit_by_unit(lambda now: worth, pulls, rng, allowed)


class KindBatchEqualPolicy(KindBatchPolicy):
    """Gives each unit to the arm of fewest pulls."""

    name = "equal"

    def share_units(
        self, stage: int, stats: GroupedStats, pulls: Ints, rng: np.random.Generator | None,
        allowed: Allowed | None = None,
    ) -> Ints:  # fmt: skip
        return self.unit_by_unit(lambda now: -now.astype(float), pulls, rng, allowed)


def of_allowed(values: Floats, allowed: Allowed | None) -> Floats:
    """The same, and never the largest for arms that are not allowed."""
    return values if allowed is None else np.where(allowed, values, -np.inf)
