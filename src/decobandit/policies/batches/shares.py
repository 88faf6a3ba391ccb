"""Policies that have shares of a batch first, and units from them.

Units are drawn, multinomially with the shares as chances, or rounded: each arm gets the whole units
of its share, and the rest go to the largest remainders.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ...problem import States
from ...support import Floats, Ints
from ..chances import restricted
from .base import BatchPolicy


class SharesPolicy(BatchPolicy):
    """Gives units by shares: drawn where the policy is `randomised`, rounded where it is not."""

    @abstractmethod
    def shares(self, stage: int, states: States) -> Floats:
        """Share of every arm, (E, K); rows add up to 1."""

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        if stage >= self.problem.horizon:
            return super().probabilities(stage, states, rng)
        return restricted(self.shares(stage, states), states.allowed)

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        shares = restricted(self.shares(stage, states), states.allowed)
        if not self.randomised or rng is None:
            return rounded(shares, self.problem.units)
        return np.asarray(rng.multinomial(self.problem.units, _proper(shares)), dtype=np.int64)


def _proper(shares: Floats) -> Floats:
    """Without rounding errors that `multinomial` would refuse."""
    kept = np.maximum(shares, 0.0)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True) * (1.0 - 1e-12))


def rounded(shares: Floats, units: int) -> Ints:
    """Whole units by largest remainders, (E, K); of equal ones the arms that stand first."""
    exact = units * shares
    given = np.floor(exact + 1e-9).astype(np.int64)
    left = units - given.sum(axis=1)
    left_over = np.round(exact - given, 9)  # equal ones may differ by rounding
    order = np.argsort(-left_over, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(shares.shape[1])[None, :], axis=1)
    return np.asarray(given + (rank < left[:, None]), dtype=np.int64)
