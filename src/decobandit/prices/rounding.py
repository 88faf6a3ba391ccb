"""What rounding can change in bounds, at most: `docs/theory/rounding.md` derives it.

A computed value is a number of operations away from the exact one, and each of them is off by at
most a unit in the last place of the largest value that an arm may have.
"""

from __future__ import annotations

import math

import numpy as np

from ..problem import ArmModel, CategoricalModel, Group, MarkovModel, Problem
from ..support import Floats

EPS = 2.0**-52
STEP_OPERATIONS = 4.0  # roundings of one step of an arm, of the size of its largest value
OUTCOME_OPERATIONS = 2.0  # and of every outcome of the step
GRID_OUTCOMES = 8  # that a law on a grid counts as: its weights are differences of one function
FLOW_OPERATIONS = 4.0  # roundings of one step of a mass


def dual_rounding(
    problem: Problem,
    prices: Floats,
    budget_price: float = 0.0,
    resource_prices: Floats | None = None,
) -> float:
    """Return a bound on the error of the dual function at prices (stages,), computed in doubles."""
    charges = budget_price * problem.costs
    limits = abs(budget_price * (problem.budget or 0.0))
    if resource_prices is not None:
        charges[: problem.horizon] += resource_prices @ problem.uses.T
        most = np.minimum(problem.supply, problem.most_units * problem.unit * problem.uses.sum(0))
        limits += float((resource_prices * most).sum())
    paid = float(problem.pulls @ np.abs(prices)) + limits
    error = EPS * (problem.stages + len(problem.groups) + 4.0) * paid
    units = np.append(np.full(problem.horizon, problem.most_units), 1.0)[: problem.stages]
    pulls = np.append(np.full(problem.horizon, problem.unit), 1.0)[: problem.stages]
    for group in problem.groups:
        rewards = pulls * (_rewards(group) + charges[:, group.members[0]])
        value = float((units * np.maximum(rewards - prices, 0.0)).sum())
        value += 2.0 * float((rewards + np.abs(prices)).max())
        if group.terminal is not None:
            value += float(np.abs(group.terminal).max())
        if group.model.restless:  # a rest, too, has a reward
            value += float(rewards.sum())
        operations = STEP_OPERATIONS + OUTCOME_OPERATIONS * _outcomes(group.model)
        error += group.count * EPS * operations * (problem.most_pulls + 1.0) * value
    return error


def flow_rounding(problem: Problem) -> float:
    """Return a bound on what rounding adds to the reward of a flow that spends all pulls.

    The exact flow misses a few EPS of the pulls. Mixed with one that makes up for them, it spends
    them all; the weight of the other one is what is missing, relative to the room there is.
    """
    arms, pulls = float(problem.n_arms * problem.most_units), problem.pulls
    room = np.maximum(np.minimum(pulls, arms - pulls), 1.0)
    size = np.append(np.full(problem.horizon, problem.unit), 1.0)[: problem.stages]
    earned = float((np.max([_rewards(g) for g in problem.groups], axis=0) * size * pulls).sum())
    for group in problem.groups:
        if group.terminal is not None:
            earned += group.count * float(np.abs(group.terminal).max())
        if group.model.restless:
            earned += group.count * float(_rewards(group).sum())
    steps = problem.most_pulls + problem.stages
    return FLOW_OPERATIONS * EPS * steps * earned * (1.0 + float((arms / room).max()))


def proved_above(
    problem: Problem,
    prices: Floats,
    value: float,
    budget_price: float = 0.0,
    resource_prices: Floats | None = None,
) -> float:
    """Return an upper bound on every policy from the computed dual function at prices."""
    error = dual_rounding(problem, prices, budget_price, resource_prices)
    return math.nextafter(value + error, math.inf)


def proved_below(problem: Problem, reward: float) -> float:
    """Return a lower bound on the minimum of the dual from the computed reward of a flow."""
    return math.nextafter(reward - flow_rounding(problem), -math.inf)


def _rewards(group: Group) -> Floats:
    """Return the largest reward of a pull of one arm at every stage, without its sign, (stages,).

    Where outcomes have no largest value, of means up to six deviations from the prior's.
    """
    if group.model.counts_good:
        rewards = np.maximum(*np.abs(group.rewards))
    else:
        ends = group.model.usual if group.model.finite else 2.0 * np.array(group.model.usual)
        parts = [group.reward_base + group.reward_factor * x for x in (*ends, *group.model.usual)]
        rewards = np.abs(parts).max(axis=0)
    return np.where(group.available, rewards, 0.0)


def _outcomes(model: ArmModel) -> int:
    """Return the number of outcomes of one step."""
    if isinstance(model, CategoricalModel):
        return model.width
    if isinstance(model, MarkovModel):
        return int(model.arrays.pull.probabilities.shape[1])
    return GRID_OUTCOMES if not model.finite or model.restless else 2
