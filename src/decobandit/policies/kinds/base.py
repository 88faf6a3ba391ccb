"""What policies for arms of any kind have in common: values of all arms in many states at once.

Notations
    E, K      joint states, arms
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...problem import DEFAULT_TIES, TIE_SIGNS, Problem, Rules, State, States, Stats, TieRule
from ...support import Floats, Ints
from ..allotting import largest_arms
from ..chances import of_allowed, pending_in, pulls_made
from ..index_policy import IndexPolicy
from ..kernels.largest import pull_largest
from ..records import ArmIndex
from .chances import KindChances
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

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        """What arms are compared by at a stage before any deployment, (E, K)."""
        return self.by_group(states, lambda k, own: self.values_of(stage, k, own))

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

    def means(self, states: States) -> Floats:
        """Expected value of the next outcome of every arm, (E, K)."""
        return self.by_group(states, lambda k, own: self.problem.groups[k].model.mean(own))

    def by_group(self, states: States, each: Callable[[int, Floats], Floats]) -> Floats:
        """`each(group, stats)` of the arms of every group together, (E, K)."""
        if len(self.problem.groups) == 1:
            return each(0, states.of_group(0))
        found = np.empty(states.stats.shape[:2])
        for k, group in enumerate(self.problem.groups):
            found[:, group.members] = each(k, states.of_group(k))
        return found

    def rewards(self, stage: int, means: Floats) -> Floats:
        """What pulls of arms with these means earn, (E, K)."""
        return np.asarray(self._base[:, stage] + self._factor[:, stage] * means)

    def values_at(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        """`values`, and at a deployment expected rewards."""
        if stage >= self.problem.horizon:
            return self.rewards(stage, self.means(states))
        return self.values(stage, states, rng)

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        values = of_allowed(self.values_at(stage, states, rng), states)
        number, pulls = round(self.problem.pulls[stage]), pulls_made(states)
        if self.ties != "random":
            given = np.zeros(pulls.shape, dtype=np.int64)
            pull_largest(values, pulls, number, self._tolerance, *TIE_SIGNS[self.ties], given)
            return given
        return largest_arms(values, pulls, number, self._tolerance, self.ties, rng)

    def indices(self, stage: int, state: State) -> Floats:
        found: Floats = self.values_at(stage, States.of(self.problem, [state]))[0]
        return found

    def arm_stats(self, states: States) -> list[Floats]:
        """Statistics of every arm, (E, width) each."""
        return [states.stats[:, k, : group.model.width] for k, group in enumerate(self.groups)]

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        if self.by_arm and stage < self.problem.horizon and pending_in(states).any():
            values = self.pending_values(stage, states)
        else:  # a policy that compares arms otherwise uses what is known
            values = self.values_at(stage, states, rng)
        values = of_allowed(values, states)
        if self.ties == "random":
            near = values >= values.max(axis=1, keepdims=True) - self._tolerance
            return np.asarray(near / near.sum(axis=1, keepdims=True))
        given = np.zeros(values.shape, dtype=np.int64)
        pulls = np.ascontiguousarray(pulls_made(states), dtype=np.int64)
        pull_largest(values, pulls, 1, self._tolerance, *TIE_SIGNS[self.ties], given)
        return given.astype(float)

    def pending_values(self, stage: int, states: States) -> Floats:
        """`values` by arm, on average over outcomes that are pending, (E, K)."""
        columns, pending = [], pending_in(states)
        for k, own in enumerate(self.arm_stats(states)):
            group = int(self.problem.group_of_arm[k])
            values = partial(self.values_of, stage, group)
            columns.append(mean_values(self.groups[k].model, values, own, pending[:, k]))
        return np.stack(columns, axis=1)

    def posteriors_by(self, rules: Rules) -> KindChances:
        return KindChances(self.problem, rules.margin, rewards=rules.compare == "reward")

    def indices_of(self, stage: int, arm: int, stats: Floats) -> Floats:
        every = States.initial(self.problem, len(stats)).stats.copy()
        every[:, arm, : stats.shape[1]] = stats
        found: Floats = self.values_at(stage, States(self.problem, every))[:, arm]
        return found

    @property
    def has_own_index(self) -> bool:
        return self.by_arm

    @property
    def has_table(self) -> bool:
        return False
