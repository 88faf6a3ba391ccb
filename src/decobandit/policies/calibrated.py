"""Calibrated index policies: pull the arm that could bear the largest surcharge.

`fh-gittins` calibrates against a flat price: the finite-horizon Gittins index (Kaufmann 2018;
Nino-Mora 2011). `deco-calibrated` calibrates against a price path of the family in
`calibration.PricePath`, which contains the flat one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..calibration import Calibration, PricePath
from ..kernels.layout import slab_size
from ..problem import Problem
from ..state import State
from .base import DEFAULT_TIES, IndexPolicy, TieRule

Floats = npt.NDArray[np.float64]


class CalibratedPolicy(IndexPolicy):
    """Pulls the largest calibrated index under a price path."""

    def __init__(
        self,
        problem: Problem,
        path: PricePath,
        prices: Floats | None = None,
        *,
        name: str = "deco-calibrated",
        start: int = 0,
        sweeps: int | None = None,
        ties: TieRule = DEFAULT_TIES,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.name = name
        self.path = path
        base = path.prices(problem, prices, start=start)
        self.calibration = Calibration(problem, base, sweeps=sweeps)
        self._groups = problem.group_of_arm

    def stage_index(self, stage: int) -> Floats:
        """Index of every state of every group at a stage, (groups, slab)."""
        return self.calibration.stage_index(stage)

    def indices(self, stage: int, state: State) -> Floats:
        table = self.stage_index(stage)
        return np.array(
            [
                table[group, slab_size(good + bad - 1) + good]
                for group, good, bad in zip(self._groups, state.good, state.bad, strict=True)
            ]
        )


def fh_gittins(problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> CalibratedPolicy:
    """The finite-horizon Gittins index; with rewards that change over the stages, its extension."""
    return CalibratedPolicy(problem, PricePath(), name="fh-gittins", ties=ties)
