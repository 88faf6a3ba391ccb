"""Arms that move at rest: duals beside the linear program over occupations, and policies.

Chains are random: transitions Dirichlet(.5), uniform rewards; seconds are CPU seconds.
"""

from __future__ import annotations

import time

from decobandit import Problem, make_policy, simulate, solve
from decobandit.paper.restless import (
    CIRCULANT,
    chain_problem,
    different_chains,
    hard_chains,
)

from .occupancy_lp import LinearProgram, linear_program, maximum
from .rows import Row, at_most, times_better

HARD = 20
LEAST_RATIO = 100.0
PLAYED = ("circulant-10", "circulant-50", "different-0", "different-1", "hard-0", "hard-6")
DRAWS = 100


def run() -> list[Row]:
    """Rows of duals, then of policies."""
    solve(hard_chains(6), tol=1e-5)  # compiles
    equal = Problem.uniform(arms=10_000, horizon=100, prior=CIRCULANT, pulls_per_stage=2000)
    return [
        *dual("1,000 different chains of 10 states, 100 stages", different(1000, 100), 1e-4, 5.0),
        *dual("10,000 equal chains of 4 states, 100 stages", equal, 1e-4, 1.0),
        hard_instances(),
        beside_program(),
        *(within_one_percent(case) for case in PLAYED),
    ]


def different(types: int, stages: int) -> Problem:
    """Return one arm of every type."""
    return different_chains(types, 1, 10, stages, seed=0)


def dual(what: str, problem: Problem, tol: float, limit: float) -> list[Row]:
    """CPU seconds to a gap, and the gap."""
    began = time.process_time()
    solution = solve(problem, tol=tol)
    seconds = time.process_time() - began
    gap = solution.relative_gap
    assert gap is not None
    return [
        at_most(f"solve {what}, to {tol:g}", seconds, "s", limit),
        at_most(f"solve {what}: between the bounds", gap, "", tol),
    ]


def hard_instances() -> Row:
    """Largest gap of the hard instances."""
    gaps = [solve(hard_chains(seed), tol=1e-5).relative_gap or 0.0 for seed in range(HARD)]
    what = f"{HARD} hard instances (100 equal chains of 8 states, 50 stages, half pulled): gap"
    return at_most(what, max(gaps), "", 1e-5)


def beside_program() -> Row:
    """Seconds for ten types of chains, beside HiGHS."""
    problem = different_chains(10, 10, 10, 50, seed=0)
    program = LinearProgram(*linear_program(problem)[:3])
    began = time.perf_counter()
    value = maximum(program, "highs")
    theirs = time.perf_counter() - began
    began = time.perf_counter()
    solution = solve(problem, tol=1e-4)
    ours = time.perf_counter() - began
    assert solution.lower_bound is not None
    assert solution.lower_bound - 1e-6 <= value <= solution.upper_bound + 1e-6
    what = "solve 10 types of chains, 10 arms each, 10 states, 50 stages, to 1e-4"
    return times_better(what, ours, "s", "HiGHS", theirs, theirs / ours, LEAST_RATIO)


def within_one_percent(case: str) -> Row:
    """Loss of deco in percent of the bound, with 100 arms."""
    problem = chain_problem(case)
    solution = solve(problem, tol=1e-5)
    policy = make_policy(problem, "deco", solution=solution)
    value = simulate(problem, policy, draws=DRAWS, per_draw=1, rng=1).results[0].value
    loss = 100.0 * (1.0 - float(value) / solution.upper_bound)
    return at_most(f"deco, 100 chains ({case}): below the bound", loss, "%", 1.0)
