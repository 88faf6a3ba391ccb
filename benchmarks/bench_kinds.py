"""Other outcomes than good or bad: duals of normal arms and of classes, simulated steps.

Seconds are CPU seconds of one worker. A step is one stage of one episode.
"""

from __future__ import annotations

import time

from decobandit import (
    Arm,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    make_policy,
    simulate,
    solve,
)

from .rows import Row, at_most

DRAWS, PER_DRAW = 4096, 4
LEAST = 2.0  # million steps per second


def run() -> list[Row]:
    """Rows of duals, then of simulation."""
    return [
        *duals(different_normal_arms(10, 100), 10.0),
        *duals(classes(5, 60), 5.0),
        *(row for name, problem in PLAYED.items() for row in steps(name, problem)),
    ]


def different_normal_arms(arms: int, horizon: int) -> Problem:
    """Means, deviations and noise differ."""
    return Problem(
        horizon=horizon,
        arms=[
            Arm(
                name=f"normal-{k}",
                prior=NormalNormal(mean=0.1 * k, sd=1.0 + 0.05 * k),
                noise_sd=1.0 + 0.03 * k,
            )
            for k in range(arms)
        ],
    )


def classes(arms: int, horizon: int) -> Problem:
    """Three classes each, other pseudo-counts."""
    return Problem(
        horizon=horizon,
        arms=[
            Arm(
                name=f"classes-{k}",
                prior=DirichletCategorical([1, 1, 1 + 0.2 * k]),
                reward=Reward(values=[0, 1, 3]),
            )
            for k in range(arms)
        ],
    )


PLAYED = {
    "normal arms": Problem.uniform(arms=10, horizon=100, prior=NormalNormal(0, 1), noise_sd=1),
    "classes": Problem.uniform(
        arms=5, horizon=60, prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])
    ),
    "counts": Problem.uniform(arms=5, horizon=60, prior=GammaPoisson(2, 1)),
}


def duals(problem: Problem, limit: float) -> list[Row]:
    """CPU seconds to 1e-4, and what is certified then."""
    solve(problem.model_copy(update={"horizon": 2}), workers=1)  # compiles
    began = time.process_time()
    solution = solve(problem, tol=1e-4, workers=1)
    seconds = time.process_time() - began
    kind = problem.arms[0].name.partition("-")[0]
    what = f"solve {problem.n_arms} different {kind} arms, {problem.horizon} stages, to 1e-4"
    gap = solution.relative_gap
    assert gap is not None
    return [
        at_most(what, seconds, "s", limit),
        at_most(f"{what}: between the bounds", gap, "", 1e-3),
    ]


def steps(name: str, problem: Problem) -> list[Row]:
    """Million steps of index policies per CPU second."""
    rows = []
    for policy in ("deco", "fh-gittins"):
        made = make_policy(problem, policy)
        simulate(problem, [made], draws=64, rng=1)  # compiles, makes tables
        began = time.process_time()
        found = simulate(problem, [made], draws=DRAWS, per_draw=PER_DRAW, rng=1, workers=1)
        rate = found.results[0].steps / (time.process_time() - began) / 1e6
        target = f"at least {LEAST:g} M steps/s"
        what = f"simulate {policy}, {problem.n_arms} {name}, {problem.horizon} stages"
        rows.append(
            Row(what, rate, "M steps/s", "limit", LEAST, rate / LEAST, target, rate >= LEAST)
        )
    return rows
