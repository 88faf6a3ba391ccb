"""Arms that share two resources: duals of 300 arms, and beside the linear program of fewer.

Chains are random as in `bench_restless.py`, priors of Bernoulli arms and all uses are random too;
seconds are CPU seconds.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import block_diag, csc_array, hstack, lil_array, vstack

from decobandit import Arm, BetaBernoulli, Problem, simulate, solve
from decobandit.paper.restless import random_chain

from .bench_restless import dual
from .occupancy_lp import LinearProgram, linear_program, maximum
from .rows import Row, at_most, times_better

LEAST_RATIO = 50.0


def run() -> list[Row]:
    """Rows of duals, of the program beside, and of a policy."""
    for kind in ("chain", "Bernoulli"):
        solve(ward(kind, 3, 3))  # compiles
    chains = ward("chain", 300, 50)
    return [
        *dual("300 chains of 10 states, two resources, 50 stages", chains, 1e-4, 20.0),
        *dual("300 Bernoulli arms, two resources, 50 stages", ward("Bernoulli", 300, 50), 1e-4, 60),
        beside_program(),
        within_one_percent(chains),
    ]


def ward(kind: str, arms: int, stages: int, *, copies: int = 1) -> Problem:
    """Return arms with random uses; resources for about a tenth of all."""
    rng = np.random.default_rng(0)
    members = []
    for k in range(arms):
        chain = kind == "chain"
        prior = random_chain(rng, 10) if chain else BetaBernoulli(*rng.uniform(0.5, 4.0, 2))
        uses = {"nurse": float(rng.integers(1, 4)), "bed": float(rng.uniform(0.0, 2.0))}
        members += [Arm(name=f"a-{k}-{i}", prior=prior, uses=uses) for i in range(copies)]
    total = arms * copies
    resources = {"nurse": total / 5, "bed": total / 8}
    return Problem(horizon=stages, arms=members, resources=resources)


def resource_program(problem: Problem) -> LinearProgram:
    """Return the program over occupations of chains, with a slack for every stage and resource."""
    plain, T = linear_program(problem), problem.horizon
    uses = problem.uses[[group.members[0] for group in problem.groups]]
    rows = lil_array((problem.supply.size, plain.cost.size))
    for column, stage, group in plain.pulls:
        for r, amount in enumerate(uses[group]):
            rows[stage * uses.shape[1] + r, column] = amount
    flows = hstack([plain.matrix[T:], csc_array((plain.right.size - T, problem.supply.size))])
    limits = hstack([rows, block_diag([np.eye(1)] * problem.supply.size)])
    cost = np.append(plain.cost, np.zeros(problem.supply.size))
    right = np.append(plain.right[T:], problem.supply)
    return LinearProgram(cost, vstack([flows, limits]).tocsc(), right)


def beside_program() -> Row:
    """Seconds for ten types of chains, beside HiGHS."""
    problem = ward("chain", 10, 50, copies=10)
    began = time.process_time()
    value = maximum(resource_program(problem), "highs")
    theirs = time.process_time() - began
    began = time.process_time()
    solution = solve(problem, tol=1e-4)
    ours = time.process_time() - began
    assert solution.lower_bound is not None
    assert solution.lower_bound - 1e-6 <= value <= solution.upper_bound + 1e-6
    what = "solve 10 types of chains, 10 arms each, two resources, 50 stages, to 1e-4"
    return times_better(what, ours, "s", "HiGHS", theirs, theirs / ours, LEAST_RATIO)


def within_one_percent(problem: Problem) -> Row:
    """Loss of deco in percent of the bound."""
    solution = solve(problem, tol=1e-5)
    value = simulate(problem, ["deco"], draws=20, per_draw=1, rng=1, solution=solution)
    loss = 100.0 * (1.0 - float(value.results[0].value) / solution.upper_bound)
    return at_most("deco, 300 chains, two resources: below the bound", loss, "%", 1.0)
