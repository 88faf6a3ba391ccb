"""Calibrated index policies: pull the arm that is worth a pull at the largest surcharge.

`FhGittinsPolicy` calibrates against a flat price: the finite-horizon Gittins index (Kaufmann 2018;
Nino-Mora 2011). `CalibratedPolicy` calibrates against any price path of the family in
`arm.PricePath`, which contains the flat one; `path_search.py` chooses one. Single pulls of every
outcome model; non-binary outcomes only against the flat path.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from ..arm import (
    FLAT_STAGES,
    Calibration,
    KnotCalibration,
    PricePath,
    RowGittins,
    TickCalibration,
    calibrated,
)
from ..problem import DEFAULT_TIES, Problem, Stats, TieRule
from ..support import Floats, InvalidArgument
from .allocation import ArmIndex, Cost
from .context import Context
from .index_policy import IndexPolicy
from .requirements import known_variances, no_windows, single_pulls

TABLE_STAGES = 200  # up to here tables of all stages take a second or less
FLAT_PATH = PricePath()


class CalibratedPolicy(IndexPolicy):
    """Pulls the largest calibrated index under a price path.

    Parameters
    ----------
    problem : Problem
        Problem to play.
    path : PricePath, optional
        Prices that the index is calibrated against; flat by default.
    prices : array, optional
        Those of a solved dual, (stages,), where the path needs them.
    name : str, optional
        What tables call it.
    start : int
        Stage from which the path's premium fades.
    sweeps : int, optional
        As in `Calibration`.
    ties : TieRule
        How ties are broken.

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.arm import PricePath
    >>> from decobandit.policies import CalibratedPolicy
    >>> policy = CalibratedPolicy(Problem.uniform(arms=3, horizon=10), PricePath(kappa=0.1))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """

    name = "calibrated"
    symmetric = True
    cost: Cost = "tables"
    requires = (single_pulls, no_windows, known_variances)
    knots_beyond = FLAT_STAGES  # as in `calibrated`

    def __init__(
        self,
        problem: Problem,
        path: PricePath = FLAT_PATH,
        prices: Floats | None = None,
        *,
        name: str | None = None,
        start: int = 0,
        sweeps: int | None = None,
        ties: TieRule = DEFAULT_TIES,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.name = name or self.name
        self.path, self.survival = path, problem.survival
        self._rows: list[RowGittins] = []  # of non-binary outcomes
        if not problem.is_binary:
            if not path.flat:
                raise InvalidArgument(
                    f"policy {self.name!r}: other than good and bad outcomes need the flat path"
                )
            self._rows = [RowGittins(problem, k) for k in range(len(problem.groups))]
            self.cost = "decision"
            return
        self.calibration: Calibration = calibrated(
            problem, path, prices, start=start, sweeps=sweeps, knots_beyond=self.knots_beyond
        )
        # single decisions by tables of all stages would wait for these
        self._one_by_one = isinstance(self.calibration, TickCalibration) and (
            problem.stages > TABLE_STAGES
        )

    @classmethod
    def make(cls, context: Context) -> Self:
        """Against the flat path."""
        return cls(context.problem, ties=context.ties)

    def stage_index(self, stage: int) -> Floats:
        table = self.calibration.stage_index(stage)
        played = self.survival[stage]  # surcharges are those of stages that are played
        return table if played == 1.0 else played * table

    def refuse_large(self) -> None:
        if not self._rows:
            self.calibration.refuse_large()

    def has_tables(self, stage: int) -> bool:
        return bool(self._rows) or (not self._one_by_one and self.calibration.is_made(stage))

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        if self._rows:
            return np.asarray(self.survival[stage] * self._rows[group].index(stage, stats))
        counts = stats.reshape(-1, 2).astype(np.int64)
        if isinstance(self.calibration, KnotCalibration):
            index = self.calibration.indices(stage, group, counts)
        elif self._one_by_one:  # the same number
            single = [self.calibration.index(stage, group, int(g), int(b)) for g, b in counts]
            index = self.survival[stage] * np.array(single)
        else:
            n = counts.sum(axis=1)
            index = self.stage_index(stage)[group, n * (n + 1) // 2 + counts[:, 0]]
        return np.asarray(index).reshape(stats.shape[:-1])

    def exact_index(self, stage: int, group: int, stats: Floats) -> float:
        if self._rows:
            return float(self.survival[stage]) * self._rows[group].root(stage, stats)
        return super().exact_index(stage, group, stats)

    def arm_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        if self._rows:
            return super().arm_index(stage, group, stats)
        single, crossings = self.calibration.crossings(stage, group, int(stats[0]), int(stats[1]))
        return ArmIndex(crossings[-1], indexable=single, path=str(self.path))


class FhGittinsPolicy(CalibratedPolicy):
    """The finite-horizon Gittins index; with rewards that change over the stages, its extension."""

    name = "fh-gittins"
    symmetric = True
