"""Inputs of a simulation: success probabilities, outcome streams, and the reward of the best arms.

Draws come in chunks of fixed size, each with a seed sequence of its own, spawned from the one of
the run: the same seed gives the same numbers, whatever the number of threads, and more draws keep
the full chunks of fewer. All policies meet the same chunks. Where a prior is nearly certain, draws
have weights; see `proposals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..policies.kernels.episodes import NO_ACTION, Episodes
from ..problem import Problem, best_mean_moments, best_mean_reward
from ..support import Floats
from .chunks import Chunked
from .estimators import MIN_DRAWS, Missed
from .proposals import OWN, Proposal

CHUNK = 128  # draws


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some draws: their parameters and outcome streams."""

    p: Floats  # (draws, arms)
    weights: Floats  # (draws,) what each counts, 1 on average
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


class World(Chunked):
    """Draws of the success probabilities of a problem, and the rewards of the best arms in them.

    problem: what really happens, its priors included; `truth`: fixed success probabilities
    instead of draws from the priors. `weighted`: whether draws may have weights; without, all come
    from the priors themselves.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        draws: int,
        per_draw: int,
        seed: int,
        truth: Sequence[float] | None = None,
        weighted: bool = True,
    ) -> None:
        super().__init__(draws, CHUNK, seed)
        self.problem = problem
        self.per_draw = per_draw
        self.truth = truth
        arms = [problem.groups[k] for k in problem.group_of_arm]
        self.good = np.array([arm.reward_good for arm in arms])  # (arms, stages)
        self.bad = np.array([arm.reward_bad for arm in arms])
        self.pulls = problem.pulls.copy()  # (stages,) in single pulls; 1 at a deployment
        self.pulls[: problem.horizon] *= problem.unit
        self._alpha = np.array([arm.alpha for arm in arms])
        self._beta = np.array([arm.beta for arm in arms])
        self._proposal = Proposal(self._alpha, self._beta)
        self.weighted = weighted and truth is None and self._proposal.widened

    @property
    def largest_weight(self) -> float:
        """What no draw counts more than."""
        return 1.0 / OWN if self.weighted else 1.0

    @property
    def priors(self) -> tuple[Floats, Floats]:
        """alpha and beta of every arm, each (arms,)."""
        return self._alpha, self._beta

    def chunk(self, number: int) -> Chunk:
        """The draws of a chunk."""
        rng, policy, draws = self.opened(number)
        size = (draws, self.problem.n_arms)
        p = rng.beta(self._alpha, self._beta, size=size)
        if self.truth is not None:
            p[:] = self.truth
        keys = rng.integers(2**64, size=(size[0] * self.per_draw, size[1]), dtype=np.uint64)
        weights = np.ones(size[0])
        if self.weighted:
            self._proposal.replace(p, rng)
            weights = self._proposal.weights(p)
        return Chunk(p, weights, keys, policy, self.per_draw)

    def best(self, p: Floats, stage: int) -> Floats:
        """Sum of the largest mean rewards at a stage, (draws,)."""
        m = round(self.pulls[stage])
        good, bad = self.good[:, stage], self.bad[:, stage]
        means = bad + (good - bad) * p
        if self.problem.repeat:  # the best arm takes the whole of a batch
            return np.asarray(m * means.max(axis=1))
        return np.asarray(-np.partition(-means, m - 1, axis=1)[:, :m].sum(axis=1))

    @cached_property
    def changes(self) -> npt.NDArray[np.bool_]:
        """Whether a stage differs from the one before in rewards or pulls, (stages,)."""
        rows = np.vstack([self.good, self.bad, self.pulls])
        return np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0))

    @cached_property
    def expected_best(self) -> float | None:
        """What the best arms earn in all; None where that is not defined."""
        return best_mean_reward(self.problem, self.truth)

    def controls(self, p: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Functions of the parameters minus their known means, weighted: (draws, q); sizes (q,)."""
        if self.truth is not None:
            return np.empty((len(p), 0)), np.empty(0)
        good, bad = self.good[:, self._telling], self.bad[:, self._telling]
        best = (bad + (good - bad) * p).max(axis=1)
        first, second = self._best_moments
        mean = (self._alpha / (self._alpha + self._beta)).mean()
        own = np.column_stack([best - first, best**2 - second, p.mean(axis=1) - mean])
        largest = float(np.abs([good, bad]).max())
        sizes = np.array([largest, largest**2, 1.0])
        if not self.weighted:
            return own, sizes
        own = np.column_stack([weights - 1.0, weights[:, None] * own])  # the surest first
        return own, np.append(1.0, sizes)

    @cached_property
    def _best_moments(self) -> tuple[float, float]:
        return best_mean_moments(self.problem, self._telling)

    @cached_property
    def _telling(self) -> int:
        """The first stage at which rewards tell arms apart; where none does, stage 0."""
        apart = np.ptp(np.concatenate([self.good, self.bad]), axis=0) > 0.0
        return int(np.argmax(apart))

    @cached_property
    def ranges(self) -> Floats:
        """How far apart the rewards of two episodes can be, by stage; last rewards at the end."""
        arms = np.concatenate([self.good, self.bad])
        ranges = self.pulls * (arms.max(axis=0) - arms.min(axis=0))
        tables = [self.problem.groups[k].terminal for k in self.problem.group_of_arm]
        ranges[-1] += sum(float(np.ptp(table)) for table in tables if table is not None)
        return np.asarray(ranges, dtype=np.float64)

    @cached_property
    def size(self) -> float:
        """Largest sum of the absolute rewards of an episode."""
        largest = np.abs(np.concatenate([self.good, self.bad])).max(axis=0)
        tables = [self.problem.groups[k].terminal for k in self.problem.group_of_arm]
        last = sum(float(np.abs(table).max()) for table in tables if table is not None)
        return float(self.pulls @ largest) + last

    @cached_property
    def most(self) -> float:
        """What no episode earns more than."""
        best = self.pulls * np.concatenate([self.good, self.bad]).max(axis=0)
        tables = [self.problem.groups[k].terminal for k in self.problem.group_of_arm]
        return float(best.sum() + sum(table.max() for table in tables if table is not None))

    def missed(self, p: Floats, weights: Floats, pulls: Floats | None = None) -> Missed:
        """What draws p with these weights may have missed.

        pulls: of every arm in an episode of each draw, (draws, arms); by default all that there can
        be.
        """
        apart, most = float(self.ranges.sum()), self.largest_weight
        pulls = np.full(p.shape, float(self.problem.most_pulls)) if pulls is None else pulls
        middle, chance = self.most - apart / 2.0, self._unseen(p, weights, pulls)
        return Missed(apart, most * apart, most * self.size, middle, chance)

    def _unseen(self, p: Floats, weights: Floats, pulls: Floats) -> float:
        """Chance that an episode has an outcome of a kind that the draws p hardly ever had.

        The rarer outcome of a pull has probability min(p, 1 - p). Arms alike are taken together;
        those for which MIN_DRAWS such outcomes were to be expected in all episodes have been seen.
        """
        rare = np.minimum(p, 1.0 - p) * pulls  # expected number in an episode
        chance = 0.0
        for k in range(len(self.problem.groups)):
            own = rare[:, self.problem.group_of_arm == k].sum(axis=1)
            if own.sum() * self.per_draw < MIN_DRAWS:
                chance += float((weights * np.minimum(own, 1.0)).mean())
        return min(chance, 1.0)
