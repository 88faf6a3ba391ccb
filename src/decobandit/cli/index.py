"""`deco index`: the index of one arm in one state."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Tolerance,
    print_json,
    problem_from,
    solve_shown,
)


def index(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help=f"A policy with an index: {POLICY_NAMES}.")
    ] = "deco",
    stage: Annotated[int, typer.Option(help="Stage, from 0.")] = 0,
    good: Annotated[int, typer.Option(help="Good outcomes of the arm so far.")] = 0,
    bad: Annotated[int, typer.Option(help="Bad outcomes of the arm so far.")] = 0,
    arm: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which arm. [default: the first]")
    ] = None,
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Compute the index of an arm from its outcomes so far."""
    from ..registry import Workbench, arm_index, arm_position, check_state

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    bench = Workbench(described, tol=tol)
    bench.check([policy])
    position = arm_position(described, arm)
    check_state(described, stage, good, bad)
    if policy in ("deco", "deco-calibrated"):  # with progress, as these need the prices
        bench.solution = solve_shown(described, tol)
    result = arm_index(bench, policy, position, stage, good, bad)
    if as_json:
        print_json(result)
    else:
        print(
            f"{policy} index of {result['arm']} at stage {stage} with {good} good, {bad} bad: "
            f"{result['index']:.10g}"
        )
        for key in ("expected_reward", "value_of_information", "price", "path"):
            if key in result:
                print(f"{key.replace('_', ' ')}: {result[key]}")
