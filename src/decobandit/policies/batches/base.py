"""The base of policies for batches: whole units of every arm, for many states at once.

A policy says how many units each arm gets (`share_units`); the rest is the same for all. At a
deployment all take the largest posterior mean. Notations as in `allotting`.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np

from ...problem import (
    DEFAULT_TIES,
    Problem,
    Reward,
    State,
    States,
    TieRule,
    check_problem,
    tie_rule,
    tie_tolerance,
)
from ...support import Floats, Ints, pool, worker_count
from ..allotting import largest_arms, sole_arm
from ..asked_states import check_turn
from ..base import Policy
from ..chances import Allowed
from ..context import Context
from ..names import general_policies
from ..randomised import ArmArrays
from ..records import Allotments

EPISODES_PER_THREAD = 64  # fewer are not worth a thread


class BatchPolicy(Policy):
    """Shares the pulls of a stage among arms, in units.

    Parameters
    ----------
    problem : Problem
        One with `repeat`.
    ties : TieRule
        How ties are broken at the deployment, and between units where indices decide.
    """

    serves_batches = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        self.problem = check_problem(problem)
        if not problem.repeat:
            raise ValueError(
                f"policy {self.name!r} shares batches among arms: it needs a problem with repeat = "
                f"true (--batch); for single pulls use {general_policies()}"
            )
        self.ties = tie_rule(ties)
        self.arms = ArmArrays(problem)
        self.compared = ArmArrays(as_compared(problem))
        self.tolerance = tie_tolerance(problem)

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, ties=context.ties)

    @abstractmethod
    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        """Units of every arm at a stage before any deployment, (E, K); rows sum to the units.

        Only arms that `states` allows are given some.
        """

    # -- the protocol -------------------------------------------------------------------------

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """The arm of a deployment, or of a stage that is one pull."""
        return sole_arm(self.allocation(stage, state, rng), self.name)

    def allocation(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        check_turn(self.problem, stage, state)
        return super().allocation(stage, state, rng)

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        if stage >= self.problem.horizon:
            worth = self.arms.expected_rewards(stage, states)
            return largest_arms(worth, states.pulls, 1, self.tolerance, self.ties, rng)
        if rng is None and self.randomised:
            raise ValueError(f"policy {self.name!r} draws pulls: pass a random generator as rng")
        return self.problem.unit * self.share_units(stage, states, rng)

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        if stage >= self.problem.horizon:
            return super().probabilities(stage, states, rng)
        return np.asarray(self.share_units(stage, states, rng) / self.problem.units)

    def allotments(self, stage: int, state: State) -> Allotments:
        if stage < self.problem.horizon:
            if self.draws_arms:
                raise ValueError(
                    f"policy {self.name!r} draws pulls, or breaks ties, at random and does not "
                    "tell the probabilities: simulate it"
                )
            return [(self.allocation(stage, state), 1.0)]
        worth = self.arms.expected_rewards(stage, States.of(self.problem, [state]))
        if self.ties != "random":
            return [(self.allocation(stage, state), 1.0)]
        tied = np.flatnonzero(worth[0] >= worth[0].max() - self.tolerance)
        own = np.eye(worth.shape[1], dtype=int)
        return [(tuple(own[arm].tolist()), 1.0 / tied.size) for arm in tied]


def as_compared(problem: Problem) -> Problem:
    """The problem as policies see it that compare arms by the rewards of pulls.

    Where no outcome and no arm earns more than another before the deployment, as if a good outcome
    earned 1: they compare success probabilities, which decide the deployment.
    """
    rewards = [
        np.concatenate([group.reward_good[: problem.horizon], group.reward_bad[: problem.horizon]])
        for group in problem.groups
    ]
    if problem.terminal is None or float(np.ptp(rewards)) > 0.0:
        return problem
    arms = tuple(arm.model_copy(update={"reward": Reward()}) for arm in problem.arms)
    return problem.model_copy(update={"arms": arms})


def distinct_states(states: States) -> tuple[Ints, Ints, Ints, Ints]:
    """Group, pulls and good outcomes of the different states of single arms; where each arm is.

    The first three (states,), grouped by group; the last (E, K), positions among them.
    """
    problem, pulls, good = states.problem, states.pulls, states.good
    most = int(pulls.max(initial=0)) + 1
    code = (problem.group_of_arm * most + pulls) * most + good
    known, where = np.unique(code, return_inverse=True)
    group, rest = np.divmod(known, most * most)
    n, g = np.divmod(rest, most)
    return group, n, g, where.reshape(pulls.shape).astype(np.int64)


def with_none_of(values: Floats, none: Floats, where: Ints, allowed: Allowed | None) -> Floats:
    """Values of states with one more, `none`, which is the state of the arms not allowed.

    values (states, n), none (n,); where (E, K) is changed.
    """
    if allowed is None or allowed.all():
        return values
    where[~allowed] = len(values)
    return np.vstack([values, none])


def in_parts(episodes: int, work: Callable[[int, int], None]) -> None:
    """work(first, last) over all episodes, by threads."""
    number = worker_count(None, most=1 + episodes // EPISODES_PER_THREAD)
    edges = np.linspace(0, episodes, number + 1).astype(int).tolist()
    with pool(number) as threads:
        threads.map(lambda part: work(*part), itertools.pairwise(edges))
