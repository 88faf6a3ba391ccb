"""DeCo: pull the arm of largest index at the prices that solve the dual, eq. (DeCo_policy).

    argmax_a  ell_t^a(n^a) + delta_t^a[mu](n^a)

expected reward plus value of information, both of the arm alone at prices mu.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..dual import DualSolution
from ..problem import Problem
from ..relaxation import Relaxation, Terms
from ..state import State
from .base import DEFAULT_TIES, IndexPolicy, TieRule

Floats = npt.NDArray[np.float64]


class DecoPolicy(IndexPolicy):
    """DeCo at fixed prices (stages,). Tables are recomputed as needed, never stored on disk."""

    name = "deco"

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = Relaxation(problem, prices)
        self._groups = problem.group_of_arm

    @property
    def prices(self) -> Floats:
        return self.relaxation.prices

    def terms(self, stage: int, state: State) -> list[Terms]:
        """Expected reward and value of information of every arm."""
        return [
            self.relaxation.terms(stage, int(group), good, bad)
            for group, good, bad in zip(self._groups, state.good, state.bad, strict=True)
        ]

    def indices(self, stage: int, state: State) -> Floats:
        return np.array([terms.index for terms in self.terms(stage, state)])

    def stage_index(self, stage: int) -> Floats:
        """Index of every state of every group at a stage, (groups, slab)."""
        return self.relaxation.stage_index(stage)


def deco(solution: DualSolution, *, ties: TieRule = DEFAULT_TIES) -> DecoPolicy:
    """The DeCo policy of a solved dual."""
    return DecoPolicy(solution.problem, solution.prices, ties=ties)
