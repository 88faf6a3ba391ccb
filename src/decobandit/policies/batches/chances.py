"""Thompson sampling by shares, and top-two Thompson sampling: chances of being best, by a grid.

    p_k = P(arm k has the largest mean reward)                                 Thompson sampling
    p_k (b + (1 - b) sum_{j != k} p_j / (1 - p_j)),   b = 1/2                  top-two

Units are multinomial with these shares. The first is what Thompson sampling does with separate
draws for each unit (`thompson`). The second draws an arm as Thompson sampling does, and with
probability 1 - b draws on until another arm is best: Russo, Simple Bayesian algorithms for best-arm
identification, Operations Research 2020. Chances are integrals over a grid of the rewards that are
at stake: EVEN intervals, cut further where means of arms are likely to be.
"""

from __future__ import annotations

import numpy as np

from ...support import Floats
from ..allotting import Counts
from ..kernels.batch_shares import chances_each
from .base import distinct_states, in_parts
from .shares import SharesPolicy

EVEN = 16
LIKELY = 144  # more ends of intervals
SCORES = np.linspace(-4.0, 4.0, 25)  # of the log-odds of every state, among whose rewards they are
TAIL = 1e-9  # probability beyond either end of the grid
TOP = 0.5  # probability of the first of the two


class ThompsonSharesPolicy(SharesPolicy):
    """Thompson sampling, multinomial by the chances of being best."""

    name = "thompson-shares"
    randomised = True

    def shares(self, stage: int, pulls: Counts, good: Counts) -> Floats:
        below, mass, where = self._distributions(stage, pulls, good)
        chance = np.empty(pulls.shape)
        in_parts(
            len(chance),
            lambda first, last: chances_each(below, mass, where, first, last, chance),
        )
        return chance

    def _distributions(
        self, stage: int, pulls: Counts, good: Counts
    ) -> tuple[Floats, Floats, np.ndarray]:
        """Distribution functions of mean rewards on a grid, and interval masses; where arms are."""
        from scipy.special import betainc, betaincinv  # late: trials do not need scipy

        group, n, g, where = distinct_states(self.problem, pulls, good)
        first_arm = np.array([each.members[0] for each in self.problem.groups])[group]
        a = self.compared.alpha[first_arm] + g
        b = self.compared.beta[first_arm] + n - g
        reward = self.compared.good[stage][first_arm], self.compared.bad[stage][first_arm]
        low, span = np.minimum(*reward), np.abs(reward[0] - reward[1])
        a, b = np.where(reward[0] >= reward[1], [a, b], [b, a])  # of the outcome that earns more
        least = float((low + span * betaincinv(a, b, TAIL)).min())
        most = float((low + span * betaincinv(a, b, 1.0 - TAIL)).max())
        width = max(most - least, 1e-300)
        ends = least - 1e-9 * width, most + 1e-9 * width
        likely = np.quantile(_likely(a, b, low, span), np.linspace(0.0, 1.0, LIKELY))
        certain = low[span == 0.0]  # all of their chance in an interval of no width
        certain = np.concatenate([certain, np.nextafter(certain, -np.inf)])
        cuts = [np.linspace(*ends, EVEN + 1), likely.clip(*ends), certain]
        edges = np.unique(np.concatenate(cuts))
        with np.errstate(divide="ignore", invalid="ignore"):
            p = (edges[None, :] - low[:, None]) / span[:, None]
        p = np.where(span[:, None] > 0.0, p, edges[None, :] >= low[:, None]).clip(0.0, 1.0)
        at = betainc(a[:, None], b[:, None], p)
        below, mass = (at[:, 1:] + at[:, :-1]) / 2.0, np.diff(at, axis=1)
        # m arms that are certain of the same reward share it: m - 1 others multiply to 1 / m
        good, bad = self.compared.good[stage], self.compared.bad[stage]
        m = np.maximum(((good == bad) & (good == low[:, None])).sum(axis=1, keepdims=True), 2)
        jump = (span[:, None] == 0.0) & (mass == 1.0)
        return np.where(jump, m ** (-1.0 / (m - 1)), below), mass, where


def _likely(a: Floats, b: Floats, low: Floats, span: Floats) -> Floats:
    """Rewards low + span p around which those of p ~ Beta(a, b) lie, (states, SCORES).

    Evenly in the log-odds of p, whose density is smooth however small or large a and b are.
    """
    from scipy.special import expit, polygamma, psi

    middle, spread = psi(a) - psi(b), np.sqrt(polygamma(1, a) + polygamma(1, b))
    p = expit(middle[:, None] + spread[:, None] * SCORES)
    return np.asarray(low[:, None] + span[:, None] * p)


class TopTwoPolicy(ThompsonSharesPolicy):
    """Top-two Thompson sampling."""

    name = "top-two"

    def shares(self, stage: int, pulls: Counts, good: Counts) -> Floats:
        p = super().shares(stage, pulls, good)
        if p.shape[1] == 1:
            return p
        odds = p / np.maximum(1.0 - p, 1e-12)
        found = p * (TOP + (1.0 - TOP) * (odds.sum(axis=1, keepdims=True) - odds))
        return np.asarray(found / found.sum(axis=1, keepdims=True))
