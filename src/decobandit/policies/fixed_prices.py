"""DeCo policies of all problems: made from the prices of a solution, which they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from ..support import Floats
from .base import Policy
from .context import Context


class Priced(Protocol):
    """One-arm problems at prices."""

    @property
    def prices(self) -> Floats:
        """Of every stage, (stages,)."""


class FixedPricePolicy(Policy):
    """A policy of the one-arm problems at fixed prices; a subclass sets up its `relaxation`."""

    at_fixed_prices = True
    relaxation: Priced

    @classmethod
    def make(cls, context: Context) -> Self:
        at_prices: Callable[..., Self] = cls
        solution = context.played if cls.at_fixed_prices else context.solution
        return at_prices(context.problem, solution.prices, ties=context.ties)

    @property
    def prices(self) -> Floats:
        """One per stage, (stages,)."""
        return self.relaxation.prices

    def price(self, stage: int) -> float:
        return float(self.prices[stage])
