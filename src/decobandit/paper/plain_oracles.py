"""Slow and obvious versions of what the package computes, for the self-test.

Nothing here calls the package but to read a problem: recursions over all states in plain Python,
and the relaxed problem as a linear program for HiGHS. A state is ((n, g) of every arm): pulls and
good outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..problem import Arm, Chain, Group, Problem
from ..support import Floats

if TYPE_CHECKING:
    from scipy.sparse import csc_array

State = tuple[tuple[int, int], ...]


def good_chance(arm: Arm, n: int, g: int) -> float:
    """Return the posterior mean of the success probability."""
    return (arm.beta.good + g) / (arm.beta.good + arm.beta.bad + n)


def expected_reward(arm: Arm, stage: int, n: int, g: int) -> float:
    """Return the expected reward of a pull at a stage."""
    good, bad = (
        reward[stage] if isinstance(reward, tuple) else reward
        for reward in (arm.outcome_reward.good, arm.outcome_reward.bad)
    )
    p = good_chance(arm, n, g)
    return p * good + (1.0 - p) * bad


def value(problem: Problem, choose: Callable[[int, State], tuple[int, ...]] | None = None) -> float:
    """Return the value of a policy, or the optimum, by recursion over all states.

    choose(stage, state) gives the arms to pull; without it, the best are taken.
    """
    arms = range(problem.n_arms)
    ways = list(combinations(arms, problem.pulls_per_stage))

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
    """Return the minimum of the dual by a linear program over occupation measures.

    x[t, n, g] and y[t, n, g]: masses of an arm that is, and is not, pulled. Masses move by the
    posterior; the pulls of a stage are as many as there are, on average. By duality its value is
    the minimum of the dual.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    T = problem.horizon
    columns: dict[tuple[int, int, int, int, bool], int] = {}
    for k, t in product(range(problem.n_arms), range(T)):
        for n, pulled in product(range(t + 1), (True, False)):
            for g in range(n + 1):
                columns[k, t, n, g, pulled] = len(columns)
    rows: dict[tuple[int, int, int, int], int] = {}
    for k, t, n, g, _ in columns:
        rows.setdefault((k, t, n, g), len(rows) + T)
    entries: list[tuple[int, int, float]] = []
    gain = np.zeros(len(columns))
    for (k, t, n, g, pulled), column in columns.items():
        arm = problem.arms[k]
        entries.append((rows[k, t, n, g], column, 1.0))
        if pulled:
            entries.append((t, column, 1.0))
            gain[column] = expected_reward(arm, t, n, g)
        p = good_chance(arm, n, g)
        after = [(n + 1, g + 1, p), (n + 1, g, 1.0 - p)] if pulled else [(n, g, 1.0)]
        for n_after, g_after, chance in after if t + 1 < T else []:
            entries.append((rows[k, t + 1, n_after, g_after], column, -chance))
    right = np.zeros(len(rows) + T)
    right[:T] = problem.pulls_per_stage
    right[[rows[k, 0, 0, 0] for k in range(problem.n_arms)]] = 1.0
    i, j, values = zip(*entries, strict=True)
    matrix = coo_array((values, (i, j)), shape=(right.size, gain.size))
    return -float(linprog(-gain, A_eq=matrix.tocsr(), b_eq=right, method="highs").fun)


def chain_dual_minimum(problem: Problem) -> float:
    """Return the minimum of the dual of chains, by a linear program over occupations.

    x[t, a, s] of every group: expected number of arms in state s that rest (a = 0), are pulled (1).
    """
    from scipy.optimize import linprog

    program = chain_program(problem)
    solution = linprog(program.cost, A_eq=program.matrix, b_eq=program.right, method="highs")
    if solution.status != 0:
        raise RuntimeError(solution.message)
    return -float(solution.fun)


class LinearProgram(NamedTuple):
    """Minimise cost @ x subject to matrix @ x == right, x >= 0."""

    cost: Floats
    matrix: csc_array
    right: Floats


def chain_program(problem: Problem) -> LinearProgram:
    """Return the program over occupations of chains."""
    from scipy.sparse import lil_array

    T, parts = problem.horizon, [chain_arrays(problem, group) for group in problem.groups]
    sizes = [part.law.size for part in parts]
    first = np.concatenate([[0], np.cumsum([2 * size * T for size in sizes])])
    rows = sum(size * T for size in sizes) + T
    matrix, right, cost = lil_array((rows, first[-1])), np.zeros(rows), np.zeros(first[-1])
    right[-T:] = problem.pulls_per_stage
    row = 0
    for (moves, rewards, factors, law, arms), begin in zip(parts, first, strict=False):
        size = law.size
        column = begin + np.arange(2 * size * T).reshape(T, 2, size)
        for t in range(T):
            for a in (0, 1):
                cost[column[t, a]] = -factors[t] * rewards[a]
                matrix[range(row, row + size), column[t, a]] = 1.0
                if t > 0:
                    before = column[t - 1, a]
                    matrix[row : row + size, before[0] : before[-1] + 1] = -moves[a].T
            matrix[rows - T + t, column[t, 1]] = 1.0
            right[row : row + size] = arms * law if t == 0 else 0.0
            row += size
    return LinearProgram(cost, matrix.tocsc(), right)


class ChainArrays(NamedTuple):
    """Transitions (2, S, S), rewards (2, S), their factors (T,), first chances (S,), and arms."""

    moves: Floats
    rewards: Floats
    factors: Floats
    law: Floats
    arms: int


def chain_arrays(problem: Problem, group: Group) -> ChainArrays:
    """Return the arrays of a group of equal chains."""
    arm = problem.arms[group.members[0]]
    table = arm.prior
    assert isinstance(table, Chain)
    law = np.eye(len(table.rest))[table.first] if isinstance(table.first, int) else table.first
    factors = np.broadcast_to(arm.reward.factor, (problem.horizon,))
    moves, rewards = np.array([table.rest, table.pull]), np.array([table.rest_reward, table.reward])
    return ChainArrays(moves, rewards, factors, np.array(law), group.count)


def stopping_index(good: float, bad: float, rewards: tuple[float, ...]) -> float:
    """Return the Gittins index of Beta(good, bad) by bisection.

    The certain reward per pull, paid by the same stages, at which starting and never starting
    are worth the same.
    """

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
