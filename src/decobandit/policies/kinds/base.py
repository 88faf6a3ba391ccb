"""What policies for arms of any kind have in common: values of all arms in many states at once.

Notations
    E, K      states, or episodes that are in them; arms
    stats     (E, width) of each of the K arms, as its kind has them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...problem import DEFAULT_TIES, TIE_SIGNS, Problem, Rules, State, Stats, TieRule
from ...support import Floats, Ints
from ..allotting import Counts, largest_arms
from ..chances import Asked
from ..index_policy import IndexPolicy
from ..kernels.largest import pull_largest
from ..records import ArmIndex
from .chances import KindPosteriors
from .grouped import GroupedStats
from .pending import mean_values

if TYPE_CHECKING:
    from ..base import Policy
    from ..context import Context


class KindPolicy(IndexPolicy):
    """Pulls the arms of largest value; at a deployment, of largest expected reward."""

    in_units: ClassVar[bool] = False  # whether it shares batches
    by_arm: ClassVar[bool] = False  # whether the value of an arm depends on its own state alone

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        if problem.repeat and not self.in_units:
            raise ValueError(f"policy {self.name!r} chooses arms for single pulls")
        super().__init__(problem, ties=ties)
        self.groups = [problem.groups[k] for k in problem.group_of_arm]
        self._base = np.array([group.reward_base for group in self.groups])  # (K, stages)
        self._factor = np.array([group.reward_factor for group in self.groups])

    @classmethod
    def for_kinds(cls, context: Context) -> Policy:
        return cls.make(context)

    def values(
        self, stage: int, stats: Sequence[Floats], rng: np.random.Generator | None = None
    ) -> Floats:
        """What arms are compared by at a stage before any deployment, (E, K)."""
        return self.by_group(stats, lambda k, own: self.values_of(stage, k, own))

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """The same of arms of a group by their own statistics, (..., width) -> (...)."""
        raise ValueError(
            f"policy {self.name!r} has no index of a single arm: it looks at all of them"
        )

    def state_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        own, known = self.problem.groups[group], np.array(stats, dtype=float)
        reward = float(own.reward_base[stage] + own.reward_factor[stage] * own.model.mean(known))
        if stage >= self.problem.horizon:
            return ArmIndex(reward)
        index = self.exact_index(stage, group, known)
        if not self.splits_index:
            return ArmIndex(index)
        return ArmIndex(index, reward, index - reward, self.price(stage))

    def exact_index(self, stage: int, group: int, stats: Floats) -> float:
        """Index of one arm at a stage before any deployment, as exactly as it can be had."""
        return float(self.values_of(stage, group, stats[None])[0])

    def means(self, stats: Sequence[Floats]) -> Floats:
        """Expected value of the next outcome of every arm, (E, K)."""
        return self.by_group(stats, lambda k, own: self.problem.groups[k].model.mean(own))

    def by_group(self, stats: Sequence[Floats], each: Callable[[int, Floats], Floats]) -> Floats:
        """`each(group, stats)` of the arms of every group together, (E, K)."""
        grouped = GroupedStats.of(self.problem, stats)
        if len(self.problem.groups) == 1:
            return each(0, grouped.of_group(0))
        found = np.empty((len(stats[0]), len(stats)))
        for k, group in enumerate(self.problem.groups):
            found[:, group.members] = each(k, grouped.of_group(k))
        return found

    def rewards(self, stage: int, means: Floats) -> Floats:
        """What pulls of arms with these means earn, (E, K)."""
        return np.asarray(self._base[:, stage] + self._factor[:, stage] * means)

    def values_at(
        self, stage: int, stats: Sequence[Floats], rng: np.random.Generator | None = None
    ) -> Floats:
        """`values`, and at a deployment expected rewards."""
        if stage >= self.problem.horizon:
            return self.rewards(stage, self.means(stats))
        return self.values(stage, stats, rng)

    def choose_many(
        self,
        stage: int,
        stats: Sequence[Floats],
        pulls: Ints,
        rng: np.random.Generator | None = None,
    ) -> Ints:
        """Pulls of every arm in every state, (E, K); pulls (E, K): those so far, for ties."""
        values = self.values_at(stage, stats, rng)
        number = round(self.problem.pulls[stage])
        if self.ties != "random":
            given = np.zeros(pulls.shape, dtype=np.int64)
            pull_largest(values, pulls, number, self._tolerance, *TIE_SIGNS[self.ties], given)
            return given
        return largest_arms(values, pulls, number, self._tolerance, self.ties, rng)

    def shares_many(self, stage: int, stats: Sequence[Floats], pulls: Ints) -> Floats:
        """Chance that each arm is pulled, in every state, (E, K); 1 where nothing is drawn."""
        return self.choose_many(stage, stats, pulls).astype(float)

    def indices(self, stage: int, state: State) -> Floats:
        stats = [own[None, :] for own in state.stats(self.problem)]
        found: Floats = self.values_at(stage, stats)[0]
        return found

    def stats_of(self, known: Floats) -> list[Floats]:
        """Statistics of every arm from those of all in one array, (E, K, widest)."""
        return [known[:, k, : group.model.width] for k, group in enumerate(self.groups)]

    def allot_many(
        self, stage: int, pulls: Counts, good: Counts, rng: np.random.Generator | None = None
    ) -> Ints:
        """good: statistics of all arms, (E, K, widest)."""
        known = self.stats_of(np.asarray(good, dtype=float))
        return self.choose_many(stage, known, pulls.astype(np.int64), rng)

    def chances_many(
        self, stage: int, asked: Asked, rng: np.random.Generator | None = None
    ) -> Floats:
        """`asked.good`: statistics of all arms, (E, K, widest)."""
        known = self.stats_of(np.asarray(asked.good, dtype=float))
        if self.by_arm and stage < self.problem.horizon and asked.pending.any():
            values = self.pending_values(stage, known, asked.pending)
        else:  # a policy that compares arms otherwise uses what is known
            values = self.values_at(stage, known, rng)
        values = np.where(asked.allowed, values, -np.inf)
        if self.ties == "random":
            near = values >= values.max(axis=1, keepdims=True) - self._tolerance
            return np.asarray(near / near.sum(axis=1, keepdims=True))
        given = np.zeros(asked.pulls.shape, dtype=np.int64)
        pulls = np.ascontiguousarray(asked.pulls + asked.pending, dtype=np.int64)
        pull_largest(values, pulls, 1, self._tolerance, *TIE_SIGNS[self.ties], given)
        return given.astype(float)

    def pending_values(self, stage: int, stats: Sequence[Floats], pending: Counts) -> Floats:
        """`values` by arm, on average over outcomes that are pending, (E, K)."""
        columns = []
        for k, own in enumerate(stats):
            group = int(self.problem.group_of_arm[k])
            values = partial(self.values_of, stage, group)
            columns.append(mean_values(self.groups[k].model, values, own, pending[:, k]))
        return np.stack(columns, axis=1)

    def posteriors_by(self, rules: Rules) -> Any:
        """Posterior probabilities of looks, from statistics of all arms, (E, K, widest)."""
        return KindPosteriors(self.problem, rules)

    def indices_of(self, stage: int, arm: int, stats: Floats) -> Floats:
        every = [
            np.tile(np.array(g.model.initial(), dtype=float), (len(stats), 1)) for g in self.groups
        ]
        every[arm] = stats
        found: Floats = self.values_at(stage, every)[:, arm]
        return found

    @property
    def has_own_index(self) -> bool:
        return self.by_arm

    @property
    def has_table(self) -> bool:
        return False
