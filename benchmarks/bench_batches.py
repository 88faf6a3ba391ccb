"""Batches: the dual of the published cells to 1e-5, and a large experiment on a grid of states."""

from __future__ import annotations

import resource

from decobandit import Arm, Beta, Problem, Reward, Terminal, solve

from .rows import Row, at_most, best_times


def run() -> list[Row]:
    """Rows of 10 and 100 arms, then of 50,000 pulls."""
    solve(_published(3, horizon=2), tol=1e-2)  # compiles
    return [*(row for arms in (10, 100) for row in published(arms)), *large(rewards=True),
            *large(rewards=False)]  # fmt: skip


def _published(arms: int, *, horizon: int = 10) -> Problem:
    return Problem.uniform(
        arms=arms, horizon=horizon, pulls_per_stage=100, repeat=True, unit=10,
        prior=Beta(100, 100), reward=Reward(good=0, bad=0), terminal=Terminal(deploy=1),
    )  # fmt: skip


def published(arms: int) -> list[Row]:
    """10 stages of 100 pulls, only the deployment pays: time and calls to 1e-5."""
    problem = _published(arms)
    solution = solve(problem, tol=1e-5)
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached 1e-5")
    (seconds,) = best_times(3, lambda: solve(problem, tol=1e-5))
    what = f"solve {arms} arms, 10 batches of 100, unit 10, to 1e-5"
    return [at_most(what, seconds, "s", 2.0), at_most(what, solution.oracle_calls, "calls", 150)]


def large(*, rewards: bool) -> list[Row]:
    """8 different arms, 25 batches of 2,000 pulls in units of 200."""
    arms = [
        Arm(name=f"arm-{k}", prior=Beta(1 + k, 3 + 2 * k))
        if rewards
        else Arm(name=f"arm-{k}", prior=Beta(100 - k, 100), reward=Reward(good=0, bad=0))
        for k in range(8)
    ]
    problem = Problem(
        arms=arms, horizon=25, pulls_per_stage=2000, repeat=True, unit=200,
        terminal=None if rewards else Terminal(deploy=1),
    )  # fmt: skip
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
