"""Exact values: the optimum, the value of a policy, the table of an index."""

from __future__ import annotations

import time

import numpy as np

from decobandit import Problem, solve
from decobandit.calibration import Calibration
from decobandit.evaluation import evaluate
from decobandit.joint_optimum import optimum
from decobandit.policies import deco

from .plain_two_arms import plain_two_arms
from .rows import Row, at_most, best_times

OPTIMA = ((15, 20, 2.0), (5, 40, 60.0), (3, 100, 120.0), (2, 500, 5.0), (2, 1000, 180.0))
SAMPLED = 60  # states at which a table is checked against the exact index
BESIDE = 200  # horizon at which the plain two-arm program runs


def run() -> list[Row]:
    """Rows for the optimum, a policy at (15, 40), and an index table at T = 500."""
    for arms in (2, 3):
        optimum(Problem.uniform(arms=arms, horizon=4))  # compiles
    rows = [
        at_most(f"optimum ({arms}, {horizon})", _seconds(arms, horizon), "s", limit)
        for arms, horizon, limit in OPTIMA
    ]
    return [*rows, two_arms(), policy(15, 40), *index_table(500)]


def _seconds(arms: int, horizon: int) -> float:
    return optimum(Problem.uniform(arms=arms, horizon=horizon)).seconds


def two_arms() -> Row:
    """Ours beside the program one would write first."""
    problem = Problem.uniform(arms=2, horizon=BESIDE)
    plain_two_arms(3)
    if abs(plain_two_arms(BESIDE) - optimum(problem).value) > 1e-8:
        raise AssertionError("the two programs disagree")
    ours, plain = best_times(3, lambda: optimum(problem), lambda: plain_two_arms(BESIDE))
    return Row(f"optimum (2, {BESIDE})", ours, "s", "plain compiled DP", plain, plain / ours)


def policy(arms: int, horizon: int) -> Row:
    """The exact value of DeCo."""
    made = deco(solve(Problem.uniform(arms=arms, horizon=horizon)))
    evaluate(deco(solve(Problem.uniform(arms=2, horizon=3))))  # compiles
    return at_most(f"evaluate DeCo ({arms}, {horizon})", evaluate(made).seconds, "s", 20.0)


def index_table(horizon: int) -> list[Row]:
    """FH-Gittins indices of all states of all stages: time, and error on random states."""
    Calibration(Problem.uniform(arms=1, horizon=60), np.zeros(60)).stage_index(0)  # compiles
    table = Calibration(Problem.uniform(arms=1, horizon=horizon), np.zeros(horizon))
    began = time.perf_counter()
    table.stage_index(0)
    seconds = time.perf_counter() - began
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(SAMPLED):
        t = int(rng.integers(horizon))
        n = int(rng.integers(t + 1))
        g = int(rng.integers(n + 1))
        exact = table.index(t, 0, g, n - g)
        errors.append(abs(table.stage_index(t)[0, n * (n + 1) // 2 + g] - exact))
    what = f"FH-Gittins table, T = {horizon}"
    return [
        at_most(what, seconds, "s", 15.0),
        at_most(f"{what}, largest error", float(max(errors)), "", 1e-7),
    ]
