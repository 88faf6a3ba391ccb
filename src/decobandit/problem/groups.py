"""Groups of exchangeable arms: what algorithms need to know of the arms of a problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..support import InvalidArgument, read_only
from .arms import NOT_YET, OUTCOME_KEYS, Arm, model_of
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
    reward_factor[t] x. Where the horizon is random, this is weighted by the probability that the
    stage is played; outside the windows of an arm a pull costs a penalty that exceeds what a pull
    can ever be worth. `stage_rewards` are what a pull earns if it is made. Priors and rewards of
    good and bad outcomes are there for arms that have such outcomes only: reading them of others is
    refused.
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
        parts = (
            [*self.rewards]
            if self.is_binary
            else [self.reward_factor * x for x in self.model.usual]
        )
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
    def is_binary(self) -> bool:
        """Whether outcomes are good or bad."""
        return isinstance(self.model, BernoulliModel)

    @property
    def binary(self) -> BernoulliModel:
        """The beta prior; a ValueError where outcomes are not good or bad."""
        if not isinstance(self.model, BernoulliModel):
            raise InvalidArgument(NOT_YET.format(self.model.word))
        return self.model

    @property
    def alpha(self) -> float:
        """Prior count of good outcomes of an arm."""
        return self.binary.good

    @property
    def beta(self) -> float:
        """Prior count of bad outcomes of an arm."""
        return self.binary.bad

    @property
    def reward_good(self) -> FloatArray:
        """Reward of a good outcome, (stages,)."""
        return self._of_outcomes(0)

    @property
    def reward_bad(self) -> FloatArray:
        """Reward of a bad outcome, (stages,)."""
        return self._of_outcomes(1)

    def _of_outcomes(self, position: int) -> FloatArray:
        assert self.binary
        return self.rewards[position]

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
        return first - base if self.is_binary else first


# not kept in the problem: == compares what a problem keeps, and arrays cannot be compared so
@lru_cache(maxsize=64)
def group_of_arm(groups: tuple[Group, ...]) -> IntArray:
    """Position of each arm's group, (arms,)."""
    groups_by_arm = np.empty(sum(group.count for group in groups), dtype=np.int64)
    for number, group in enumerate(groups):
        groups_by_arm[list(group.members)] = number
    groups_by_arm.flags.writeable = False
    return groups_by_arm


class _Shared:
    """Read-only arrays made by `build`, one object per content: equality is then identity."""

    def __init__(self, build: Callable[[Any], FloatArray]) -> None:
        self._build = build
        self._by_source: dict[object, FloatArray] = {}
        self._by_content: dict[bytes, FloatArray] = {}

    def __call__(self, source: object) -> FloatArray:
        # numbers by value, tuples by identity: neither is read again for each of many copies
        key = source if isinstance(source, float) else ("id", id(source))
        if key not in self._by_source:
            array = self._build(source)
            array.flags.writeable = False
            self._by_source[key] = self._by_content.setdefault(array.tobytes(), array)
        return self._by_source[key]


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
    T = survival.size
    always = np.ones(T + (deploy is not None), np.bool_)
    last_good = [] if deploy is None else [deploy]
    last_bad = [0.0] * len(last_good)
    good = _Shared(lambda reward: np.append(np.broadcast_to(reward, (T,)), last_good))
    bad = _Shared(lambda reward: np.append(np.broadcast_to(reward, (T,)), last_bad))
    flat = _Shared(lambda table: np.fromiter(chain.from_iterable(table), np.float64))

    members: dict[object, list[int]] = {}
    contents: dict[object, tuple[Arm, tuple[FloatArray, FloatArray], FloatArray | None]] = {}
    for position, arm in enumerate(arms):
        prior, reward = arm.prior, arm.reward
        if reward.keys is OUTCOME_KEYS:
            rewards = good(reward.good), bad(reward.bad)
        else:
            rewards = good(reward.factor), bad(0.0)
        measured = (arm.noise_sd, arm.drift_sd or None)
        identity = (prior, measured, reward.values, reward.cap, arm.available, arm.cost)
        uses = tuple(sorted((arm.uses or {}).items()))
        terminal = None if arm.terminal is None else flat(arm.terminal)
        # the arrays outlive this loop, so that their ids stay theirs
        key = (*identity, uses, *map(id, rewards), id(terminal))
        contents[key] = (arm, rewards, terminal)
        members.setdefault(key, []).append(position)

    groups = []
    for own_key, (arm, rewards, terminal) in contents.items():
        available = always.copy()
        available[:T] = arm.is_available(T)
        model = model_of(arm)
        weighted = _weighted(rewards[0], survival), _weighted(rewards[1], survival)
        if charged is not None:
            taken = np.append(charged[:, members[own_key][0]], last_bad)
            binary = isinstance(model, BernoulliModel)
            weighted = weighted[0] - (taken if binary else 0.0), weighted[1] - taken
        groups.append(Group(tuple(members[own_key]), model, weighted, rewards, available, terminal))
    if all(group.available.all() for group in groups):
        return tuple(groups)
    largest = max(group.largest_reward for group in groups)
    penalty = -PENALTY * largest * always.size * pulls_per_stage
    return tuple(_penalised(group, penalty) for group in groups)


def _weighted(rewards: FloatArray, survival: FloatArray) -> FloatArray:
    """Rewards in expectation over the end; those of a deployment, which has a known one, stay."""
    if np.all(survival == 1.0):
        return rewards
    array = survival * rewards
    array.flags.writeable = False
    return array


def _penalised(group: Group, penalty: float) -> Group:
    """Return the group with a penalty for pulls outside its windows."""
    # of good and of bad outcomes; or, of others, of the base and not of the factor
    first = penalty if group.is_binary else 0.0
    rewards = zip(group.rewards, (first, penalty), strict=True)
    good, bad = (read_only(np.where(group.available, local, less)) for local, less in rewards)
    return replace(group, rewards=(good, bad))
