"""Batches shared by proportions: the shares of arms first, units from them.

    rho                  maximise over shares  E[ max_k  mu_k + sqrt(v_k) Z_k ]
                         v_k = sigma_k^2 N share_k / (N share_k + nu_k),  N pulls left
    knowledge-gradient   maximise  m sum_k share_k r_k + N E[max_k r'_k] + D E[max_k m'_k]

Z_k are independent standard normal. The posterior mean of an arm moves by a normal variable of the
variance that the pulls of its share would give it (of beta, Dirichlet, normal and gamma posteriors
that variance is exact, with nu pulls that what is known is worth). rho, residual horizon
optimisation, has the shares that maximise the expected largest posterior mean at the end, taken
anew at every stage; what pulls earn on the way is ignored. Che and Namkoong, Adaptive
experimentation at scale, arXiv 2303.11582. The knowledge gradient of a batch of m pulls: r_k is the
expected reward of a pull, r'_k and m'_k those and the mean after the batch; N pulls follow, D is
the worth of a deployment: as if one arm were chosen after this batch and kept.

Units are drawn, multinomially with the shares as probabilities, or rounded: each arm gets the whole
units of its share, and the rest go to the largest remainders.
"""

from __future__ import annotations

import numpy as np

from ..problem import States
from ..support import Floats
from .allocation import in_parts
from .index_policy import IndexPolicy
from .kernels.batch_shares import normal_table, shares_each
from .requirements import batches, no_windows, prior_weight

EPISODES_PER_THREAD = 64  # fewer are not worth a thread
SEARCH_STEPS = 24  # of the search for shares
GRID_POINTS = 32


def best_shares(
    policy: IndexPolicy,
    states: States,
    terms: list[tuple[float, Floats, Floats]],
    left: float,
    earned: Floats,
) -> Floats:
    """Shares of every arm, (E, K), of `left` pulls.

    terms: weight of an expected maximum, and the base and factor (arms,) of the rewards that it is
    of. earned (E, K): what all pulls of the stage would earn with one arm.
    """
    models = [group.model for group in policy.problem.groups]
    mean = policy.means(states)
    sd = policy.by_group(states, lambda k, stats: models[k].sd(stats))
    nu = policy.by_group(
        states, lambda k, stats: float(models[k].prior_pulls or 0.0) + models[k].pulls(stats)
    )
    mu = np.array([base + factor * mean for _, base, factor in terms])
    sigma = np.array([np.abs(factor) * sd for _, _, factor in terms])
    weight = np.array([importance for importance, _, _ in terms])
    share = np.empty(mean.shape)
    laws = normal_table(), mu, sigma, nu, earned, weight, left, SEARCH_STEPS, GRID_POINTS
    in_parts(
        len(share), EPISODES_PER_THREAD, lambda first, last: shares_each(*laws, first, last, share)
    )
    return share


class RhoPolicy(IndexPolicy):
    """Shares that would be best if they were kept to the end."""

    name = "rho"
    symmetric = True
    requires = (batches, prior_weight, no_windows)
    randomised = True
    cost = "decision"

    def shares(self, stage: int, states: States) -> Floats:
        problem, last = self.problem, self.problem.stages - 1
        left = float(problem.pulls_per_stage * (problem.horizon - stage))
        terms = [(1.0, self._base[:, last], self._factor[:, last])]
        return best_shares(self, states, terms, left, np.zeros(states.stats.shape[:2]))
