"""Slow and obvious oracles of problems with resources: occupancy program and joint recursion.

They serve chains and Bernoulli arms alike, with windows, random ends and batches of units: an arm
is its first law and `step(stage, state, units)`, which gives a reward and where it leads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_array

from decobandit import Chain, Problem

Law = dict[object, float]
Step = Callable[[int, object, int], tuple[float, Law]]


def process(problem: Problem, arm: int) -> tuple[Law, Step]:
    """Return the states that an arm begins in, and its steps."""
    prior, reward = problem.arms[arm].prior, problem.arms[arm].reward
    weight = problem.survival
    if isinstance(prior, Chain):
        factor = np.broadcast_to(reward.factor, problem.horizon)
        drawn = not isinstance(prior.first, int)
        first = dict(enumerate(prior.first)) if drawn else {prior.first: 1.0}

        def chain_step(stage: int, state: int, units: int) -> tuple[float, Law]:
            earned = (prior.reward if units else prior.rest_reward)[state]
            law = dict(enumerate((prior.pull if units else prior.rest)[state]))
            return factor[stage] * earned, law

        return first, chain_step

    def step(stage: int, state: tuple[int, int], units: int) -> tuple[float, Law]:
        law: Law = {state: 1.0}
        good, bad = (np.broadcast_to(x, problem.horizon)[stage] for x in (reward.good, reward.bad))
        total = 0.0
        for _ in range(units * problem.unit):
            after: Law = {}
            for (g, b), chance in law.items():
                p = (prior.good + g) / (prior.good + prior.bad + g + b)
                total += chance * (p * good + (1 - p) * bad)
                after[g + 1, b] = after.get((g + 1, b), 0.0) + chance * p
                after[g, b + 1] = after.get((g, b + 1), 0.0) + chance * (1 - p)
            law = after
        return weight[stage] * total, law

    return {(0, 0): 1.0}, step


def most_units(problem: Problem, arm: int, stage: int) -> int:
    able = problem.arms[arm].is_available(problem.horizon)[stage]
    return (problem.units if problem.repeat else 1) if able else 0


def relaxed_value(problem: Problem) -> float:
    """Return the largest reward of occupancies that use at most what there is, in expectation."""
    reward: list[float] = []
    flows: list[tuple[int, int, float]] = []
    right: list[float] = []
    R, T = len(problem.resources or ()), problem.horizon
    limits = np.hstack([np.full((T, 1), float(problem.units)), problem.supply])
    used: list[tuple[int, int, float]] = []
    for arm in range(problem.n_arms):
        first, step = process(problem, arm)
        rows = {state: len(right) + i for i, state in enumerate(first)}
        right += list(first.values())
        for t in range(T):
            later: dict[object, int] = {}
            for state, row in rows.items():
                for units in range(most_units(problem, arm, t) + 1):
                    earned, law = step(t, state, units)
                    column = len(reward)
                    reward.append(earned)
                    flows.append((row, column, 1.0))
                    used.append((t * (R + 1), column, float(units)))
                    for r, amount in enumerate(problem.unit * units * problem.uses[arm]):
                        used.append((t * (R + 1) + 1 + r, column, amount))
                    for to, chance in law.items() if t + 1 < T else ():
                        if to not in later:
                            later[to] = len(right)
                            right.append(0.0)
                        flows.append((later[to], column, -chance))
            rows = later
    equal, most = lil_array((len(right), len(reward))), lil_array((limits.size, len(reward)))
    for matrix, entries in ((equal, flows), (most, used)):
        for row, column, number in entries:
            matrix[row, column] += number
    solved = linprog(
        -np.array(reward), most.tocsr(), limits.ravel(), equal.tocsr(), right, method="highs"
    )
    assert solved.status == 0
    return float(-solved.fun)


def best_value(problem: Problem) -> float:
    """Return the exact optimum by recursion over joint states and feasible sets of arms."""
    arms = [process(problem, arm) for arm in range(problem.n_arms)]

    @cache
    def value(stage: int, states: tuple[object, ...]) -> float:
        if stage == problem.horizon:
            return 0.0
        ways = [range(most_units(problem, k, stage) + 1) for k in range(problem.n_arms)]
        best = -np.inf
        for units in itertools.product(*ways):
            used = problem.unit * np.array(units) @ problem.uses
            if sum(units) > problem.units or np.any(used > problem.supply[stage] + 1e-9):
                continue
            steps = [
                arms[k][1](stage, state, n)
                for k, (state, n) in enumerate(zip(states, units, strict=True))
            ]
            worth = sum(earned for earned, _ in steps)
            for following in itertools.product(*(law.items() for _, law in steps)):
                chance = float(np.prod([p for _, p in following]))
                if chance:
                    worth += chance * value(stage + 1, tuple(state for state, _ in following))
            best = max(best, worth)
        return best

    total = 0.0
    for begun in itertools.product(*(first.items() for first, _ in arms)):
        chance = float(np.prod([p for _, p in begun]))
        total += chance * value(0, tuple(state for state, _ in begun))
    return total
