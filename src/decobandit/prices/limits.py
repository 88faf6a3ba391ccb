"""Limits of a stage on pulls, resources and money, and how offers of all groups share them out.

Prices of a problem are one array: those of pulls at all stages, then those of resources, stage by
stage, then that of money. Amounts of a resource are multiples of its largest use, so that prices
have similar sizes; no more of a resource counts than all arms together could use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..problem import Group, Problem
from ..support import Floats
from .kernels.bands import margin
from .kernels.sharing import costs_at, mixed_parts, share_out
from .traders import Deal, Offers

MOST_COLUMNS = 400  # of a stage: shares are then feasible, if not the best
TOLERANCE = 1e-11  # of the shares of a stage, in largest rewards of all its offers


class Limits:
    """Amounts, and uses of a unit, of the stages from `first` on."""

    def __init__(self, problem: Problem, groups: Sequence[Group] = (), first: int = 0) -> None:
        groups = groups or problem.groups
        self.stages, self.regular = problem.stages - first, problem.horizon - first
        self.may_wait, self._most = problem.may_wait, float(problem.most_units)
        members = [group.members[0] for group in groups]
        counts = np.array([self._most * group.count for group in groups])
        uses = problem.unit * problem.uses[members]
        self.size = np.where((largest := uses.max(axis=0)) > 0.0, largest, 1.0)
        self.uses = np.column_stack([np.ones(len(uses)), uses / self.size])  # (groups, rows)
        self.supply = np.minimum(problem.supply[first:], counts @ uses) / self.size
        # the same part of all units that stays within the resources, on average over stages
        used = np.maximum((counts @ self.uses)[1:], 1e-300)
        self.even_part = float((self.supply.mean(axis=0) / used)[used > 1e-300].min(initial=1.0))
        self.has_budget = problem.budget is not None
        budget = [problem.budget] if self.has_budget else []
        self.pulls = np.concatenate([problem.pulls[first:], self.supply.ravel(), budget])
        units = np.where(np.arange(self.stages) < self.regular, float(problem.unit), 1.0)
        self.money = problem.costs[first:, members].T * units  # that a unit costs, (groups, stages)
        # positions of the prices of a stage among all; a deployment uses no resources
        among = self.stages + np.arange(self.supply.size).reshape(self.supply.shape)
        self.rows = [np.append(stage, among[stage : stage + 1]) for stage in range(self.stages)]

    def costs(self, stage: int, prices: Floats) -> Floats:
        """Return the cost of a unit of every group, (groups,)."""
        rows = self.rows[stage]
        if rows.size > 1:
            return np.asarray(costs_at(self.uses, prices[rows]))
        return self._paid(stage, prices[stage], prices)

    def _paid(self, stage: int, price: float, prices: Floats) -> Floats:
        """Return the price of a unit and of the money that it costs, (groups,)."""
        if not self.has_budget:
            return np.full(len(self.uses), price)
        return np.asarray(price + prices[-1] * self.money[:, stage])

    def share(
        self, stage: int, offers: Sequence[Offers], prices: Floats, unit: float
    ) -> tuple[Floats, list[Deal]]:
        """Share out a stage among the offers of traders: its prices, and deals that clear.

        unit: the largest reward.
        """
        rows = self.rows[stage]
        key = joined([offer.key for offer in offers])
        weight = joined([offer.weight for offer in offers])
        if rows.size > 1:
            number = joined([offer.number for offer in offers])
            group = np.repeat(np.arange(number.size), number)
            tolerance = TOLERANCE * unit * float(weight.sum())
            amounts = (self.uses, self.pulls[rows], tolerance, MOST_COLUMNS)
            shared, *mixture = share_out(key, weight, group, *amounts)
            parts = mixed_parts(key, group, self.uses, *mixture)
            sizes = [offer.key.size for offer in offers]
            return shared, [
                Deal(np.zeros(offer.number.size), parts=taken)
                for offer, taken in zip(offers, split(parts, sizes), strict=True)
            ]
        if self.has_budget:
            number = joined([offer.number for offer in offers])
            key = key - np.repeat(prices[-1] * self.money[:, stage], number)
        if self.may_wait:  # pulls that are not made are worth nothing
            key, weight = np.append(key, 0.0), np.append(weight, self.pulls[stage])
        price, part = margin(key, weight, float(self.pulls[stage]))
        if not math.isfinite(price):  # all that there is, or none
            price = np.clip(price, key.min(), key.max()) if key.size else 0.0
        paid = self._paid(stage, float(price), prices)
        costs = split(paid, [offer.number.size for offer in offers])
        return np.array([price]), [Deal(cost, at_cost=float(part)) for cost in costs]

    def largest_price(self, price: float) -> float:
        """Return a bound on all prices from one on what a unit is worth."""
        if not self.supply.size:
            return price
        return price * self._most / float(self.uses[self.uses > 0.0].min())

    def spent(self, units: Floats) -> Floats:
        """Return pulls, resources and money of units (groups, stages), (groups, prices)."""
        amounts = units[:, : self.regular, None] * self.uses[:, None, 1:]
        money = [(units * self.money).sum(axis=1)] if self.has_budget else []
        return np.column_stack([units, amounts.reshape(len(units), -1), *money])

    def resource_prices(self, prices: Floats) -> Floats:
        """Return prices of resources in units of the problem, (regular stages, resources)."""
        priced = prices[self.stages : self.stages + self.supply.size]
        return np.asarray(priced.reshape(self.supply.shape) / self.size)


def joined_prices(
    problem: Problem, prices: Floats, resource_prices: Floats, first: int = 0
) -> Floats:
    """Return prices (stages,) and (horizon, resources), from a stage on, as markets have them."""
    return np.append(prices[first:], resource_prices[first:] * Limits(problem).size)


def joined(arrays: Sequence[Any]) -> Any:
    """Return arrays one after the other; a single one is long, and not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def split(values: Floats, sizes: Sequence[int]) -> list[Floats]:
    """Split values of all traders into those of each."""
    return [values] if len(sizes) == 1 else np.split(values, np.cumsum(sizes)[:-1])
