"""Sums over the episodes of one policy, from which estimates are made."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..support import refuse_over
from .draws import World
from .estimators import Estimate, Missed, Moments, Sample, usable
from .pull_records import PullRecord


class Dual(Protocol):
    """The dual function at the prices that gap terms are taken from."""

    def value(self) -> float: ...


class Played:
    """Sums over the episodes of each draw, and moments of the regret over draws.

    `by_stage`: the gap terms of every stage, too; `pulls`: every pull.
    """

    def __init__(self, world: World, *, by_stage: bool = False, pulls: bool = False) -> None:
        draws, stages = world.draws, world.problem.stages
        self.reward, self.mean_reward, self.predicted = np.zeros((3, draws))
        self.best, self.gap = np.zeros((2, draws))
        chunks = (world.chunk(i) for i in range(world.number_of_chunks))
        drawn = [(chunk.p, chunk.weights) for chunk in chunks]
        p = np.concatenate([each for each, _ in drawn])
        self.weights = np.concatenate([weights for _, weights in drawn])
        self.controls, self.control_sizes = world.controls(p, self.weights)
        self.p, self.pulls = p, np.zeros(p.shape)  # of every arm, over all episodes of a draw
        refuse_over(
            40.0 * world.number_of_chunks * stages, "regret by stage of so many draws",
            "use fewer draws",
        )  # fmt: skip
        self.moments = np.zeros((world.number_of_chunks, stages, 2 + self.controls.shape[1]))
        # sums of shortfall and congestion at each stage, and of their squares
        self.gap_terms = np.zeros((world.number_of_chunks, stages, 2, 2)) if by_stage else None
        self.record = PullRecord(world) if pulls else None
        self.seconds = 0.0
        self.preparation_seconds = 0.0

    def sample(self, world: World, gap: Dual | None) -> Sample:
        """Averages over the episodes of each draw."""
        share = 1.0 / world.per_draw
        expected = world.expected_best
        return Sample(
            reward=self.reward * share,
            mean_reward=self.mean_reward * share,
            predicted=None if world.truth is not None else self.predicted * share,
            best=None if expected is None else self.best,
            expected_best=expected,
            gap=None if gap is None else self.gap * share,
            upper_bound=None if gap is None else gap.value(),
            controls=self.controls,
            control_sizes=self.control_sizes,
            weights=self.weights,
            missed=self.missed(world),
        )

    def missed(self, world: World) -> Missed:
        """What the draws may have missed."""
        return world.missed(self.p, self.weights, self.pulls / world.per_draw)

    def regrets(self) -> list[Estimate]:
        """The regret after each stage, by a regression on the controls."""
        sums = self.moments.sum(axis=0)
        used = usable(self.controls, self.control_sizes)
        controls = Moments.of(self.controls[:, used])
        sums = sums[:, [0, 1, *(2 + j for j in used)]]
        return [controls.regress(row[0], row[1], row[2:])[1] for row in sums]
