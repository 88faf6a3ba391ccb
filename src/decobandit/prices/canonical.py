"""Canonical prices: those that DeCo plays, whatever tolerance the bounds were asked for.

Near its minimum the dual function is nearly flat, and often flat, while an index policy jumps from
one arm to another: prices of one tolerance give policies of different values. So DeCo plays the one
minimiser of a strictly convex function that differs little from the dual,

    phi_d(mu) + WEIGHT / 2 d0 sum_t m_t (mu_t - x_t)^2

where phi_d is the smoothed dual of width d = WIDTH d0 (`descent.py`), d0 the largest standard
deviation of an arm's mean reward (for arms with states of their own, half the range of their
rewards), and x_t the largest prior mean reward of a stage. It is minimised
from prices that depend on the problem alone, at narrower and narrower widths.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from ..problem import Group, Problem
from ..support import Floats, heed_interrupt
from .descent import DenseDescent
from .dual import market_of
from .rounding import proved_above
from .solution import DualSolution

WIDTH = 2.0**-14  # of the smoothed dual that is minimised, in standard deviations
FIRST_WIDTH = 2.0**-2
NARROWER = 0.25
WEIGHT = 1e-4  # of the distance to prior means
ROUGH, FINE = 1e-3, 1e-7  # largest miss of a stage's pulls at wider widths, and at the last
MOST_STEPS = 600  # at one width
STALLED_STEPS = 100  # in which the smallest miss must halve


@lru_cache(maxsize=32)
def canonical_prices(problem: Problem) -> Floats | None:
    """Prices of every stage, (stages,); None on grids of states, and where there are too many."""
    market = market_of(problem)
    if market.points or market.states > market.most_canonical:
        return None
    spread = problem.unit * (max(_spread(group) for group in problem.groups) or market.unit)
    prior_means = np.max([_prior_means(group) for group in problem.groups], axis=0)
    prior_means[: problem.horizon] *= problem.unit
    weight = WEIGHT * market.pulls / spread

    def function(mu: Floats, width: float) -> tuple[float, Floats, Floats]:
        heed_interrupt()
        value, gradient, curvature = market.soft_value(mu, width)
        distance = mu - prior_means
        penalty = 0.5 * float(np.sum(weight * distance**2))
        return value + penalty, gradient + weight * distance, curvature + weight

    market.reprice()
    prices, width = market.mu.copy(), FIRST_WIDTH
    while width >= WIDTH:
        wide = width * spread
        descent = DenseDescent(partial(function, width=wide), prices, farthest=wide)
        least = before = np.inf
        for step in range(MOST_STEPS):
            miss = float(np.abs(descent.gradient).max())
            least = min(least, miss)
            if step % STALLED_STEPS == 0:
                if least > 0.5 * before:
                    break
                before = least
            if miss <= (FINE if width == WIDTH else ROUGH) or not descent.step():
                break
        prices, width = descent.point, NARROWER * width
    prices.flags.writeable = False
    return prices


def _spread(group: Group) -> float:
    """Return the sd of the mean reward of a pull, or the share of a terminal table."""
    if group.model.ordered:  # states of its own: their rewards in place of a posterior
        sd = 0.5 * float(np.ptp(group.model.usual))
    else:
        sd = float(group.model.sd(np.array([group.model.initial()]))[0])
    last = 0.0 if group.terminal is None else float(np.ptp(group.terminal)) / group.rewards[0].size
    return max(sd * float(np.abs(group.reward_factor).max()), last)


def _prior_means(group: Group) -> Floats:
    """Return the expected reward of a pull of a fresh arm, (stages,)."""
    mean = float(group.model.mean(np.array([group.model.initial()]))[0])
    return np.asarray(group.reward_base + group.reward_factor * mean)


def at_canonical_prices(solution: DualSolution) -> DualSolution:
    """Return the solution with the prices that DeCo plays, and the bound that they prove.

    The solution itself where a problem has too many states, or was solved on a grid of them.
    """
    problem = solution.problem
    prices = None if solution.grid else canonical_prices(problem)
    if prices is None:
        return solution
    market = market_of(problem)
    market.remember_signs(prices)
    return replace(
        solution,
        multipliers=prices[: problem.horizon],
        deployment_price=float(prices[-1]) if problem.stages > problem.horizon else None,
        upper_bound=proved_above(problem, prices, market.value_at(prices)),
    )
