"""Forward-looking Gittins index: units drawn with the probabilities that the index takes each arm.

    p_k = 1/b sum_{i=1..b} P(the Gittins rule takes arm k for the i-th unit of the block)

The rule is fully sequential, with an infinite horizon and DISCOUNT per pull, and breaks ties at
random; the outcomes of the block are drawn from the posteriors at its start, which they then
update. Each unit is drawn independently with these probabilities: its position i uniformly, then
the rule up to i. Villar, Wason and Bowden, Response-adaptive randomization for multi-arm clinical
trials using the forward looking Gittins index rule, Biometrics 2015;
normal outcomes: Williamson and Villar, A response-adaptive randomization procedure for multi-armed
clinical trials with normally distributed outcomes, Biometrics 2020.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

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
        """Share units: for each a block is imagined, up to its position."""
        (E, K), units, unit = states.stats.shape[:2], self.problem.units, self.problem.unit
        n, total = (np.repeat(states.stats[..., i], units, axis=0) for i in (0, 1))
        allowed, at = np.repeat(allowed_in(states), units, axis=0), self.compared(stage)
        position, rows = rng.integers(units, size=E * units), np.arange(E * units)
        shares = np.zeros((E * units, K), dtype=np.int64)
        for i in range(units):
            pulls, weight = n[rows].astype(np.int64), self._prior_pulls + n[rows]
            mean = (self._prior_total + total[rows]) / weight
            ahead = np.abs(self._factor[:, at]) * self._ahead[np.arange(K), pulls]
            index = np.where(allowed[rows], self.rewards(at, mean) + ahead, -np.inf)
            taken = largest_arms(index, pulls, 1, self._tolerance, "random", rng).argmax(axis=1)
            there, every = position[rows] == i, np.arange(rows.size)
            shares[rows[there], taken[there]] = 1
            weight, mean = weight[every, taken][~there], mean[every, taken][~there]
            rows, taken = rows[~there], taken[~there]
            # the outcomes of a unit more of that arm, drawn from what is known
            spread = self._noise[taken] * np.sqrt(unit + unit**2 / weight)
            total[rows, taken] += rng.normal(unit * mean, spread)
            n[rows, taken] += unit
        return np.asarray(shares.reshape(E, units, K).sum(axis=1))
