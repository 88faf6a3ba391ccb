"""Limits of a stage on pulls and resources, and how offers of all groups share them out.

Prices of a problem with resources are one array: those of pulls at all stages, then those of the
resources, stage by stage. Amounts are counted in the largest use of a resource, so that prices are
of one size, and no more of a resource counts than all arms together could use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..problem import Problem
from ..support import Floats, Ints
from .kernels.sharing import costs_at, mixed_parts, share_out

MOST_COLUMNS = 400  # of a stage: shares are then feasible, if not the best
TOLERANCE = 1e-11  # of the shares of a stage, in largest rewards of all its offers


class Sharing(NamedTuple):
    """Prices of a stage, and the accepted part of every offer."""

    prices: Floats  # (rows,)
    parts: Floats  # (offers,)


class Limits:
    """Amounts and uses of the stages from `first` on."""

    def __init__(self, problem: Problem, first: int = 0) -> None:
        self.stages, self.regular = problem.stages - first, problem.horizon - first
        groups, unit = problem.groups, float(problem.unit)
        uses = unit * problem.uses[[group.members[0] for group in groups]]
        largest = uses.max(axis=0)
        self.size = np.where(largest > 0.0, largest, 1.0)
        most = problem.most_units
        counts = np.array([most * group.count for group in groups])
        self._most = float(most)  # units of an arm
        self.uses = np.column_stack([np.ones(len(groups)), uses / self.size])  # (groups, rows)
        self.supply = np.minimum(problem.supply[first:], counts @ uses) / self.size
        # the same part of all units that stays within the resources, on average over stages
        used = np.maximum((counts @ self.uses)[1:], 1e-300)
        self.even_part = float((self.supply.mean(axis=0) / used)[used > 1e-300].min(initial=1.0))
        self.pulls = np.append(problem.pulls[first:], self.supply)

    def rows(self, stage: int) -> Ints:
        """Return the positions of a stage among all prices; a deployment uses no resources."""
        resources = self.supply.shape[1] if stage < self.regular else 0
        first = self.stages + stage * self.supply.shape[1]
        return np.append(stage, first + np.arange(resources))

    def costs(self, stage: int, prices: Floats) -> Floats:
        """Return the cost of a unit of every group, (groups,)."""
        rows = self.rows(stage)
        return np.asarray(costs_at(self.uses[:, : rows.size], prices[rows]))

    def share(self, stage: int, key: Floats, weight: Floats, group: Ints, unit: float) -> Sharing:
        """Share out a stage among offers (N,) of groups; unit: the largest reward."""
        rows = self.rows(stage)
        uses, supply = self.uses[:, : rows.size].copy(), self.pulls[rows]
        tolerance = TOLERANCE * unit * float(weight.sum())
        how = share_out(key, weight, group, uses, supply, tolerance, MOST_COLUMNS)
        return Sharing(how[0], mixed_parts(key, group, uses, how[1], how[2]))

    def largest_price(self, price: float) -> float:
        """Return a bound on all prices from one on what a unit is worth."""
        return price * self._most / float(self.uses[self.uses > 0.0].min())

    def spent(self, units: Floats) -> Floats:
        """Return pulls and resources of units (groups, stages), (groups, prices)."""
        amounts = units[:, : self.regular, None] * self.uses[:, None, 1:]
        return np.column_stack([units, amounts.reshape(len(units), -1)])

    def resource_prices(self, prices: Floats) -> Floats:
        """Return prices of resources in units of the problem, (regular stages, resources)."""
        return np.asarray(prices[self.stages :].reshape(self.supply.shape) / self.size)


def joined_prices(
    problem: Problem, prices: Floats, resource_prices: Floats, first: int = 0
) -> Floats:
    """Return prices (stages,) and (horizon, resources), from a stage on, as markets have them."""
    return np.append(prices[first:], resource_prices[first:] * Limits(problem).size)


def lost_part(spent: Floats, pulls: Floats) -> float:
    """Return the part of a flow that must rest instead, so that nothing is overspent."""
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(spent > pulls, pulls / spent, 1.0)
    return 1.0 - float(within.min())
