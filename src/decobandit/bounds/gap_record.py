"""What a gap is made of: losses by stage, in total, and what they are the difference of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._version import __version__
from ..simulation import Estimate
from ..support import Card, Columns, Floats, Tables, Tabular, columns_of


@dataclass(frozen=True)
class StageGap:
    """Expected loss at one stage; errors are 0 where it is exact."""

    stage: int
    shortfall: float
    congestion: float
    shortfall_se: float = 0.0
    congestion_se: float = 0.0


@dataclass(frozen=True, eq=False)
class Gap(Tabular):
    """What a policy earns less than the upper bound, and where.

    Tables of `to_frame`: `stages`; `arms`, where the gap is exact.

    Attributes
    ----------
    policy : str
        Its name.
    upper_bound : float
        On what any policy earns: the dual function at the prices.
    value, value_se : float
        What the policy earns, and the standard error of it; 0 where it is exact.
    shortfall : float
        Expected loss by pulled arms that were not worth the price.
    congestion : float
        Expected loss by arms worth the price that were not pulled.
    stages : tuple of StageGap
        Shortfall, congestion and their errors, stage by stage, as files and tables show them.
    by_arm : array or None
        (arms, 2) shortfall and congestion by arm, where the gap is exact; equal arms share theirs.
    method : str
        "exact" or "simulated".
    settings : dict
        Draws and seed of a simulation.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> found = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> found.shortfall_by_stage.shape
    (4,)
    >>> round(float(found.running_loss[-1] - found.gap), 9)
    0.0
    """

    policy: str
    upper_bound: float
    value: float
    value_se: float
    shortfall: float
    congestion: float
    stages: tuple[StageGap, ...]
    by_arm: Floats | None
    method: str
    settings: dict[str, Any]

    @property
    def gap(self) -> float:
        """Upper bound minus value."""
        return self.upper_bound - self.value

    @property
    def gap_se(self) -> float:
        """Standard error of the gap, which is that of the value, for the bound is exact."""
        return self.value_se

    @cached_property
    def shortfall_by_stage(self) -> Floats:
        """Expected shortfall of each stage, (stages,)."""
        return self._by_stage("shortfall")

    @cached_property
    def shortfall_by_stage_se(self) -> Floats:
        """Its standard errors, (stages,)."""
        return self._by_stage("shortfall_se")

    @cached_property
    def congestion_by_stage(self) -> Floats:
        """Expected congestion of each stage, (stages,)."""
        return self._by_stage("congestion")

    @cached_property
    def congestion_by_stage_se(self) -> Floats:
        """Its standard errors, (stages,)."""
        return self._by_stage("congestion_se")

    @cached_property
    def running_loss(self) -> Floats:
        """Expected shortfall and congestion up to and including each stage, (stages,)."""
        return np.cumsum(self.shortfall_by_stage + self.congestion_by_stage)

    def _by_stage(self, name: str) -> Floats:
        found = np.array([getattr(each, name) for each in self.stages])
        found.flags.writeable = False
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "policy": self.policy,
            "upper_bound": self.upper_bound,
            "value": self.value,
            "value_se": self.value_se,
            "gap": self.gap,
            "shortfall": self.shortfall,
            "congestion": self.congestion,
            "method": self.method,
            "version": __version__,
            **self.settings,
            "by_arm": None if self.by_arm is None else self.by_arm.tolist(),
            "stages": [vars(each) for each in self.stages],
        }

    def _card(self) -> Card:
        names = ("upper_bound", "value", "value_se", "gap", "shortfall", "congestion")
        return Card(
            f"Gap of {self.policy}, {self.method}",
            columns={name: [getattr(self, name)] for name in names},
            below="gap = shortfall + congestion; to_frame() has them by stage",
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {"stages": self._stages} | ({} if self.by_arm is None else {"arms": self._arms})

    def absent_tables(self) -> dict[str, str]:
        """Why a table is not there, by its name."""
        why = "only of an exact gap; gap(..., method='exact')"
        return {"arms": why} if self.by_arm is None else {}

    def _stages(self) -> Columns:
        running = zip(self.stages, self.running_loss.tolist(), strict=True)
        return columns_of(
            {"policy": self.policy, **vars(each), "running_loss": loss} for each, loss in running
        )

    def _arms(self) -> Columns:
        assert self.by_arm is not None
        shortfall, congestion = self.by_arm.T
        arms = len(shortfall)
        return {
            "policy": [self.policy] * arms,
            "arm": range(arms),
            "shortfall": shortfall,
            "congestion": congestion,
        }

    def __repr__(self) -> str:
        return (
            f"Gap({self.policy}, {self.method}: upper bound {self.upper_bound:.6f} - value "
            f"{self.value:.6f} = shortfall {self.shortfall:.6f} + congestion {self.congestion:.6f})"
        )


def gap_of(
    policy: str,
    bound: float,
    value: Estimate,
    stages: Sequence[StageGap],
    *,
    by_arm: Floats | None = None,
    settings: dict[str, Any] | None = None,
) -> Gap:
    """From the losses of all stages; settings: of a simulation, None where it is exact."""
    return Gap(
        policy=policy,
        upper_bound=bound,
        value=value.value,
        value_se=value.value_se,
        shortfall=math.fsum(each.shortfall for each in stages),
        congestion=math.fsum(each.congestion for each in stages),
        stages=tuple(stages),
        by_arm=by_arm,
        method="exact" if settings is None else "simulated",
        settings=settings or {},
    )
