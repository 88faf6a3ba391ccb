"""DeCo in batches: units by an exact knapsack over what they are worth at the dual's prices.

    maximise  sum_k Q_t(s_k; a_k)   subject to  sum_k a_k = A

Q_t(s; a) is the value of a units now, before their price, and of the arm alone at the prices of
later stages (`arm/kernels/batches.py`). Q is not always concave in a: the knapsack is solved by
dynamic programming over arms, not by marginal gains. Of equal sums one is taken that gives less to
arms that stand later.
"""

from __future__ import annotations

import itertools
from typing import Self

import numpy as np
import numpy.typing as npt

from ...arm import BatchRelaxation
from ...problem import DEFAULT_TIES, Problem, TieRule
from ...support import Floats, Ints, pool, worker_count
from ..allotting import Counts
from ..context import Context
from ..kernels.batch_units import share_each
from .base import BatchPolicy, distinct_states


class BatchDecoPolicy(BatchPolicy):
    """DeCo at fixed prices.

    Parameters
    ----------
    problem : Problem
        One with `repeat`.
    prices : array_like
        Of a unit at every stage, (stages,).
    ties : TieRule
        How ties are broken at the deployment.
    """

    name = "deco"
    at_fixed_prices = True
    cost = "tables"

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = BatchRelaxation(problem, prices)

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, context.solution.prices, ties=context.ties)

    @property
    def prices(self) -> Floats:
        """Of a unit at every stage, (stages,)."""
        return self.relaxation.prices

    def price(self, stage: int) -> float:
        """Of one pull."""
        units = self.problem.unit if stage < self.problem.horizon else 1
        return float(self.prices[stage]) / units

    def share_units(
        self, stage: int, pulls: Counts, good: Counts, rng: np.random.Generator | None
    ) -> Ints:
        group, n, g, where = distinct_states(self.problem, pulls, good)
        return knapsacks(values_of_states(self.relaxation, stage, group, n, g), where)


def values_of_states(
    relaxation: BatchRelaxation, stage: int, group: Ints, n: Ints, g: Ints
) -> Floats:
    """Q of 0, 1, .. units in states of several groups, (states, units + 1)."""
    values = np.empty((group.size, relaxation.problem.units + 1))
    for k in np.unique(group):
        own = group == k
        values[own] = relaxation.many_unit_values(stage, int(k), n[own], g[own])
    return values


def knapsacks(values: Floats, where: Ints) -> Ints:
    """Units of every arm that maximise the sum of their values, (E, K); by threads."""
    given = np.empty(where.shape, dtype=np.int64)
    episodes = len(where)
    number = worker_count(None, most=1 + episodes // 64)
    edges = np.linspace(0, episodes, number + 1).astype(int).tolist()
    with pool(number) as threads:
        parts = itertools.pairwise(edges)
        threads.map(lambda part: share_each(values, where, *part, given), parts)
    return given
