"""Slow and obvious versions of what the package computes, for the self-test.

Nothing here calls the package but to read a problem: recursions over all states in plain Python,
and the relaxed problem as a linear program for HiGHS. A state is ((n, g) of every arm): pulls and
good outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from ..problem import Arm, Problem

if TYPE_CHECKING:
    pass

State = tuple[tuple[int, int], ...]


def good_chance(arm: Arm, n: int, g: int) -> float:
    """Return the posterior mean of the success probability."""
    return (arm.beta.good + g) / (arm.beta.good + arm.beta.bad + n)


def expected_reward(arm: Arm, stage: int, n: int, g: int) -> float:
    """Return the expected reward of a pull at a stage."""
    good, bad = (
        reward[stage] if isinstance(reward, tuple) else reward
        for reward in (arm.reward.good, arm.reward.bad)
    )
    p = good_chance(arm, n, g)
    return p * good + (1.0 - p) * bad


def value(problem: Problem, choose: Callable[[int, State], tuple[int, ...]] | None = None) -> float:
    """Return the value of choose(stage, state), the arms to pull, or the optimum."""
    ways = list(combinations(range(problem.n_arms), problem.pulls_per_stage))

    @cache
    def rest(stage: int, state: State) -> float:
        if stage == problem.horizon:
            return 0.0
        chosen = ways if choose is None else [choose(stage, state)]
        return max(pull(stage, state, way) for way in chosen)

    def pull(stage: int, state: State, way: tuple[int, ...]) -> float:
        total = sum(expected_reward(problem.arms[k], stage, *state[k]) for k in way)
        for outcomes in product((0, 1), repeat=len(way)):
            chance, after = 1.0, list(state)
            for k, outcome in zip(way, outcomes, strict=True):
                n, g = state[k]
                p = good_chance(problem.arms[k], n, g)
                chance *= p if outcome else 1.0 - p
                after[k] = (n + 1, g + outcome)
            total += chance * rest(stage + 1, tuple(after))
        return total

    return rest(0, ((0, 0),) * problem.n_arms)


def dual_minimum(problem: Problem) -> float:
    """Return the minimum of the dual, by duality the value of a linear program.

    A variable is the expected number of arms of one kind in a state that rest, or are pulled.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    T, rows = problem.horizon, dict[tuple[int, ...], int]()
    right = dict.fromkeys(range(T), float(problem.pulls_per_stage))
    entries, cost = [], list[float]()

    def row_of(*place: int) -> int:
        return rows.setdefault(place, T + len(rows))

    for k, group in enumerate(problem.groups):
        arm = problem.arms[group.members[0]]
        right[row_of(k, 0, 0, 0)] = float(group.count)
        states = [(t, n, g) for t in range(T) for n in range(t + 1) for g in range(n + 1)]
        for (t, n, g), action in product(states, (0, 1)):
            column, p, later = len(cost), good_chance(arm, n, g), {(n, g): 1.0}
            entries.append((row_of(k, t, n, g), column, 1.0))
            if action:
                entries.append((t, column, 1.0))
                later = {(n + 1, g + 1): p, (n + 1, g): 1.0 - p}
            cost.append(-action * expected_reward(arm, t, n, g))
            for after, chance in later.items() if t + 1 < T else ():
                entries.append((row_of(k, t + 1, *after), column, -chance))
    i, j, values = zip(*entries, strict=True)
    sizes = T + len(rows), len(cost)
    matrix = coo_array((values, (i, j)), shape=sizes).tocsc()
    limits = np.array([right.get(row, 0.0) for row in range(sizes[0])])
    solution = linprog(np.array(cost), A_eq=matrix, b_eq=limits, method="highs")
    if solution.status != 0:
        raise RuntimeError(solution.message)
    return -float(solution.fun)


def stopping_index(good: float, bad: float, rewards: tuple[float, ...]) -> float:
    """Return the Gittins index by bisection on a certain reward for which stopping is even."""

    def worth(charge: float) -> float:
        @cache
        def best(n: int, g: int) -> float:
            if n == len(rewards):
                return 0.0
            p = (good + g) / (good + bad + n)
            go_on = p * best(n + 1, g + 1) + (1.0 - p) * best(n + 1, g)
            return max(0.0, rewards[n] * (p - charge) + go_on)

        return best(0, 0)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worth(middle) > 1e-16 else (low, middle)
    return 0.5 * (low + high)
