"""What simulated policies meet: parameters, outcome streams, and what would have been best.

Draws come in chunks of fixed size, each with a seed sequence of its own, spawned from the one of
the run: the same seed gives the same numbers, whatever the number of threads, and more draws keep
the full chunks of fewer. All policies meet the same chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .best_arm import best_mean_moments, best_mean_reward
from .kernels.episodes import NO_ACTION, Episodes
from .problem import MAX_HORIZON, Beta, Problem

Floats = npt.NDArray[np.float64]
CHUNK = 128  # draws


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some draws: their parameters and outcome streams."""

    p: Floats  # (draws, arms)
    keys: npt.NDArray[np.uint64]  # (episodes, arms)
    seed: np.random.SeedSequence  # of a policy that draws at random; the same for all policies
    per_draw: int

    def rng(self) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(self.seed))

    def episodes(self, stages: int, pulls: int) -> Episodes:
        """Nothing observed yet, and room for the actions of some stages."""
        states = np.zeros((2, *self.keys.shape), np.int32)
        actions = np.full((len(self.keys), stages, pulls), NO_ACTION, np.int32)
        p = np.repeat(self.p, self.per_draw, axis=0)
        return Episodes(p, self.keys, states[0], states[1], actions, self.per_draw)


class World:
    """Draws of the parameters of a problem, and the yardsticks that belong to them.

    problem: what really happens, its priors included; `truth`: fixed success probabilities
    instead of draws from the priors.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        draws: int,
        per_draw: int,
        seed: int,
        truth: Sequence[float] | None = None,
    ) -> None:
        self.problem = problem
        self.draws = draws
        self.per_draw = per_draw
        self.truth = truth
        self.seed = seed
        arms = [problem.groups[k] for k in problem.group_of_arm]
        self.good = np.array([arm.reward_good for arm in arms])  # (arms, stages)
        self.bad = np.array([arm.reward_bad for arm in arms])
        self._alpha = np.array([arm.alpha for arm in arms])
        self._beta = np.array([arm.beta for arm in arms])
        self._seeds = np.random.SeedSequence(seed).spawn(-(-draws // CHUNK))

    @property
    def number_of_chunks(self) -> int:
        return len(self._seeds)

    def chunk(self, number: int) -> Chunk:
        """Chunks are numbered from 0; the last one may be shorter."""
        seed = self._seeds[number]
        own, policy = (
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in range(2)
        )  # as spawn does, but the same at every call
        rng = np.random.default_rng(own)
        size = (min(CHUNK, self.draws - number * CHUNK), self.problem.number_of_arms)
        p = rng.beta(self._alpha, self._beta, size=size)
        if self.truth is not None:
            p[:] = self.truth
        keys = rng.integers(2**64, size=(size[0] * self.per_draw, size[1]), dtype=np.uint64)
        return Chunk(p, keys, policy, self.per_draw)

    def best(self, p: Floats, stage: int) -> Floats:
        """Sum of the largest mean rewards at a stage, (draws,)."""
        m = round(self.problem.pulls[stage])
        good, bad = self.good[:, stage], self.bad[:, stage]
        means = bad + (good - bad) * p
        return np.asarray(-np.partition(-means, m - 1, axis=1)[:, :m].sum(axis=1))

    @cached_property
    def changes(self) -> npt.NDArray[np.bool_]:
        """Whether a stage differs from the one before in rewards or pulls, (stages,)."""
        rows = np.vstack([self.good, self.bad, self.problem.pulls])
        return np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0))

    @cached_property
    def expected_best(self) -> float | None:
        """What the best arms earn in all; None where that is not defined."""
        return best_mean_reward(self.problem, self.truth)

    def controls(self, p: Floats) -> Floats:
        """Functions of the parameters minus their known means, (draws, q)."""
        if self.truth is not None:
            return np.empty((len(p), 0))
        good, bad = self.good[:, 0], self.bad[:, 0]
        best = (bad + (good - bad) * p).max(axis=1)
        first, second = self._best_moments
        mean = (self._alpha / (self._alpha + self._beta)).mean()
        return np.column_stack([best - first, best**2 - second, p.mean(axis=1) - mean])

    @cached_property
    def _best_moments(self) -> tuple[float, float]:
        return best_mean_moments(self.problem)


def true_problem(
    problem: Problem, truth_prior: Beta | Sequence[Beta] | None, true_horizon: int | None
) -> Problem:
    """The problem as it really is, where priors or horizon differ from what policies believe."""
    horizon = problem.horizon if true_horizon is None else true_horizon
    if not 1 <= horizon <= MAX_HORIZON:
        raise ValueError(f"true_horizon: {horizon} is not allowed; must be 1 to {MAX_HORIZON}")
    if horizon != problem.horizon:
        _refuse_other_horizon(problem)
    priors = truth_prior
    if priors is None or isinstance(priors, Beta):
        priors = [arm.prior if priors is None else priors for arm in problem.arms]
    if len(priors) != problem.number_of_arms:
        raise ValueError(f"truth_prior: {len(priors)} given; must be one, or one per arm")
    arms = tuple(
        arm.model_copy(update={"prior": prior})
        for arm, prior in zip(problem.arms, priors, strict=True)
    )
    return problem.model_copy(update={"arms": arms, "horizon": horizon})


def _refuse_other_horizon(problem: Problem) -> None:
    listed = any(
        isinstance(reward, tuple) for arm in problem.arms
        for reward in (arm.reward.good, arm.reward.bad)
    )  # fmt: skip
    last = problem.terminal is not None or any(arm.terminal is not None for arm in problem.arms)
    if listed or last:
        what = "rewards listed stage by stage" if listed else "a last reward after the horizon"
        raise ValueError(
            f"true_horizon: the problem has {what}; what happens at another horizon is known only "
            "for constant rewards without a last one"
        )
