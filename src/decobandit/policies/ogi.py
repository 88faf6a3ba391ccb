"""Optimistic Gittins index: a retirement reward, if the next pull told the truth about the arm.

    lambda = (1 - gamma) E[p] + gamma E[max(lambda, p)],        p ~ Beta(a, b)
           = mean (1 - gamma F(a+1, b; lambda)) + gamma lambda F(a, b; lambda)

with mean = a / (a + b), F the cumulative distribution of Beta, and gamma = 1 - 1/(t+2): at pull
number s = t+1, about to be made, the discount factor 1 - 1/(s+1). Farias and Gutin, Optimistic
Gittins indices, NIPS 2016, with one step of lookahead. With several pulls per stage, t counts
stages. Rewards may differ from arm to arm, bad above good too: the index moves with them. Rewards
that change over the stages are refused.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaln, ndtr, xlog1py, xlogy

from ..problem import Group, Problem
from .base import DEFAULT_TIES, TieRule
from .table import Floats, TablePolicy, better_outcome, refuse_changing_rewards

ACCURACY = 1e-12  # of lambda
MOST_STEPS = 100


def normal_index(gamma: float) -> float:
    """The same index of a standard normal p, z = gamma (z Phi(z) + phi(z)): a start for others."""
    z = 0.0
    for _ in range(MOST_STEPS):
        below, density = float(ndtr(z)), math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
        step = (gamma * (z * below + density) - z) / (1.0 - gamma * below)
        z += step
        if step <= ACCURACY:
            break
    return z


def optimistic_index(a: Floats, b: Floats, gamma: float) -> Floats:
    """lambda of Beta(a, b), by Newton's method on the states not yet done.

    (1 - gamma) mean + gamma E[max(lambda, p)] - lambda is convex, falls, and is not negative at the
    mean: a step from anywhere ends below the solution, and steps from there climb to it.
    """
    mean = a / (a + b)
    spread = np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    solution = np.minimum(mean + normal_index(gamma) * spread, 1.0)
    log_beta = np.asarray(betaln(a, b), dtype=np.float64)
    todo = np.arange(mean.size)
    for i in range(MOST_STEPS):
        x, a_, m = solution[todo], a[todo], mean[todo]
        cdf = betainc(a_, b[todo], x)
        # F(a+1, b; x) = F(a, b; x) - x^a (1-x)^b / (a B(a, b))
        less = np.exp(xlogy(a_, x) + xlog1py(b[todo], -x) - log_beta[todo]) / a_
        excess = m * (1.0 - gamma * (cdf - less)) + gamma * x * cdf - x
        step = excess / (1.0 - gamma * cdf)
        solution[todo] = np.clip(x + step, m, 1.0)
        # after the first step only rounding goes down
        todo = todo[(step if i else np.abs(step)) > ACCURACY]
        if not todo.size:
            break
    return solution


class OgiPolicy(TablePolicy):
    """Pulls the largest optimistic Gittins index."""

    name = "ogi"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        refuse_changing_rewards(problem, self.name)
        super().__init__(problem, ties=ties)

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        a, b, low, high = better_outcome(group, stage, n, g)
        return low + (high - low) * optimistic_index(a, b, 1.0 - 1.0 / (stage + 2))
