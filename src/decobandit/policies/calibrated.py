"""Calibrated index policies: pull the arm that is worth a pull at the largest surcharge.

`FhGittinsPolicy` calibrates against a flat price: the finite-horizon Gittins index (Kaufmann 2018;
Nino-Mora 2011). `CalibratedPolicy` calibrates against any price path of the family in
`arm.PricePath`, which contains the flat one; `tuning/` chooses one.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from ..arm import FLAT_STAGES, KnotCalibration, PricePath, TickCalibration, calibrated
from ..problem import DEFAULT_TIES, Problem, State, TieRule
from ..support import Floats
from .context import Context
from .index_policy import IndexPolicy
from .records import ArmIndex

TABLE_STAGES = 200  # up to here tables of all stages take a second or less


class CalibratedPolicy(IndexPolicy):
    """Pulls the largest calibrated index under a price path.

    Parameters
    ----------
    problem : Problem
        What it is made for.
    path : PricePath
        What the index is calibrated against.
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
    >>> from decobandit import CalibratedPolicy, PricePath, Problem, State
    >>> policy = CalibratedPolicy(Problem.uniform(arms=3, horizon=10), PricePath(kappa=0.1))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """

    name = "calibrated"
    cost = "tables"
    knots_beyond = FLAT_STAGES  # as in `calibrated`

    def __init__(
        self,
        problem: Problem,
        path: PricePath,
        prices: Floats | None = None,
        *,
        name: str | None = None,
        start: int = 0,
        sweeps: int | None = None,
        ties: TieRule = DEFAULT_TIES,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.name = name or self.name
        self.path = path
        self.calibration = calibrated(
            problem, path, prices, start=start, sweeps=sweeps, knots_beyond=self.knots_beyond
        )
        # single decisions by tables of all stages would wait for these
        self._one_by_one = isinstance(self.calibration, TickCalibration) and (
            problem.stages > TABLE_STAGES
        )

    @classmethod
    def make(cls, context: Context) -> Self:
        """Against the flat path."""
        return cls(context.problem, PricePath(), ties=context.ties)

    def stage_index(self, stage: int) -> Floats:
        return self.calibration.stage_index(stage)

    def refuse_large(self) -> None:
        self.calibration.refuse_large()

    def has_tables(self, stage: int) -> bool:
        return not self._one_by_one and self.calibration.is_made(stage)

    def index_of(self, stage: int, group: int, good: int, bad: int) -> float:
        if self._one_by_one or isinstance(self.calibration, KnotCalibration):  # the same number
            return self.calibration.index(stage, group, good, bad)
        return super().index_of(stage, group, good, bad)

    def indices_of(self, stage: int, arm: int, stats: Floats) -> Floats:
        if isinstance(self.calibration, KnotCalibration):
            group = int(self.problem.group_of_arm[arm])
            return self.calibration.indices(stage, group, np.asarray(stats, dtype=np.int64))
        return super().indices_of(stage, arm, stats)

    def indices(self, stage: int, state: State) -> Floats:
        own = zip(self.problem.group_of_arm, state.good, state.bad, strict=True)
        return np.array([self.index_of(stage, int(k), good, bad) for k, good, bad in own])

    def arm_index(self, stage: int, group: int, good: int, bad: int) -> ArmIndex:
        single, crossings = self.calibration.crossings(stage, group, good, bad)
        return ArmIndex(crossings[-1], indexable=single, path=str(self.path))


class FhGittinsPolicy(CalibratedPolicy):
    """The finite-horizon Gittins index; with rewards that change over the stages, its extension."""

    name = "fh-gittins"
    kind_place = "decobandit.policies.kinds.rules:KindGittinsPolicy"


def fh_gittins(problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> CalibratedPolicy:
    """The policy of the finite-horizon Gittins index.

    With rewards that change over the stages, its extension: the constant charge per pull at which
    the arm is indifferent.

    Parameters
    ----------
    problem, ties
        As in `make_policy`.

    Returns
    -------
    CalibratedPolicy

    Examples
    --------
    >>> from decobandit import Problem, evaluate, fh_gittins
    >>> problem = Problem.uniform(arms=2, horizon=4)
    >>> round(evaluate(problem, fh_gittins(problem)).value, 6)
    2.277778
    """
    return FhGittinsPolicy(problem, PricePath(), ties=ties)
