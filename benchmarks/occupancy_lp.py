"""The dual minimum as a linear program over occupancies, for HiGHS: of equal arms, of any.

    x_0, x_1 (states,)   expected number of arms in state (t, n, g) that rest, that are pulled
    maximise             sum over states of p x_1
    x_0 + x_1 - inflow = K at (0, 0, 0), 0 elsewhere;   sum of x_1 over stage t = 1

State (t, n, g), 0 <= g <= n <= t, stands at t(t+1)(t+2)/6 + n(n+1)/2 + g.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, csc_array

from decobandit import Chain, Problem
from decobandit.paper.plain_oracles import expected_reward, good_chance
from decobandit.problem import Group

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class LinearProgram(NamedTuple):
    """Minimise cost @ x subject to matrix @ x == right, x >= 0."""

    cost: npt.NDArray[np.float64]
    matrix: csc_array
    right: npt.NDArray[np.float64]


def _position(t: Ints, n: Ints, g: Ints) -> Ints:
    return t * (t + 1) * (t + 2) // 6 + n * (n + 1) // 2 + g


def occupancy_lp(arms: int, horizon: int) -> LinearProgram:
    """The program of `arms` equal arms with a flat prior and rewards 1 and 0."""
    t, n, g = np.array(
        [(t, n, g) for t in range(horizon) for n in range(t + 1) for g in range(n + 1)]
    ).T
    states = t.size
    rest = np.arange(states)
    pull = states + rest
    p = (1.0 + g) / (2.0 + n)
    inner = t < horizon - 1  # the last stage flows nowhere
    t1, n1, g1 = t[inner] + 1, n[inner], g[inner]
    entries = [  # row, column, coefficient
        (rest, rest, np.ones(states)),
        (rest, pull, np.ones(states)),
        (_position(t1, n1, g1), rest[inner], -np.ones(t1.size)),
        (_position(t1, n1 + 1, g1 + 1), pull[inner], -p[inner]),
        (_position(t1, n1 + 1, g1), pull[inner], p[inner] - 1.0),
        (states + t, pull, np.ones(states)),
    ]
    row, column, coefficient = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    shape = (states + horizon, 2 * states)
    right = np.concatenate([[float(arms)], np.zeros(states - 1), np.ones(horizon)])
    cost = np.concatenate([np.zeros(states), -p])
    return LinearProgram(cost, coo_array((coefficient, (row, column)), shape=shape).tocsc(), right)


def maximum(program: LinearProgram, method: str) -> float:
    """The value of the program, by one of HiGHS's methods: highs-ds (simplex), highs-ipm."""
    solved: Any = linprog(program.cost, A_eq=program.matrix, b_eq=program.right, method=method)
    if solved.status != 0:
        raise RuntimeError(f"{method}: {solved.message}")
    return -float(solved.fun)


class GroupProgram(NamedTuple):
    """A linear program of which the first rows are the stages, and the columns of pulls."""

    cost: npt.NDArray[np.float64]
    matrix: csc_array
    right: npt.NDArray[np.float64]
    pulls: list[tuple[int, int, int]]  # column, stage, group


def linear_program(problem: Problem) -> GroupProgram:
    """Return the program over x[group, stage, state, action]: expected numbers of arms."""
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
    return GroupProgram(np.array(cost), matrix, limits, pulls)


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


def chain_arrays(
    problem: Problem, group: Group
) -> tuple[
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
]:
    """Return moves (2, S, S), rewards (2, S), their factors (T,) and the first law of a chain."""
    arm = problem.arms[group.members[0]]
    table = arm.prior
    assert isinstance(table, Chain)
    law = np.eye(len(table.rest))[table.first] if isinstance(table.first, int) else table.first
    factors = np.broadcast_to(arm.reward.factor, (problem.horizon,))
    moves, rewards = np.array([table.rest, table.pull]), np.array([table.rest_reward, table.reward])
    return moves, rewards, factors, np.array(law)


def dual_minimum(problem: Problem) -> float:
    """The minimum of the dual of good and bad arms or of chains, by duality."""
    return maximum(LinearProgram(*linear_program(problem)[:3]), "highs")


def main(arms: int, horizon: int, method: str) -> None:
    """Say that the program is built, then print its value and the seconds of solving it."""
    program = occupancy_lp(arms, horizon)
    print("ready", flush=True)
    began = time.perf_counter()
    print(json.dumps([maximum(program, method), time.perf_counter() - began]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
