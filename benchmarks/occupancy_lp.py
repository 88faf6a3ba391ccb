"""The dual minimum of equal arms as a linear program over occupancies, for HiGHS.

    x_0, x_1 (states,)   expected number of arms in state (t, n, g) that rest, that are pulled
    maximise             sum over states of p x_1
    x_0 + x_1 - inflow = K at (0, 0, 0), 0 elsewhere;   sum of x_1 over stage t = 1

State (t, n, g), 0 <= g <= n <= t, stands at t(t+1)(t+2)/6 + n(n+1)/2 + g.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, csc_array

Ints = npt.NDArray[np.int64]


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


def main(arms: int, horizon: int, method: str) -> None:
    """Say that the program is built, then print its value and the seconds of solving it."""
    program = occupancy_lp(arms, horizon)
    print("ready", flush=True)
    began = time.perf_counter()
    print(json.dumps([maximum(program, method), time.perf_counter() - began]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
