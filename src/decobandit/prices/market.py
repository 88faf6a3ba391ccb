"""A problem as a market: the arrays, and the passes over them that the dual solver is made of.

A pass goes backward (prices and values) or forward (masses, rewards, pulls spent). Every backward
pass at prices mu gives the dual function at mu, an upper bound on what any policy can earn. Every
clearing pass gives the reward of a feasible relaxed solution, a lower bound on the dual minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..problem import Arms
from ..problem.kernels.layout import slab_size
from ..support import Flags, Floats, Ints, pool
from .in_step import band_slice, clear_in_step, group_slice, price_in_step
from .kernels.bands import Bands
from .kernels.flow import relaxed_pass
from .kernels.pricing import band_pass, value_pass
from .kernels.rounds import clearing_pass, price_pass

STAGES_IN_STEP = 800  # from here on, threads that synchronise at every stage are faster
FULL_BAND_STATES = 1_000_000  # below this, storing every state is fastest
MOST_BAND_STATES = 48_000_000  # 16 bytes each
BAND_WIDTHS = (0.1, 0.05, 0.02, 0.01, 0.005)  # in units of the largest reward difference


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


class Market:
    """Groups of arms that trade pulls over T stages, with the bands that the passes remember."""

    def __init__(self, arms: Arms, pulls: Floats, *, workers: int = 2) -> None:
        self.arms = arms
        self.pulls = np.array(pulls, dtype=float)  # writable: kernels compile once, not twice
        self.groups, self.stages = arms.reward_good.shape
        self.workers = min(workers, self.groups)
        self.calls = 0
        self._V = np.zeros((self.groups, slab_size(self.stages)))
        self._mass = np.zeros((self.groups, slab_size(self.stages)))
        self.mu = np.zeros(self.stages)
        self.bands = self._fresh_bands()
        self._lowest = np.full(self.stages, -np.inf)
        self._highest = np.full(self.stages, np.inf)

    @property
    def scale(self) -> float:
        """The largest difference that one outcome can make, now or in a terminal table."""
        spread = float(np.abs(self.arms.reward_good - self.arms.reward_bad).max())
        steps = np.abs(np.diff(self.arms.terminal, axis=1))
        steps[:, np.cumsum(np.arange(1, self.stages + 1)) - 1] = 0.0  # from one row to the next
        return max(spread, float(steps.max())) or 1.0

    @property
    def unit(self) -> float:
        """The largest reward there is: what linear programs are scaled by."""
        arms = self.arms
        return max(float(np.abs(x).max()) for x in (*arms[3:],)) or 1.0

    @property
    def largest_price(self) -> float:
        """No price need be larger: all that an arm can gain or lose by one pull more or less.

        An arm made to pull once more can go on as before, ignoring what it saw, so that no other
        stage's pulls change; its reward then changes by at most this much.
        """
        arms = self.arms
        stakes = np.maximum(np.abs(arms.reward_good), np.abs(arms.reward_bad)).max(axis=0)
        return 2.0 * float(stakes.sum() + np.abs(arms.terminal).max())

    @property
    def _in_step(self) -> bool:
        return bool(self.workers > 1 and self.stages >= STAGES_IN_STEP)

    # Bands

    def _rows(self) -> Ints:
        """Row number n of every (stage, row)."""
        return np.concatenate([np.arange(t + 1) for t in range(self.stages)])

    def _bands(self, low: Ints, high: Ints, left: Flags, right: Flags) -> Bands:
        lengths = np.maximum(high - low + 1, 0)
        ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
        states = int(ends[-1, -1])
        return Bands(
            low, high, left, right, ends - lengths, np.zeros(states), np.zeros(states),
            np.zeros((self.groups, self.stages)),
        )  # fmt: skip

    def _fresh_bands(self) -> Bands:
        """Bands with the unpulled state only, and all mass in it: a market before any pull."""
        rows = self._rows()
        shape = (self.groups, rows.size)
        no_side = np.zeros(shape, np.uint8)
        high = np.broadcast_to(np.where(rows == 0, 0, -1), shape).copy()
        bands = self._bands(np.zeros(shape, np.int64), high, no_side, no_side.copy())
        bands.share[:] = np.repeat(self.arms.counts, self.stages)
        return bands

    def remember_around(self, mu: Floats) -> None:
        """Lay the bands around prices mu: full rows where that is cheap, else as wide as fits."""
        rows = self._rows()
        shape = (self.groups, rows.size)
        low, high = np.zeros(shape, np.int64), np.broadcast_to(rows, shape).copy()
        left, right = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        if (rows + 1).sum() * self.groups > FULL_BAND_STATES:
            for width in BAND_WIDTHS:
                reach = width * self.scale
                self._lowest, self._highest = mu - reach, mu + reach
                band_pass(self.arms, mu, reach, low, high, left, right, self._V)
                self.calls += 1
                if np.maximum(high - low + 1, 0).sum() <= MOST_BAND_STATES:
                    break
        self.bands = self._bands(low, high, left, right)

    def remember_signs(self, mu: Floats) -> None:
        """Lay bands of no width: only what the relaxed policy at prices mu needs to be replayed."""
        shape = (self.groups, self._rows().size)
        low, high = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        left, right = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        band_pass(self.arms, mu, 0.0, low, high, left, right, self._V)
        self.bands = self._bands(low, high, left, right)

    # Passes

    def dual(self) -> float:
        """The dual function at the prices of the last backward pass."""
        return float(self.arms.counts @ self._V[:, 0] + self.pulls @ self.mu)

    def reprice(self) -> float:
        """Backward: new prices at which the remembered masses clear. Returns the dual there."""
        self.calls += 1
        now = (self.arms, self.bands, self.pulls, self._lowest, self._highest, self.mu, self._V)
        if self._in_step:
            price_in_step(*now, self.workers)
        else:
            price_pass(*now)
        return self.dual()

    def value_at(self, mu: Floats) -> float:
        """Backward at given prices, one group per thread. Returns the dual there."""
        self.calls += 1
        self.mu = mu.copy()
        self._each_group(lambda arms, bands, k: value_pass(arms, bands, mu, self._V[k]))
        return self.dual()

    def clear(self, blend: float) -> Flow:
        """Forward: exactly the pulls of every stage are spent; masses join the averages."""
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        now = (self.arms, self.bands, self.pulls, blend, self._mass, reward, spent)
        narrow = clear_in_step(*now, self.workers) if self._in_step else clearing_pass(*now)
        return Flow(reward, spent, True, int(narrow))

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Forward under the relaxed policy at the current prices, one group per thread."""
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        self._each_group(
            lambda arms, bands, k: relaxed_pass(
                arms, bands, self.mu, slack, at_price, self._mass[k], reward[k], spent[k]
            )
        )
        return Flow(reward, spent, False)

    def _each_group(self, work: Callable[[Arms, Bands, slice], None]) -> None:
        """Run work(arms, bands, slice) for every group; kernels release the interpreter's lock."""

        def one(k: int) -> None:
            part = slice(k, k + 1)
            work(group_slice(self.arms, part), band_slice(self.bands, part), part)

        with pool(self.workers) as threads:
            threads.map(one, range(self.groups))
