"""Online knowledge gradient, and shares of batches that are searched for: KG and rho.

    knowledge-gradient   r_a + sum over later stages (E[max_b r'_b | a pulled] - max_b r_b)

as if one arm were chosen after this pull and kept; r' are the expected rewards after it, at each
later stage and at a deployment. Ryzhov, Powell and Frazier, The knowledge gradient algorithm for a
general class of online learning problems, Operations Research 2012, with undiscounted rewards over
a finite horizon. Rewards may differ from arm to arm. An arm's index depends on all arms. Binary
arms whose rewards stay the same are played by `kernels.index_play`.

Batches are shared by proportions: the shares of arms first, units from them.

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

from functools import cached_property

import numpy as np

from ..problem import TIE_SIGNS, Problem, States
from ..support import Floats
from .allocation import EPISODES_PER_THREAD, Random, in_parts
from .index_policy import IndexPolicy, same_rewards
from .kernels.batches import normal_table, shares_each
from .kernels.episodes import Episodes
from .kernels.index_play import play_gradient
from .requirements import (
    batches,
    no_windows,
    one_deployed,
    one_pull,
    prior_weight,
    steady_rewards,
)

SEARCH_STEPS = 24  # of the search for shares
GRID_POINTS = 32


def best_shares(
    policy: IndexPolicy,
    states: States,
    terms: list[tuple[float, Floats, Floats]],
    left: float,
    earned: Floats,
) -> Floats:
    """Shares of every arm, (E, K), of `left` pulls; terms: weights, bases and factors of maxima."""
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


def _batch_or_one_pull(problem: Problem) -> str | None:
    if batches(problem) is not None:
        return one_pull(problem)
    return steady_rewards(problem) or prior_weight(problem)


class KnowledgeGradientPolicy(IndexPolicy):
    """Pulls the arm of the largest reward and knowledge gradient together."""

    name = "knowledge-gradient"
    symmetric = True
    serves_drift = True
    requires = (_batch_or_one_pull, one_deployed)
    cost = "decision"

    # -- batches ------------------------------------------------------------------------------

    def shares(self, stage: int, states: States) -> Floats:
        problem, m = self.problem, float(self.problem.pulls_per_stage)
        base, factor = self._base[:, stage], self._factor[:, stage]
        terms = []
        survival = problem.survival[stage : problem.horizon]
        later = m * float((survival[1:] / survival[0]).sum())  # pulls that are expected
        if later:
            terms.append((later, base, factor))
        if problem.terminal is not None:
            last = problem.stages - 1
            terms.append((1.0, self._base[:, last], self._factor[:, last]))
        if not terms:  # the last pulls of all
            terms = [(0.0, base, factor)]
        earned = m * self.expected_rewards(stage, states)
        more = earned - earned.min(axis=1, keepdims=True)
        more[more <= m * self._tolerance] = 0.0  # equal but for rounding
        return best_shares(self, states, terms, m, more)

    # -- single pulls -------------------------------------------------------------------------

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        means = self.means(states)
        values = self.rewards(stage, means)
        for later in self._choices(stage):
            values = values + self._rise(later, means, states)
        return values

    def _choices(self, stage: int) -> list[tuple[float, int]]:
        """Stages to come, with what they count: equal ones together."""
        T, counted = self.problem.horizon, dict[bytes, tuple[float, int]]()
        for t in range(stage + 1, self.problem.stages):
            key = self._base[:, t].tobytes() + self._factor[:, t].tobytes()
            key += b"" if t < T else b"deployed"
            counted[key] = (counted.get(key, (0.0, t))[0] + 1.0, t)
        return list(counted.values())

    def _rise(self, later: tuple[float, int], means: Floats, states: States) -> Floats:
        """Return the gain in the best later expected reward by a pull of each arm, (E, K)."""
        count, t = later
        r = self.rewards(t, means)
        order = np.sort(r, axis=-1)
        best, rise = order[:, -1], np.zeros_like(r)
        if r.shape[1] == 1:
            return rise
        for k, (group, stats) in enumerate(zip(self.groups, self.arm_stats(states), strict=True)):
            base, factor = float(self._base[k, t]), float(self._factor[k, t])
            if factor == 0.0:
                continue
            rival = np.where(r[:, k] >= best, order[:, -2], best)
            c = (rival - base) / factor
            above = group.model.excess(stats, c)
            if factor < 0.0:  # E(c - m)^+ = E(m - c)^+ - (mean - c)
                above = above - (means[:, k] - c)
            rise[:, k] = count * (rival + abs(factor) * above - best)
        return rise

    # -- a loop of its own --------------------------------------------------------------------

    @cached_property
    def has_loop(self) -> bool:
        problem = self.problem
        return problem.single_binary and same_rewards(problem, 0, problem.horizon)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        to_come = self.problem.horizon - 1.0 - np.arange(first, last)
        deploy = 0.0 if self.problem.terminal is None else self.problem.terminal.deploy
        rewards, rule = self.binary_rewards[:, 0], (self._tolerance, *TIE_SIGNS[self.ties])
        play_gradient(episodes, to_come, *self.beta_priors, *rewards, deploy, *rule, rng)


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
