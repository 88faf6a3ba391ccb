"""`deco evaluate`: what policies earn, exactly, beside the bound that none can pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Ties,
    Tolerance,
    numbers,
    print_json,
    problem_from,
    show_states,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..dual import DualSolution
    from ..evaluation import Evaluation


def evaluate(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]", help=f"Policies, separated by commas: {POLICY_NAMES}."
        ),
    ] = "deco",
    truth: Annotated[
        str | None,
        typer.Option(metavar="P,...", help="True success probability of every arm."),
    ] = None,
    ties: Ties = "least-pulled",
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Evaluate policies exactly, over the prior or at given true success probabilities."""
    from ..evaluation import check_truth
    from ..evaluation import evaluate as exactly
    from ..registry import Workbench, tie_rule

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    known = None if truth is None else numbers(truth, "--truth")
    bench = Workbench(described, tol=tol, ties=tie_rule(ties))
    names = [name.strip() for name in policy.split(",")]
    bench.check(names)
    if known is not None:
        check_truth(known, described)
    bench.solution = solve_shown(described, tol)
    results = []
    for name in names:
        with show_states(name) as report:
            results.append(exactly(bench.policy(name), truth=known, progress=report))
    if as_json:
        print_json(to_dict(bench.solution, results))
    else:
        print_evaluations(bench.solution, results)


def to_dict(solution: DualSolution, results: list[Evaluation]) -> dict[str, Any]:
    """The JSON of `deco evaluate`."""
    return {
        "arms": solution.problem.number_of_arms,
        "horizon": solution.problem.horizon,
        "upper_bound": solution.upper_bound,
        "interrupted": solution.interrupted,
        "policies": [result.to_dict() for result in results],
    }


def print_evaluations(solution: DualSolution, results: list[Evaluation]) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    problem = solution.problem
    table = Table(title=title_of(problem))
    for title in ("policy", "value", "regret", "states", "seconds"):
        table.add_column(title, justify="left" if title == "policy" else "right")
    known = results[0].truth is not None
    if known:
        for title in ("std. deviation", "P(best arm found)"):
            table.add_column(title, justify="right")
    for result in results:
        row = [
            result.policy,
            f"{result.value:.6f}",
            "" if result.regret is None else f"{result.regret:.6f}",
            f"{result.states:,}",
            f"{result.seconds:.2f}",
        ]
        if result.variance is not None and result.best_arm_probability is not None:
            row += [f"{result.variance**0.5:.4f}", f"{result.best_arm_probability:.4f}"]
        table.add_row(*row)
    Console().print(table)
    print("regret: what is missing to pulling the best arms throughout, as if they were known")
    if known:
        print("P(best arm found): that the largest posterior mean at the end is a best arm's")
    else:
        print(f"no policy can earn more than {solution.upper_bound:.6f}")
