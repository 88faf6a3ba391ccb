"""A problem as a market: the passes that the dual solver is made of.

A pass goes backward (prices and values) or forward (masses, rewards, pulls spent). Every backward
pass at prices mu gives the dual function at mu, an upper bound on what any policy can earn. Every
clearing pass gives the reward of a feasible relaxed solution, a lower bound on the dual minimum.

Two kinds of traders make them: those of `graph_market.py` serve every model and batch size, those
of `band_market.py` are faster for single pulls of good and bad outcomes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..support import Floats
from .rough_bounds import RoughBounds


@dataclass(frozen=True)
class Flow:
    """What a forward pass earned and spent: reward (G,), spent (G, T)."""

    reward: Floats
    spent: Floats
    feasible: bool  # spends exactly the pulls of every stage
    narrow_stages: int = 0

    @property
    def total(self) -> float:
        return float(self.reward.sum())


class Smoothed(Protocol):
    """A market whose dual function is smoothed by a width."""

    width: float

    def value_at(self, mu: Floats) -> tuple[float, Floats, Floats]:
        """The smoothed dual at prices mu, its gradient, and the curvature along each price."""

    def clear(self) -> tuple[Flow, float]:
        """A flow near that of the last prices that spends exactly the pulls; and its charge."""


class Level(NamedTuple):
    """A coarser market that a search starts from: fewer stages, or fewer states."""

    make: Callable[[], Market]
    stages: int  # before any deployment
    tol: float  # at which its search ends
    calls: int  # backward passes that it may take


class Market(ABC):
    """Groups of arms that trade pulls over the stages, with the masses of past rounds."""

    points = 0  # states per row of its grids, 0 where all are states
    most_canonical = 0  # states up to which there are canonical prices

    def __init__(self, pulls: Floats, groups: int, regular: int, workers: int) -> None:
        self.pulls = np.array(pulls, dtype=float)  # writable: kernels compile once, not twice
        self.groups, self.stages, self.regular = groups, self.pulls.size, regular
        self.workers = workers
        self.calls = 0
        self.mu = np.zeros(self.stages)

    @property
    @abstractmethod
    def unit(self) -> float:
        """The largest reward there is: what linear programs are scaled by."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What ties are measured by."""

    @property
    @abstractmethod
    def largest_price(self) -> float:
        """No price need be larger."""

    @property
    @abstractmethod
    def states(self) -> int:
        """Of all groups and stages, those of several units as many times."""

    @property
    @abstractmethod
    def short(self) -> bool:
        """Whether some passes take about a second together."""

    @property
    def left_out(self) -> float:
        """What the values of all arms may lack, at most: it is part of the dual."""
        return 0.0

    @property
    def top(self) -> float | None:
        """The best reward, where prices of coarser markets are extrapolated towards it."""
        return None

    @property
    def descends(self) -> bool:
        """Whether the smoothed dual is of use in a search."""
        return False

    def coarser(self) -> Iterator[Level]:
        """Where a search may start, each level from the one before."""
        return iter(())

    @property
    def follows_coarser(self) -> bool:
        """Whether prices of coarser markets are better than those of fresh arms in any case."""
        return True

    def lower(self) -> Market | None:
        """On a grid, a market whose values are lower bounds; None where there is none."""
        return None

    @abstractmethod
    def release(self) -> None:
        """Forget all tables: there are no more passes."""

    def rough_bounds(self, prices: Floats) -> RoughBounds | None:
        """Bounds without a pass, where there are some."""
        return None

    @abstractmethod
    def remember_around(self, mu: Floats) -> None:
        """Make room for passes at prices around mu."""

    @abstractmethod
    def remember_signs(self, mu: Floats) -> None:
        """Make room for passes at prices mu alone."""

    @abstractmethod
    def value_at(self, mu: Floats) -> float:
        """Backward at given prices. Returns the dual there."""

    @abstractmethod
    def reprice(self) -> float:
        """Backward: new prices at which the remembered masses clear. Returns the dual there."""

    @abstractmethod
    def clear(self, blend: float) -> Flow:
        """Forward: exactly the pulls of every stage are spent; masses join the averages."""

    @abstractmethod
    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Forward under the relaxed policy at the current prices."""

    @abstractmethod
    def smoothed(self) -> Smoothed:
        """The market with its dual function smoothed."""
