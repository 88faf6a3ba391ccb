"""Groups of exchangeable arms: what algorithms need to know of the arms of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ..support import InvalidArgument, read_only
from .arms import NOT_YET, Arm, model_of
from .models.base import ArmModel
from .models.bernoulli import BernoulliModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PENALTY = 4.0  # of a pull outside the windows of an arm, in largest rewards of all pulls together


# no == by content: arrays have none, and == of problems must not trip over their cached groups
@dataclass(frozen=True, eq=False)
class Group:
    """Exchangeable arms, and what kernels need to know of any one of them (arrays: read-only).

    A pull at stage t of an arm whose next outcome is expected to count x earns reward_base[t] +
    reward_factor[t] x, weighted by the probability that the stage is played; outside the windows of
    an arm it costs a penalty that exceeds what a pull can ever be worth.
    """

    members: tuple[int, ...]  # positions of its arms in the problem
    model: ArmModel
    rewards: tuple[FloatArray, FloatArray]  # (stages,) each: good and bad, or factor and base
    stage_rewards: tuple[FloatArray, FloatArray]  # the same without weights and penalties
    available: NDArray[np.bool_]  # (stages,) whether a pull is possible
    terminal: FloatArray | None  # (slab,): row n, of n+1 entries, starts at n(n+1)/2
    weight: float = 1.0  # in the dual, of each arm: below 1 for a part of an arm

    @property
    def count(self) -> int:
        """Number of arms in the group."""
        return len(self.members)

    @property
    def mass(self) -> float:
        """Number of arms in the group, by their weight in the dual."""
        return self.weight * self.count

    @cached_property
    def largest_reward(self) -> float:
        """The largest of all rewards, last ones included, without its sign.

        Of outcomes that are numbers, those of the prior's mean and three deviations of it.
        """
        numbers = [self.reward_factor * x for x in self.model.usual]
        parts = self.rewards if self.model.counts_good else numbers
        parts = [part[self.available] for part in parts]
        parts += [] if self.terminal is None else [self.terminal]
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)

    def last_rewards(self, stats: FloatArray) -> FloatArray:
        """By the table of last rewards, of arms with these statistics, (..., width) -> (...)."""
        if self.terminal is None:
            return np.zeros(stats.shape[:-1])
        good, bad = stats[..., 0].astype(np.int64), stats[..., 1].astype(np.int64)
        n = good + bad
        return np.asarray(self.terminal[n * (n + 1) // 2 + good])

    @property
    def binary(self) -> BernoulliModel:
        """The beta prior; a ValueError where outcomes are not good or bad."""
        if not isinstance(self.model, BernoulliModel):
            raise InvalidArgument(NOT_YET.format(self.model.word))
        return self.model

    @property
    def alpha(self) -> float:
        """Prior count of good outcomes of a binary arm."""
        return self.binary.good

    @property
    def beta(self) -> float:
        """Prior count of bad outcomes of a binary arm."""
        return self.binary.bad

    @property
    def reward_good(self) -> FloatArray:
        """Reward of a good outcome of a binary arm, (stages,)."""
        assert self.binary  # others have no such reward
        return self.rewards[0]

    @property
    def reward_bad(self) -> FloatArray:
        """Reward of a bad outcome of a binary arm, (stages,)."""
        assert self.binary
        return self.rewards[1]

    @property
    def reward_base(self) -> FloatArray:
        """The reward of a pull that does not depend on its outcome, (stages,)."""
        return self.rewards[1]

    @cached_property
    def reward_factor(self) -> FloatArray:
        """The factor of the expected outcome, (stages,)."""
        return self._factor(*self.rewards)

    @cached_property
    def played_rewards(self) -> tuple[FloatArray, FloatArray]:
        """Base and factor of stages that are known to be played, (stages,) each."""
        return self.stage_rewards[1], self._factor(*self.stage_rewards)

    def _factor(self, first: FloatArray, base: FloatArray) -> FloatArray:
        return first - base if self.model.counts_good else first


# not kept in the problem: == compares what a problem keeps, and arrays cannot be compared so
@lru_cache(maxsize=64)
def group_of_arm(groups: tuple[Group, ...]) -> IntArray:
    """Position of each arm's group, (arms,)."""
    groups_by_arm = np.empty(sum(group.count for group in groups), dtype=np.int64)
    for number, group in enumerate(groups):
        groups_by_arm[list(group.members)] = number
    groups_by_arm.flags.writeable = False
    return groups_by_arm


def groups_of(
    arms: Sequence[Arm],
    survival: FloatArray,
    deploy: float | None,
    *,
    pulls_per_stage: int = 1,
    charged: FloatArray | None = None,
) -> tuple[Group, ...]:
    """Exchangeable arms (same prior, reward, last reward), in order of first appearance.

    survival (T,): probability that each stage is played; charged (T, arms): prices of the money and
    the resources that a pull takes, which are taken from its weighted reward: a budget holds also
    where every stage is played.
    """
    T, last = survival.size, () if deploy is None else (deploy,)
    none = (0.0,) * len(last)

    @cache  # one array for all groups with the same rewards
    def by_stage(reward: float | tuple[float, ...], last: tuple[float, ...]) -> FloatArray:
        return read_only(np.append(np.broadcast_to(reward, (T,)), last))

    members: dict[tuple[object, ...], list[int]] = {}
    by_objects: dict[tuple[int, ...], list[int]] = {}  # copies of an arm are read once
    for position, arm in enumerate(arms):
        objects = (arm.prior, arm.noise_sd, arm.available, arm.cost, arm.terminal)
        ids = tuple(map(id, (*objects, arm.reward, arm.drift_sd, arm.uses)))
        if ids not in by_objects:
            reward, uses = arm.reward, tuple(sorted((arm.uses or {}).items()))
            factors = (by_stage(getattr(reward, key), none).tobytes() for key in reward.per_stage)
            rest = (arm.drift_sd or None, reward.values, reward.cap, uses, *factors)
            by_objects[ids] = members.setdefault((*objects, *rest), [])
        by_objects[ids].append(position)

    groups = []
    for positions in members.values():
        arm = arms[positions[0]]
        model, reward = model_of(arm), arm.reward
        pair = (reward.good, reward.bad) if model.counts_good else (reward.factor, 0.0)
        rewards = by_stage(pair[0], last), by_stage(pair[1], none)
        first, second = (_weighted(part, survival) for part in rewards)
        if charged is not None:
            taken = np.append(charged[:, positions[0]], none)
            first, second = first - (taken if model.counts_good else 0.0), second - taken
        available = np.append(arm.is_available(T), np.ones(len(last), np.bool_))
        terminal = None
        if arm.terminal is not None:
            terminal = read_only(np.fromiter(chain.from_iterable(arm.terminal), np.float64))
        parts = (first, second), rewards, available, terminal
        groups.append(Group(tuple(positions), model, *parts))
    if all(group.available.all() for group in groups):
        return tuple(groups)
    largest = max(group.largest_reward for group in groups)
    penalty = -PENALTY * largest * (T + len(last)) * pulls_per_stage
    return tuple(_penalised(group, penalty) for group in groups)


def _weighted(rewards: FloatArray, survival: FloatArray) -> FloatArray:
    """Rewards in expectation over the end; those of a deployment, which has a known one, stay."""
    return rewards if np.all(survival == 1.0) else read_only(survival * rewards)


def _penalised(group: Group, penalty: float) -> Group:
    """Return the group with a penalty for pulls outside its windows."""
    # of good and of bad outcomes; or, of others, of the base and not of the factor
    first = penalty if group.model.counts_good else 0.0
    rewards = zip(group.rewards, (first, penalty), strict=True)
    good, bad = (read_only(np.where(group.available, local, less)) for local, less in rewards)
    return replace(group, rewards=(good, bad))
