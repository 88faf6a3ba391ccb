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
    """Return the minimum of the dual, by duality the value of the linear program."""
    from scipy.optimize import linprog

    program = linear_program(problem)
    solution = linprog(program.cost, A_eq=program.matrix, b_eq=program.right, method="highs")
    if solution.status != 0:
        raise RuntimeError(solution.message)
    return -float(solution.fun)


class LinearProgram(NamedTuple):
    """Minimise cost @ x subject to matrix @ x == right, x >= 0; the first rows are the stages."""

    cost: Floats
    matrix: csc_array
    right: Floats
    pulls: list[tuple[int, int, int]]  # column, stage, group


def linear_program(problem: Problem) -> LinearProgram:
    """Return the program over x[group, stage, state, action]: expected numbers of arms."""
    from scipy.sparse import coo_array

    T, rows = problem.horizon, dict[tuple[int, int, ArmState], int]()
    right = dict.fromkeys(range(T), float(problem.pulls_per_stage))
    entries, cost, pulls = [], list[float](), []

    def row_of(*place: *tuple[int, int, ArmState]) -> int:
        return rows.setdefault(place, T + len(rows))

    for k, group in enumerate(problem.groups):
        first, step = _dynamics(problem, group)
        right |= {row_of(k, 0, state): group.count * p for state, p in first.items()}
        states = set(first)
        for t in range(T):
            later = set()
            for state, action in product(states, (0, 1)):
                column, (reward, moves) = len(cost), step(t, state, action)
                cost.append(-reward)
                entries.append((row_of(k, t, state), column, 1.0))
                if action:
                    entries.append((t, column, 1.0))
                    pulls.append((column, t, k))
                for after, p in moves.items() if t + 1 < T else ():
                    entries.append((row_of(k, t + 1, after), column, -p))
                    later.add(after)
            states = later
    i, j, values = zip(*entries, strict=True)
    sizes = T + len(rows), len(cost)
    matrix = coo_array((values, (i, j)), shape=sizes).tocsc()
    limits = np.array([right.get(row, 0.0) for row in range(sizes[0])])
    return LinearProgram(np.array(cost), matrix, limits, pulls)


ArmState = int | tuple[int, int]  # of a chain, or pulls and good outcomes
Moves = tuple[float, dict[ArmState, float]]  # reward, and probabilities of later states
Step = Callable[[int, ArmState, int], Moves]  # stage, state, action


def _dynamics(problem: Problem, group: Group) -> tuple[dict[ArmState, float], Step]:
    """Return the first states of an arm, and the reward and moves of an action in a state."""
    arm = problem.arms[group.members[0]]
    if isinstance(arm.prior, Chain):
        moves, rewards, factors, law = chain_arrays(problem, group)

        def move(stage: int, state: ArmState, action: int) -> Moves:
            later = enumerate(moves[action, state].tolist())
            return factors[stage] * rewards[action, state], {s: p for s, p in later if p > 0.0}

        return dict(enumerate(law)), move

    def pull(stage: int, state: ArmState, action: int) -> Moves:
        assert isinstance(state, tuple)
        n, g = state
        p = good_chance(arm, n, g)
        if action == 0:
            return 0.0, {state: 1.0}
        return expected_reward(arm, stage, n, g), {(n + 1, g + 1): p, (n + 1, g): 1.0 - p}

    return {(0, 0): 1.0}, pull


def chain_arrays(problem: Problem, group: Group) -> tuple[Floats, Floats, Floats, Floats]:
    """Return moves (2, S, S), rewards (2, S), their factors (T,) and the first law of a chain."""
    arm = problem.arms[group.members[0]]
    table = arm.prior
    assert isinstance(table, Chain)
    law = np.eye(len(table.rest))[table.first] if isinstance(table.first, int) else table.first
    factors = np.broadcast_to(arm.reward.factor, (problem.horizon,))
    moves, rewards = np.array([table.rest, table.pull]), np.array([table.rest_reward, table.reward])
    return moves, rewards, factors, np.array(law)


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
