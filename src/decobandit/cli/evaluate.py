"""`deco evaluate`: what policies earn, exactly, beside the bound that none can pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    BoundDraws,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Ties,
    Tolerance,
    numbers,
    percent,
    print_json,
    problem_from,
    said_of,
    show_states,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..best_bounds import BestBound
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
    bound_draws: BoundDraws = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate policies exactly, over the prior or at given true success probabilities."""
    from ..best_bounds import best_bound, check_bound_draws
    from ..evaluation import check_truth
    from ..evaluation import evaluate as exactly
    from ..registry import Workbench, tie_rule

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    known = None if truth is None else numbers(truth, "--truth")
    bench = Workbench(described, tol=tol, ties=tie_rule(ties))
    names = [name.strip() for name in policy.split(",")]
    bench.check(names)
    check_bound_draws(bound_draws)
    if known is not None:
        check_truth(known, described)
    bench.solution = solve_shown(described, tol)
    made = [bench.policy(name) for name in names]  # all of them first: one may refuse the problem
    results = []
    for each in made:
        with show_states(each.name) as report:
            results.append(exactly(each, truth=known, progress=report))
    bound = None if known is not None else best_bound(bench.solution, draws=bound_draws)
    if as_json:
        print_json(to_dict(bench.solution, results, bound))
    else:
        print_evaluations(bench.solution, results, bound)


def to_dict(
    solution: DualSolution, results: list[Evaluation], bound: BestBound | None
) -> dict[str, Any]:
    """The JSON of `deco evaluate`; a certified gap only over the prior."""
    policies = [result.to_dict() for result in results]
    if bound is not None:
        for tree in policies:
            tree["certified_gap_percent"] = bound.gap_percent(tree["value"])
    return {
        "arms": solution.problem.number_of_arms,
        "horizon": solution.problem.horizon,
        "upper_bound": solution.upper_bound,
        "interrupted": solution.interrupted,
        **({} if bound is None else bound.to_dict()),
        "policies": policies,
    }


def print_evaluations(
    solution: DualSolution, results: list[Evaluation], bound: BestBound | None
) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    problem = solution.problem
    table = Table(title=title_of(problem))
    for title in ("policy", "value", "regret", "states", "seconds"):
        table.add_column(title, justify="left" if title == "policy" else "right")
    known = results[0].truth is not None
    if bound is not None:
        table.add_column("to bound", justify="right")
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
        if bound is not None:
            row.append(percent(bound.gap_percent(result.value)))
        if result.variance is not None and result.best_arm_probability is not None:
            row += [f"{result.variance**0.5:.4f}", f"{result.best_arm_probability:.4f}"]
        table.add_row(*row)
    Console().print(table)
    print("regret: what is missing to pulling the best arms throughout, as if they were known")
    if known:
        print("P(best arm found): that the largest posterior mean at the end is a best arm's")
    if bound is not None:
        print(said_of(bound))
