"""A problem as a market: the passes that the dual solver is made of.

A pass goes backward (prices and values) or forward (masses, rewards, pulls spent). Every backward
pass at prices mu gives the dual function at mu, an upper bound on what any policy can earn. Every
clearing pass gives the reward of a feasible relaxed solution, a lower bound on the dual minimum.

`stage_market.py` serves every model and batch size, stage by stage; `band_market.py` is faster for
single pulls of good and bad outcomes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..problem import Arms
from ..support import Floats

HALVINGS = 40  # of the interval of a price of arms with known success probabilities
ROUNDING = 1e-12  # of the incomplete beta function, in units of the largest reward


@dataclass(frozen=True)
class Flow:
    """Reward (G,) and pulls (G, T) of a forward pass."""

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
        """Return the smoothed dual at prices mu, its gradient, and the curvature per price."""

    def clear(self) -> tuple[Flow, float]:
        """Return a flow near that of the last prices that spends all pulls, and its charge."""


class Level(NamedTuple):
    """A coarser market that a search starts from: fewer stages, or fewer states."""

    make: Callable[[], Market]
    stages: int  # before any deployment
    tol: float  # at which its search ends
    calls: int  # backward passes that it may take


class Market(ABC):
    """Groups of arms that trade pulls over the stages, with the masses of past rounds."""

    unit: float  # largest reward in size, by which linear programs are scaled
    scale: float  # of the width of ties
    largest_price: float  # bound on the size of useful prices
    states: int  # of groups and stages, counted once per unit
    short: bool  # whether a few passes take about a second
    points = 0  # states per row of its grids, 0 where all are states
    at_most = False  # whether pulls, and money, need not all be spent: prices are not negative
    most_canonical = 0  # states up to which there are canonical prices
    left_out = 0.0  # bound on the error of the values of all arms, which is part of the dual
    top: float | None = None  # best reward, towards which coarser prices are extrapolated
    descends = False  # whether the smoothed dual is of use in a search
    follows_coarser = True  # whether coarser prices are better than those of fresh arms in any case

    def __init__(self, pulls: Floats, groups: int, regular: int, workers: int) -> None:
        self.pulls = np.array(pulls, dtype=float)  # writable: kernels compile once, not twice
        self.groups, self.stages, self.regular = groups, self.pulls.size, regular
        self.workers = workers
        self.calls = 0
        self.mu = np.zeros(self.stages)

    def resting(self) -> Flow:
        """Return the flow of arms that are never pulled, where that is allowed (`at_most`)."""
        raise NotImplementedError

    def bound_of(self, flow: Flow) -> float:
        """Return what a flow proves: no dual is below the reward of a feasible one."""
        return flow.total

    def coarser(self) -> Iterator[Level]:
        """Yield coarser markets to start from, each level from the one before."""
        return iter(())

    def lower(self) -> Market | None:
        """On a grid, a market whose values are lower bounds; None where there is none."""
        return None

    @abstractmethod
    def release(self) -> None:
        """Free all tables; no pass may follow."""

    def rough_bounds(self, prices: Floats) -> tuple[Floats, float, float] | None:
        """Return prices, an upper and a lower bound that need no pass, if there are any.

        The upper bound is at least the dual at the prices.
        """
        return None

    def remember_around(self, mu: Floats) -> None:  # noqa: B027  # not needed where all is kept
        """Make room for passes at prices around mu."""

    def remember_signs(self, mu: Floats) -> None:  # noqa: B027
        """Make room for passes at prices mu alone."""

    @abstractmethod
    def value_at(self, mu: Floats) -> float:
        """Go backward at given prices and return the dual there."""

    @abstractmethod
    def reprice(self) -> float:
        """Go backward, setting prices at which the remembered masses clear; return the dual."""

    @abstractmethod
    def clear(self, blend: float) -> Flow:
        """Go forward, spending exactly the pulls of every stage; masses join the averages."""

    @abstractmethod
    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Go forward under the relaxed policy at the current prices."""

    def optimal_flow(self) -> tuple[Floats, Flow] | None:
        """Return optimal prices and a flow by one linear program; None where it is too large."""
        return None

    @abstractmethod
    def smoothed(self) -> Smoothed:
        """Return the market with its dual function smoothed."""


# Bounds without a pass, for a long search that is interrupted before its first ones.
#
# Above, every arm knows its success probability p from the start and is pulled whenever that pays
# at prices mu, whatever the other arms do:
#
#     V_0[mu] <= E sum_t (bad_t + p (good_t - bad_t) - mu_t)^+  +  largest last reward
#
# Below, nothing is learned: the arms of largest prior mean are pulled at every stage, which is a
# policy, and its reward at most the minimum of the dual.


class KnownMeans:
    """Rewards as least + x spread of an x ~ Beta(a, b), outcomes in either order; (G, T)."""

    def __init__(self, arms: Arms) -> None:
        up = arms.reward_good >= arms.reward_bad
        alpha, beta = arms.alpha[:, None], arms.beta[:, None]
        self.a, self.b = np.where(up, alpha, beta), np.where(up, beta, alpha)
        self.least = np.minimum(arms.reward_good, arms.reward_bad)
        self.spread = np.abs(arms.reward_good - arms.reward_bad)
        self.vary = self.spread > 0.0
        self.counts = arms.counts

    def _place(self, mu: Floats) -> Floats:
        """Return the x in [0, 1] at which a reward is the price."""
        return np.clip((mu - self.least) / np.where(self.vary, self.spread, 1.0), 0.0, 1.0)

    def probability(self, mu: Floats) -> Floats:
        """Return P(reward > price)."""
        from scipy.special import betaincc  # late: half a second to load

        return np.where(self.vary, betaincc(self.a, self.b, self._place(mu)), self.least > mu)

    def gain(self, mu: Floats) -> Floats:
        """Return E (reward - mu)^+ over the priors, (G, T)."""
        from scipy.special import betaincc

        mean = self.a / (self.a + self.b)
        part = mean * betaincc(self.a + 1.0, self.b, self._place(mu))
        gain: Floats = self.spread * part - (mu - self.least) * self.probability(mu)
        return gain.clip(0.0)

    def prices(self, pulls: Floats) -> Floats:
        """Return prices that minimise `rough_upper`, terminal rewards apart, (T,)."""
        low: Floats = self.least.min(axis=0)
        high: Floats = (self.least + self.spread).max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            many = self.counts @ self.probability(middle) > pulls
            low, high = np.where(many, middle, low), np.where(many, high, middle)
        return 0.5 * (low + high)


def rough_upper(arms: Arms, pulls: Floats, mu: Floats) -> float:
    """Return an upper bound on the dual function at prices mu."""
    gain = KnownMeans(arms).gain(mu).sum(axis=1) + arms.terminal.max(axis=1)
    largest = max(float(np.abs(x).max()) for x in (arms.reward_good, arms.reward_bad, mu))
    rounding = ROUNDING * largest * float(arms.counts.sum()) * mu.size
    return float(arms.counts @ gain + pulls @ mu) + rounding


def rough_lower(arms: Arms, pulls: Floats) -> float:
    """Return the reward of pulling the arms with the best prior means at every stage."""
    p = (arms.alpha / (arms.alpha + arms.beta))[:, None]
    means = arms.reward_bad + p * (arms.reward_good - arms.reward_bad)
    order = np.argsort(-means, axis=0, kind="stable")
    counts = arms.counts[order]
    taken = np.clip(pulls - (np.cumsum(counts, axis=0) - counts), 0.0, counts)
    last = float(arms.counts @ arms.terminal.min(axis=1))
    return float((taken * np.take_along_axis(means, order, axis=0)).sum()) + last
