"""Forward-looking Gittins index: units drawn with the probabilities that the index takes each arm.

    p_k = 1/b sum_{i=1..b} P(the Gittins rule takes arm k for the i-th unit of the block)

The rule is fully sequential, discounted for ever by DISCOUNT for each pull, and breaks ties at
random; the outcomes of the block are drawn from the posteriors at its begin, which then move with
them. Each unit is drawn independently with these probabilities: its position i evenly, then the
rule up to there. Villar, Wason and Bowden, Response-adaptive randomization for multi-arm clinical
trials using the forward looking Gittins index rule, Biometrics 2015;
normal outcomes: Williamson and Villar, A response-adaptive randomization procedure for multi-armed
clinical trials with normally distributed outcomes, Biometrics 2020.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arm import normal_indices
from ..arm.gittins import MOST_PULLS, discounted_table
from ..problem import DEFAULT_TIES, NormalModel, Problem, States, TieRule
from ..support import Floats, Ints
from .allocation import Random, allowed_in, largest_arms
from .index_policy import IndexPolicy
from .kernels.batches import forward_units
from .requirements import GENERAL, batches, binary_outcomes, steady_rewards

DISCOUNT = 0.99


def _tabulated(problem: Problem) -> str | None:
    normal = all(isinstance(group.model, NormalModel) for group in problem.groups)
    if not normal and binary_outcomes(problem) is not None:
        return f"needs arms that are all binary or all normal; {GENERAL}"
    if problem.most_pulls > MOST_PULLS:
        return (
            f"has indices of up to {MOST_PULLS} pulls; the problem has {problem.most_pulls}; "
            f"{GENERAL}"
        )
    return None


class ForwardGittinsPolicy(IndexPolicy):
    """Draws every unit of a batch by the forward-looking Gittins index."""

    name = "flgi"
    symmetric = True
    requires = (batches, _tabulated, steady_rewards)
    randomised = True
    discount: ClassVar[float] = DISCOUNT

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        models = [group.model for group in self.groups]
        measured = [model for model in models if isinstance(model, NormalModel)]
        self._noise = np.array([model.noise_sd for model in measured])
        self._prior_pulls = np.array([model.prior_pulls for model in measured])
        self._prior_total = self._prior_pulls * np.array([model.prior_mean for model in measured])

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        assert rng is not None
        if self._noise.size:
            return self._share_measured(stage, states, rng)
        shares, arms = np.empty(states.pulls.shape, dtype=np.int64), self.problem.group_of_arm
        posteriors = (*self.beta_priors, states.pulls, states.good, allowed_in(states))
        units = self.problem.unit, self.problem.units, self._tolerance
        forward_units(self._tables, arms, *posteriors, *units, rng, shares)
        return shares

    @cached_property
    def _tables(self) -> Floats:
        """Indices of all states of every group, (groups, states); binary outcomes."""
        at = self.compared(0)
        return np.stack(
            [
                discounted_table(
                    alpha=group.alpha,
                    beta=group.beta,
                    reward_good=float(group.reward_good[at]),
                    reward_bad=float(group.reward_bad[at]),
                    discount=self.discount,
                    pulls=self.problem.most_pulls,
                )
                for group in self.problem.groups
            ]
        )

    # -- normal outcomes ----------------------------------------------------------------------

    @cached_property
    def _ahead(self) -> Floats:
        pairs = zip(self._noise, self._prior_pulls, strict=True)
        most = self.problem.most_pulls
        return np.array([sd * normal_indices(worth, most, self.discount) for sd, worth in pairs])

    def _share_measured(self, stage: int, states: States, rng: np.random.Generator) -> Ints:
        (E, K), units = states.stats.shape[:2], self.problem.units
        n = np.repeat(states.stats[..., 0], units, axis=0)
        total = np.repeat(states.stats[..., 1], units, axis=0)
        every = None if states.allowed is None else np.repeat(states.allowed, units, axis=0)
        position, place = rng.integers(units, size=E * units), np.arange(E * units)
        shares = np.zeros((E * units, K), dtype=np.int64)
        for i in range(units):  # blocks are imagined, one for each unit, up to its position
            taken = self._largest(stage, n[place], total[place], every, place, rng)
            there = position[place] == i
            shares[place[there], taken[there]] = 1
            place, taken = place[~there], taken[~there]
            self._imagine(n, total, place, taken, rng)
        return np.asarray(shares.reshape(E, units, K).sum(axis=1))

    def _largest(
        self,
        stage: int,
        n: Floats,
        total: Floats,
        allowed: npt.NDArray[np.bool_] | None,
        place: Ints,
        rng: np.random.Generator,
    ) -> Ints:
        """Return the arm of largest index in each row; n, total (rows, K)."""
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
