"""Exact values: the optimum, and the value of a policy."""

from __future__ import annotations

from decobandit import Problem, make_policy
from decobandit.evaluation import evaluate
from decobandit.joint import optimum

from .plain_two_arms import plain_two_arms
from .rows import Row, at_most, best_times

OPTIMA = (
    *((15, 20, 2.0), (5, 40, 60.0), (3, 100, 120.0), (3, 250, 180.0)),
    *((2, 500, 5.0), (2, 1000, 180.0), (2, 2000, 180.0)),
)
BESIDE = 200  # horizon at which the plain two-arm program runs


def run() -> list[Row]:
    """Rows for the optimum and for a policy at (15, 40)."""
    for arms in (2, 3):
        optimum(Problem.uniform(arms=arms, horizon=4))  # compiles
    rows = [
        at_most(f"optimum ({arms}, {horizon})", _seconds(arms, horizon), "s", limit)
        for arms, horizon, limit in OPTIMA
    ]
    return [*rows, two_arms(), policy(15, 40)]


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
    made = make_policy(Problem.uniform(arms=arms, horizon=horizon), "deco")
    evaluate(Problem.uniform(arms=2, horizon=3), "deco")  # compiles
    return at_most(
        f"evaluate DeCo ({arms}, {horizon})", evaluate(made.problem, made).seconds, "s", 20.0
    )
