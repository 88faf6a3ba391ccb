"""Residual horizon optimisation: constant shares for all that is left, taken anew at every stage.

    maximise over shares   E[ max_k  mu_k + sqrt(v_k) Z_k ],   Z_k independent standard normal
    v_k = sigma_k^2 N share_k / (N share_k + nu_k)             N pulls left

The posterior mean of an arm moves by a normal variable of the variance that the pulls of its share
would give it (of a beta posterior that variance is exact); the shares maximise the expected largest
posterior mean at the end. Units of the stage are multinomial with the shares. What pulls earn on
the way is ignored. Che and Namkoong, Adaptive experimentation at scale, arXiv 2303.11582.
"""

from __future__ import annotations

import numpy as np

from ...problem import States
from ...support import Floats
from ..kernels.batch_shares import normal_table, shares_each
from .base import in_parts
from .shares import SharesPolicy

STEPS = 24  # of the search for shares
POINTS = 32  # of a grid


def best_shares(
    policy: SharesPolicy,
    states: States,
    terms: list[tuple[float, Floats, Floats]],
    left: float,
    earned: Floats,
) -> Floats:
    """Shares of every arm, (E, K), of `left` pulls.

    terms: weight of an expected maximum, and the good and bad rewards (arms,) that it is of.
    earned (E, K): what all pulls of the stage would earn with one arm.
    """
    a, b = policy.arms.posteriors(states)
    nu = a + b
    mean, sd = a / nu, np.sqrt(a * b / (nu + 1.0)) / nu
    mu = np.array([bad + (high - bad) * mean for _, high, bad in terms])
    sigma = np.array([np.abs(high - bad) * sd for _, high, bad in terms])
    weight = np.array([each for each, _, _ in terms])
    share, table = np.empty(mean.shape), normal_table()
    in_parts(
        len(share),
        lambda first, last: shares_each(
            table, mu, sigma, nu, earned, weight, left, STEPS, POINTS, first, last, share
        ),
    )
    return share


class RhoPolicy(SharesPolicy):
    """Shares that would be best if they were kept to the end."""

    name = "rho"
    randomised = True
    cost = "decision"

    def shares(self, stage: int, states: States) -> Floats:
        problem, arms = self.problem, self.compared
        left = float(problem.pulls_per_stage * (problem.horizon - stage))
        last = problem.stages - 1
        rewards = (arms.good[last], arms.bad[last])
        none = np.zeros(states.pulls.shape)
        return best_shares(self, states, [(1.0, *rewards)], left, none)
