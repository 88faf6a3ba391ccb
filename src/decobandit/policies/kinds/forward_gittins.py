"""Forward-looking Gittins index of normal arms; see `policies/batches/forward_gittins.py`.

Williamson and Villar, A response-adaptive randomization procedure for multi-armed clinical trials
with normally distributed outcomes, Biometrics 2020.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...arm import normal_indices
from ...problem import DEFAULT_TIES, Measured, Problem, States, TieRule
from ...support import Floats, Ints
from ..allotting import largest_arms
from ..batches.forward_gittins import DISCOUNT, refuse_many_pulls
from ..chances import Allowed
from ..names import kind_batch_policies
from .batches import KindBatchPolicy


class KindForwardGittinsPolicy(KindBatchPolicy):
    """Draws every unit of a batch by the forward-looking Gittins index."""

    name = "flgi"
    randomised = True
    discount: ClassVar[float] = DISCOUNT

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        kinds = [group.model for group in self.groups]
        measured = [kind for kind in kinds if isinstance(kind, Measured)]
        if len(measured) < len(kinds):
            raise ValueError(
                f"policy {self.name!r} has indices of arms that are all good or bad, or all "
                f"measured; use {kind_batch_policies()}"
            )
        refuse_many_pulls(problem, self.name, kind_batch_policies())
        pays = slice(0, problem.horizon)
        if np.ptp(self._factor[:, pays], axis=1).any() or np.ptp(self._base[:, pays], axis=1).any():
            raise ValueError(
                f"policy {self.name!r} discounts the same reward at all stages; use "
                f"{kind_batch_policies()}"
            )
        self._noise = np.array([kind.noise_sd for kind in measured])
        self._prior_pulls = np.array([kind.pulls_of_prior for kind in measured])
        self._prior_total = self._prior_pulls * np.array([kind.prior_mean for kind in measured])
        self._ahead = np.array(  # (K, pulls + 1) index less mean
            [
                kind.noise_sd
                * normal_indices(kind.pulls_of_prior, problem.most_pulls, self.discount)
                for kind in measured
            ]
        )

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        assert rng is not None
        (E, K), units = states.stats.shape[:2], self.problem.units
        n = np.repeat(states.stats[..., 0], units, axis=0)
        total = np.repeat(states.stats[..., 1], units, axis=0)
        every = None if states.allowed is None else np.repeat(states.allowed, units, axis=0)
        position, place = rng.integers(units, size=E * units), np.arange(E * units)
        given = np.zeros((E * units, K), dtype=np.int64)
        for i in range(units):  # blocks are imagined, one for each unit, up to its position
            taken = self._largest(stage, n[place], total[place], every, place, rng)
            there = position[place] == i
            given[place[there], taken[there]] = 1
            place, taken = place[~there], taken[~there]
            self._imagine(n, total, place, taken, rng)
        return np.asarray(given.reshape(E, units, K).sum(axis=1))

    def _largest(
        self, stage: int, n: Floats, total: Floats, allowed: Allowed | None, place: Ints,
        rng: np.random.Generator,
    ) -> Ints:  # fmt: skip
        """The arm of largest index in each row; n, total (rows, K)."""
        at = self.compared(stage)
        mean = (self._prior_total + total) / (self._prior_pulls + n)
        ahead = np.abs(self._factor[:, at]) * self._ahead[np.arange(n.shape[1]), n.astype(np.int64)]
        index = self.rewards(at, mean) + ahead
        index = index if allowed is None else np.where(allowed[place], index, -np.inf)
        taken = largest_arms(index, n.astype(np.int64), 1, self._tolerance, "random", rng)
        return np.asarray(taken.argmax(axis=1))

    def _imagine(
        self, n: Floats, total: Floats, rows: Ints, arms: Ints, rng: np.random.Generator
    ) -> None:
        """One unit more of one arm in each row, its outcomes drawn from what is known."""
        unit, weight = self.problem.unit, self._prior_pulls[arms] + n[rows, arms]
        mean = (self._prior_total[arms] + total[rows, arms]) / weight
        spread = self._noise[arms] * np.sqrt(unit + unit**2 / weight)
        total[rows, arms] += rng.normal(unit * mean, spread)
        n[rows, arms] += unit
