"""How often the dual is solved to its tolerance: random problems, hard ones, fine tolerances.

COUNT problems of each class, a quarter as many of hard ones, are solved to 1e-4; a class's row is
the share that got there, and the row after it the CPU seconds of a solve on average.
`python -m benchmarks certificates` with DECO_BENCH_COUNT=100 in the environment takes more of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal, solve
from decobandit.problem import terminal_table

from .rows import Row, at_most

COUNT = int(os.environ.get("DECO_BENCH_COUNT", "12"))
TOL = 1e-4
LONGEST, LONGEST_HARD = 200, 300  # stages
PAPER = ((3, 20), (5, 20), (5, 40), (10, 60), (15, 40))
Maker = Callable[[np.random.Generator, int, int], Problem]


def run() -> list[Row]:
    """Rows of all classes, then the paper's problems to 1e-7."""
    random = [row for name in RANDOM for row in class_rows(name, RANDOM[name], COUNT, LONGEST)]
    few = max(COUNT // 4, 2)
    hard = [row for name in HARD for row in class_rows(name, HARD[name], few, LONGEST_HARD)]
    return [*random, *hard, *(fine(arms, horizon) for arms, horizon in PAPER)]


def class_rows(name: str, make: Maker, count: int, longest: int) -> list[Row]:
    """Success rate and CPU seconds of one class: 5 to 30 different arms, 50 stages or more."""
    reached, began = 0, time.process_time()
    for seed in range(count):
        rng = np.random.default_rng([17, seed])
        arms, horizon = int(rng.integers(5, 31)), int(rng.integers(50, longest + 1))
        reached += solve(make(rng, arms, horizon), tol=TOL).converged
    seconds = (time.process_time() - began) / count
    share = 100.0 * reached / count
    what = f"{count} random problems, {name}"
    return [
        Row(
            f"{what}: solved to {TOL:g}",
            share,
            "%",
            "limit",
            99.0,
            share / 99.0,
            "at least 99 %",
            share >= 99.0,
        ),
        Row(f"{what}: CPU seconds of a solve", seconds, "s", "", None, None),
    ]


def fine(arms: int, horizon: int) -> Row:
    """The relative gap where 1e-7 is asked for."""
    solution = solve(Problem.uniform(arms=arms, horizon=horizon), tol=1e-7)
    gap = solution.relative_gap
    assert gap is not None
    what = f"solve ({arms}, {horizon}) to 1e-7: gap after {solution.oracle_calls} calls"
    return at_most(what, gap, "", 1e-7)


def _arms(
    rng: np.random.Generator, arms: int, reward: Callable[[], list[float] | float]
) -> tuple[Arm, ...]:
    priors = rng.uniform(0.5, 4.0, (arms, 2)).round(3).tolist()
    return tuple(
        Arm(name=f"{k}", prior=BetaBernoulli(good, bad), reward=Reward(good=reward()))
        for k, (good, bad) in enumerate(priors)
    )


def _own(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    draw = lambda: rng.uniform(0.0, 1.0, horizon).round(3).tolist()  # noqa: E731
    return Problem(arms=_arms(rng, arms, draw), horizon=horizon)


def _seasonal(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    def draw() -> list[float]:
        phase, cycles, depth = rng.uniform(0.0, 1.0, 3) * (6.28, 25.0, 0.5)
        wave = np.sin(phase + cycles * np.arange(horizon) / horizon)
        rewards: list[float] = (1.0 + depth * wave).round(3).tolist()
        return rewards

    return Problem(arms=_arms(rng, arms, draw), horizon=horizon)


def _common(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    rewards = rng.normal(0.0, 1.0, horizon).round(3).tolist()
    return Problem(arms=_arms(rng, arms, lambda: rewards), horizon=horizon)


def _sparse(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    rewards = np.where(rng.random(horizon) < 0.8, 0.0, rng.uniform(0.0, 1.0, horizon)).round(3)
    return Problem(arms=_arms(rng, arms, rewards.tolist), horizon=horizon)


def _deployed(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    reward = float(rng.choice([0.0, 0.1, 1.0]))
    return Problem(
        arms=_arms(rng, arms, lambda: reward), horizon=horizon, terminal=Terminal(deploy=100.0)
    )


def _tables(rng: np.random.Generator, arms: int, horizon: int) -> Problem:
    reward = float(rng.choice([0.0, 1.0]))

    def with_table(arm: Arm) -> Arm:
        last = rng.uniform(0.0, 1.0, (horizon + 1, horizon + 1)).round(3)
        table = terminal_table(horizon, lambda good, bad: float(last[good, bad]))
        return arm.model_copy(update={"terminal": table})

    few = tuple(map(with_table, _arms(rng, min(arms, 10), lambda: reward)))
    return Problem(arms=few, horizon=horizon)


RANDOM: dict[str, Maker] = {"rewards by stage and arm": _own, "seasonal rewards": _seasonal}
HARD: dict[str, Maker] = {
    "one reward per stage for all arms": _common,
    "80% of stages without reward": _sparse,
    "a deployment": _deployed,
    "tables of last rewards": _tables,
}
