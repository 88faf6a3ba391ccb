"""The relaxed problem at given prices: values, indices and their two terms, at any stage.

Tables for all stages would need horizon^3 / 6 numbers. Where that is too much, only a chain of
stages is kept, each half as far from the stage asked for as the one before; the others are swept
again when they are needed. Walking through the stages in order costs a factor of log2(horizon) / 2
over one sweep, and memory stays at about log2(horizon) slabs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..problem import Problem, check_problem, refuse_batches, refuse_kinds
from ..problem.kernels.layout import slab_size
from ..support import Floats
from .kernels.indices import index_terms, stage_index
from .price_checks import price_array
from .sweeps import sweep_back

KEEP_ALL_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Terms:
    """What a pull is worth: expected reward now, and the value of what it teaches."""

    expected_reward: float
    value_of_information: float

    @property
    def index(self) -> float:
        return self.expected_reward + self.value_of_information


class Relaxation:
    """One-arm problems of all groups at fixed prices.

    Parameters
    ----------
    problem, prices
        As in `dual_value`.
    keep_all_bytes : int
        Memory up to which the tables of all stages are kept; beyond, some are computed again.

    Raises
    ------
    ValueError
        If the prices do not fit, as in `dual_value`.

    Examples
    --------
    >>> from decobandit import Problem, Relaxation
    >>> tables = Relaxation(Problem.uniform(arms=2, horizon=3), [0.6, 0.55, 0.5])
    >>> tables.terms(stage=0, group=0, good=0, bad=0).expected_reward
    0.5
    """

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, keep_all_bytes: int = KEEP_ALL_BYTES
    ) -> None:
        self.problem = check_problem(problem)
        refuse_batches(problem, "tables of single pulls")
        refuse_kinds(problem, "tables of good and bad outcomes")
        self.prices = price_array(prices, problem)
        stages = problem.stages
        bytes_of_all = 8 * len(problem.groups) * sum(slab_size(t) for t in range(stages + 1))
        self._keep_all = bytes_of_all <= keep_all_bytes
        self._kept: dict[int, Floats] = {stages: self._final_values()}

    def _final_values(self) -> Floats:
        final = np.zeros((len(self.problem.groups), slab_size(self.problem.stages)))
        for row, group in zip(final, self.problem.groups, strict=True):
            if group.terminal is not None:
                row[:] = group.terminal
        return final

    def values(self, stage: int) -> Floats:
        """V_stage of every group, (groups, slab): state (n, g) at n(n+1)/2 + g, n <= stage."""
        if not 0 <= stage <= self.problem.stages:
            raise ValueError(f"stage: {stage} is not allowed; must be 0..{self.problem.stages}")
        while stage not in self._kept:
            later = min(t for t in self._kept if t > stage)
            step = later - 1 if self._keep_all else (later + stage) // 2
            self._kept[step] = self._swept(later, step)
            if not self._keep_all:
                self._thin_out(stage)
        return self._kept[stage]

    def _thin_out(self, stage: int) -> None:
        """Keep later stages only, each about twice as far away as the one before, and the last."""
        chain, reach = {self.problem.stages: self._kept[self.problem.stages]}, -1
        for t in sorted(self._kept):
            if t >= stage and t - stage >= reach:
                chain[t] = self._kept[t]
                reach = max(1, int(1.5 * (t - stage)))
        self._kept = chain

    def _swept(self, start: int, stop: int) -> Floats:
        values = self._kept[start].copy()
        for row, group in zip(values, self.problem.groups, strict=True):
            sweep_back(group, self.prices, row, start, stop)
        return values[:, : slab_size(stop)].copy()

    def terms(self, stage: int, group: int, good: int, bad: int) -> Terms:
        """Expected reward and value of information of a pull of one arm of a group."""
        if min(good, bad) < 0 or good + bad > stage:
            raise ValueError(f"{good} good, {bad} bad: not possible at stage {stage}")
        arm = self.problem.groups[group]
        ell, delta = index_terms(
            arm.alpha, arm.beta, arm.reward_good[stage], arm.reward_bad[stage], good + bad, good,
            self.values(stage + 1)[group],
        )  # fmt: skip
        return Terms(float(ell), float(delta))

    def stage_index(self, stage: int) -> Floats:
        """Index of every state at a stage, (groups, slab)."""
        later = self.values(stage + 1)
        index = np.empty((len(self.problem.groups), slab_size(stage)))
        for k, group in enumerate(self.problem.groups):
            stage_index(
                group.alpha, group.beta, group.reward_good[stage], group.reward_bad[stage], stage,
                later[k], index[k],
            )  # fmt: skip
        return index

    def value(self) -> float:
        """The dual function at these prices."""
        first = self.values(0)[:, 0]
        counts = np.array([group.count for group in self.problem.groups])
        return float(counts @ first + self.problem.pulls @ self.prices)
