"""Bounds that take no pass, for a long search that is interrupted before its first ones.

Above, every arm knows its success probability p from the start and is pulled whenever that pays at
prices mu, whatever the other arms do:

    V_0[mu] <= E sum_t (bad_t + p (good_t - bad_t) - mu_t)^+  +  largest last reward

Below, nothing is learned: the arms of largest prior mean are pulled at every stage, which is a
policy, and its reward at most the minimum of the dual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..problem import Arms
from ..support import Floats

HALVINGS = 40  # of the interval in which a price lies
ROUNDING = 1e-12  # of the incomplete beta function, in units of the largest reward


class RoughBounds(NamedTuple):
    """Prices, and bounds on the minimum of the dual; the upper one is at least the dual there."""

    prices: Floats
    upper: float
    lower: float


class _Priors:
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
        """The x at which a reward is the price, within 0 and 1."""
        return np.clip((mu - self.least) / np.where(self.vary, self.spread, 1.0), 0.0, 1.0)

    def chance(self, mu: Floats) -> Floats:
        """That a reward is above the price."""
        from scipy.special import betaincc  # late: half a second to load

        return np.where(self.vary, betaincc(self.a, self.b, self._place(mu)), self.least > mu)

    def gain(self, mu: Floats) -> Floats:
        """E (reward - mu)^+."""
        from scipy.special import betaincc

        mean = self.a / (self.a + self.b)
        part = mean * betaincc(self.a + 1.0, self.b, self._place(mu))
        gain: Floats = self.spread * part - (mu - self.least) * self.chance(mu)
        return gain.clip(0.0)

    def prices(self, pulls: Floats) -> Floats:
        """At which as many arms are worth a pull as there are pulls, (T,)."""
        low: Floats = self.least.min(axis=0)
        high: Floats = (self.least + self.spread).max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            many = self.counts @ self.chance(middle) > pulls
            low, high = np.where(many, middle, low), np.where(many, high, middle)
        return 0.5 * (low + high)


def knowing_prices(arms: Arms, pulls: Floats) -> Floats:
    """The prices at which `rough_upper` is smallest, but for last rewards."""
    return _Priors(arms).prices(pulls)


def rough_upper(arms: Arms, pulls: Floats, mu: Floats) -> float:
    """At least the dual function at prices mu."""
    gain = expected_gain(arms, mu).sum(axis=1) + arms.terminal.max(axis=1)
    largest = max(float(np.abs(x).max()) for x in (arms.reward_good, arms.reward_bad, mu))
    rounding = ROUNDING * largest * float(arms.counts.sum()) * mu.size
    return float(arms.counts @ gain + pulls @ mu) + rounding


def expected_gain(arms: Arms, mu: Floats) -> Floats:
    """E (bad_t + p (good_t - bad_t) - mu_t)^+ over the priors, (G, T)."""
    return _Priors(arms).gain(mu)


def rough_lower(arms: Arms, pulls: Floats) -> float:
    """What the best arms by prior mean earn at every stage."""
    p = (arms.alpha / (arms.alpha + arms.beta))[:, None]
    means = arms.reward_bad + p * (arms.reward_good - arms.reward_bad)
    order = np.argsort(-means, axis=0, kind="stable")
    counts = arms.counts[order]
    taken = np.clip(pulls - (np.cumsum(counts, axis=0) - counts), 0.0, counts)
    last = float(arms.counts @ arms.terminal.min(axis=1))
    return float((taken * np.take_along_axis(means, order, axis=0)).sum()) + last
