"""Batches: the dual of the published cells to 1e-5, RHO beside ours, a large experiment on a grid.

RHO, residual horizon optimisation, is the best of the published policies (Che and Namkoong, code
in ax-batch-regret). It is played here by our own implementation, on the draws that ours are played
on, beside its published simple regret.
"""

from __future__ import annotations

import math
import resource

from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal, simulate, solve
from decobandit.paper.experiments import published as published_numbers

from .rows import Row, at_most, best_times

DRAWS = {10: 2000, 100: 500}  # of the comparison with RHO, by arms
FAR = 4.0  # standard errors


def run() -> list[Row]:
    """Rows of 10 and 100 arms, then of 50,000 pulls."""
    solve(_published(3, horizon=2), tol=1e-2)  # compiles
    return [
        *(row for arms in (10, 100) for row in published(arms)),
        *(row for arms in (10, 100) for row in beside_rho(arms)),
        *large(rewards=True),
        *large(rewards=False),
    ]


def _published(arms: int, *, horizon: int = 10, unit: int = 10) -> Problem:
    return Problem.uniform(
        arms=arms,
        horizon=horizon,
        pulls_per_stage=100,
        repeat=True,
        unit=unit,
        prior=BetaBernoulli(100, 100),
        reward=Reward(good=0, bad=0),
        terminal=Terminal(deploy=1),
    )


def published(arms: int) -> list[Row]:
    """10 stages of 100 pulls, only the deployment pays: time and calls to 1e-5."""
    problem = _published(arms)
    solution = solve(problem, tol=1e-5)
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached 1e-5")
    (seconds,) = best_times(3, lambda: solve(problem, tol=1e-5))
    what = f"solve {arms} arms, 10 batches of 100, unit 10, to 1e-5"
    return [at_most(what, seconds, "s", 2.0), at_most(what, solution.oracle_calls, "calls", 150)]


def beside_rho(arms: int, *, horizon: int = 10, draws: int | None = None) -> list[Row]:
    """Simple regret and time of RHO, in single pulls as published, and of ours in units of 10."""
    printed = next(
        each for each in published_numbers().batches if (each.arms, each.horizon) == (arms, horizon)
    )
    played, units = draws or DRAWS[arms], _published(arms, horizon=horizon)
    pulls = _published(arms, horizon=horizon, unit=1)
    rho = simulate(pulls, "rho", draws=played, per_draw=1).results[0]
    made = simulate(units, "deco-repriced", draws=played, per_draw=1, solution=solve(units))
    ours = made.results[0]
    assert rho.regret is not None
    assert ours.regret is not None
    their_time, time = (
        1e3 * (each.seconds + each.preparation_seconds) / played for each in (rho, ours)
    )
    what = f"{arms} arms, {horizon} batches of 100"
    best = printed.policies["rho"]
    met = abs(rho.regret - best) <= FAR * math.hypot(rho.value_se, printed.error)
    return [
        Row(
            f"simple regret of RHO, {what}",
            rho.regret,
            "",
            "RHO, published",
            best,
            best / rho.regret,
            f"within {FAR:g} errors ({rho.value_se:.2g} here)",
            met,
        ),
        Row(
            f"simple regret of deco-repriced, {what} (error {ours.value_se:.2g})",
            ours.regret,
            "",
            "RHO by ours, same draws",
            rho.regret,
            rho.regret / ours.regret,
        ),
        Row(
            f"deco-repriced, {what}",
            time,
            "ms/episode",
            "RHO by ours",
            their_time,
            their_time / time,
        ),
    ]


def large(*, rewards: bool) -> list[Row]:
    """8 different arms, 25 batches of 2,000 pulls in units of 200."""
    arms = [
        Arm(name=f"arm-{k}", prior=BetaBernoulli(1 + k, 3 + 2 * k))
        if rewards
        else Arm(name=f"arm-{k}", prior=BetaBernoulli(100 - k, 100), reward=Reward(good=0, bad=0))
        for k in range(8)
    ]
    problem = Problem(
        arms=arms,
        horizon=25,
        pulls_per_stage=2000,
        repeat=True,
        unit=200,
        terminal=None if rewards else Terminal(deploy=1),
    )
    solve(problem.model_copy(update={"horizon": 1}), grid=20)  # compiles
    solution = solve(problem)
    paid = "rewards" if rewards else "deployment only"
    what = f"solve 8 different arms, 25 batches of 2,000, unit 200, {paid}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        at_most(f"{what}: {solution.grid} states per row", solution.seconds, "s", 60.0),
        at_most(f"{what}: relative gap", solution.relative_gap, "", 2e-3),
        at_most(f"{what}: memory of the whole run so far", memory, "GiB", 2.0),
    ]
