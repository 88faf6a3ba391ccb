"""DeCo in batches: units by an exact knapsack over what they are worth at the dual's prices.

    maximise  sum_k Q_t(s_k; a_k)   subject to  sum_k a_k = A

Q_t(s; a) is the value of a units now, before their price, and of the arm alone at the prices of
later stages (`arm/kernels/units.py`). Q is not always concave in a: the knapsack is solved by
dynamic programming over arms, not by marginal gains. Of equal sums one is taken that gives less to
arms that stand later.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...arm import OneArmValues
from ...arm.kernels.transitions import beta_binomial
from ...problem import DEFAULT_TIES, Problem, States, TieRule
from ...support import Floats, Ints
from ..chances import Allowed
from ..fixed_prices import FixedPricePolicy
from ..kernels.batch_units import share_each
from .base import BatchPolicy, distinct_states, in_parts, with_none_of

Lookup = Callable[[int, Ints, Ints], Floats]  # (group, pulls, good): (states, columns)


class BatchDecoPolicy(FixedPricePolicy, BatchPolicy):
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
    cost = "tables"
    relaxation: OneArmValues

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = OneArmValues(problem, prices)

    def price(self, stage: int) -> float:
        """Of one pull."""
        units = self.problem.unit if stage < self.problem.horizon else 1
        return float(self.prices[stage]) / units

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        group, n, g, where = distinct_states(states)
        values = values_of_states(self.relaxation, stage, group, n, g)
        return knapsacks(values, where, states.allowed)


def values_of_states(relaxation: OneArmValues, stage: int, group: Ints, n: Ints, g: Ints) -> Floats:
    """Q of 0, 1, .. units in states of several groups, (states, units + 1)."""

    def lookup(k: int, n: Ints, g: Ints) -> Floats:
        return relaxation.unit_values(stage, k, np.stack([g, n - g], axis=-1))

    return over_groups(relaxation, group, n, g, lookup)


def over_groups(relaxation: OneArmValues, group: Ints, n: Ints, g: Ints, lookup: Lookup) -> Floats:
    """What `lookup(k, n, g)` finds in states of whole units of group k, for all states.

    Where some outcomes of a unit are pending, the average over what they may be.
    """
    unit = relaxation.problem.unit
    found = [(group == k, int(k)) for k in np.unique(group)]
    out: Floats | None = None
    for own, k in found:
        whole = np.flatnonzero(own & (n % unit == 0))
        values = lookup(k, n[whole], g[whole])
        if out is None:
            out = np.empty((group.size, values.shape[1]))
        out[whole] = values
        arms = relaxation.problem.groups[k]
        for i in np.flatnonzero(own & (n % unit > 0)):
            missing = unit - int(n[i]) % unit
            chance = np.empty(missing + 1)
            beta_binomial(arms.alpha + g[i], arms.beta + n[i] - g[i], missing, chance)
            more = np.arange(missing + 1)
            out[i] = chance @ lookup(k, np.full(more.size, n[i] + missing), g[i] + more)
    assert out is not None
    return out


def knapsacks(values: Floats, where: Ints, allowed: Allowed | None = None) -> Ints:
    """Units of every arm that maximise the sum of their values, (E, K); by threads.

    Arms that are not allowed get none; where (E, K) is changed for them.
    """
    none = np.where(np.arange(values.shape[1]) == 0, 0.0, -np.inf)
    values = with_none_of(values, none, where, allowed)
    given = np.empty(where.shape, dtype=np.int64)
    in_parts(len(where), lambda first, last: share_each(values, where, first, last, given))
    return given
