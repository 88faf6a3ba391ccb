"""Batches of arms of any kind: DeCo, Thompson sampling, greedy, equal.

What they do is what their namesakes in `policies/batches/` do, on statistics of any kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...arm import OneArmValues
from ...problem import DEFAULT_TIES, Problem, State, States, TieRule
from ...support import Floats, Ints
from ..allotting import largest_arms, sole_arm
from ..asked_states import check_turn
from ..batches.deco import knapsacks
from ..chances import of_allowed
from ..fixed_prices import FixedPricePolicy
from .base import KindPolicy
from .rules import refuse_own_arms


class KindBatchPolicy(KindPolicy):
    """Shares the pulls of a stage among arms, in units; deploys the largest expected reward."""

    in_units = True
    serves_batches = True

    @abstractmethod
    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        """Units of every arm at a stage before any deployment, (E, K).

        Only arms that `states` allows are given some.
        """

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        if stage >= self.problem.horizon:
            worth = self.rewards(stage, self.means(states))
            return largest_arms(worth, states.pulls, 1, self._tolerance, self.ties, rng)
        if rng is None and self.randomised:
            raise ValueError(f"policy {self.name!r} draws pulls: pass a random generator as rng")
        return self.problem.unit * self.share_units(stage, states, rng)

    def allocation(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        check_turn(self.problem, stage, state)
        return super().allocation(stage, state, rng)

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        return np.asarray(self.share_units(stage, states, rng) / self.problem.units)

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """The arm of a deployment, or of a stage that is one pull."""
        return sole_arm(self.allocation(stage, state, rng), self.name)

    def indices(self, stage: int, state: State) -> None:  # type: ignore[override]
        """None: batches are not decided by an index of single arms."""

    def unit_by_unit(
        self, values: Callable[[Ints], Floats], states: States, rng: np.random.Generator | None
    ) -> Ints:
        """Each unit to the arm of largest value, given the pulls and what the batch has so far."""
        given = np.zeros(states.pulls.shape, dtype=np.int64)
        for _ in range(self.problem.units):
            now = states.pulls + self.problem.unit * given
            worth = of_allowed(values(now), states)
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
    relaxation: OneArmValues

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = OneArmValues(problem, prices)

    def price(self, stage: int) -> float:
        """Of one pull."""
        units = self.problem.unit if stage < self.problem.horizon else 1
        return float(self.prices[stage]) / units

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        E, K = states.stats.shape[:2]
        worth = np.empty((E, K, self.problem.units + 1))
        for k, group in enumerate(self.problem.groups):
            own = self.relaxation.unit_values(stage, k, states.of_group(k))
            worth[:, list(group.members)] = own
        return knapsacks(worth.reshape(E * K, -1), np.arange(E * K).reshape(E, K), states.allowed)


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

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        assert rng is not None
        given, every = np.zeros(states.pulls.shape, dtype=np.int64), np.arange(len(states))
        kinds = [group.model for group in self.problem.groups]
        for _ in range(self.problem.units):
            drawn = self.by_group(
                states, lambda k, own: kinds[k].mean_at(kinds[k].sample(own, rng))
            )
            worth = of_allowed(self.rewards(self.compared(stage), drawn), states)
            given[every, worth.argmax(axis=1)] += 1
        return given


class KindBatchGreedyPolicy(KindBatchPolicy):
    """Gives each unit to the arm of largest expected reward: all to one, but for ties."""

    name = "greedy"

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        worth = self.rewards(self.compared(stage), self.means(states))
        return self.unit_by_unit(lambda now: worth, states, rng)


class KindBatchEqualPolicy(KindBatchPolicy):
    """Gives each unit to the arm of fewest pulls."""

    name = "equal"

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        return self.unit_by_unit(lambda now: -now.astype(float), states, rng)
