"""`deco optimum`: the exact optimum, where the problem is small enough."""

from __future__ import annotations

from .options import (
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    print_json,
    problem_from,
    show_levels,
)


def optimum(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    as_json: AsJson = False,
) -> None:
    """Compute the exact optimum by dynamic programming over all arms together."""
    from ..joint_optimum import optimum as exact_optimum

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    with show_levels("optimum") as report:
        result = exact_optimum(described, progress=report)
    if as_json:
        print_json(result.to_dict())
        return
    print(f"optimum: {result.value:.9f}")
    print(f"{result.states:,} states, {result.seconds:.2f} s")
