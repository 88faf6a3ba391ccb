"""`deco gap`: where a policy falls short of the bound, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    Draws,
    Horizon,
    PerDraw,
    PriorBad,
    PriorGood,
    ProblemFile,
    Seed,
    Ties,
    Tolerance,
    print_json,
    problem_from,
    show_played,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..gaps import Gap
    from ..problem import Problem

ROWS = 12  # of a table for people, from either end


def gap(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help=f"One of {POLICY_NAMES}.")] = "deco",
    method: Annotated[
        str | None,
        typer.Option(help="exact or simulated; by default exact where that is possible."),
    ] = None,
    draws: Draws = 1000,
    per_draw: PerDraw = 10,
    seed: Seed = 1,
    ties: Ties = "least-pulled",
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Split what a policy lacks to the bound into shortfall and congestion, stage by stage."""
    from ..gaps import check_method
    from ..gaps import gap as gap_of
    from ..registry import Workbench, tie_rule
    from ..simulation import check_sizes

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    bench = Workbench(described, tol=tol, ties=tie_rule(ties))
    bench.check([policy])
    check_method(method)
    check_sizes(draws, per_draw, seed)
    bench.solution = solve_shown(described, tol)
    with show_played() as report:
        found = gap_of(
            bench.policy(policy), solution=bench.solution, method=method, draws=draws,
            per_draw=per_draw, seed=seed, progress=report,
        )  # fmt: skip
    if as_json:
        print_json(found.to_dict())
    else:
        print_gap(found, described)


def print_gap(found: Gap, problem: Problem) -> None:
    """A table for people: the sums, and the stages where there are not too many."""
    from rich.console import Console
    from rich.table import Table

    exact = found.method == "exact"
    error = "" if exact else f" ± {found.value_se:.6f}"
    part = f" ({100 * found.gap / abs(found.upper_bound):.2f}%)" if found.upper_bound else ""
    print(f"no policy can earn more than {found.upper_bound:.6f} (from the prices)")
    print(f"{found.policy} earns {found.value:.6f}{error}, which is {found.gap:.6f} less{part}:")
    print(f"  shortfall  {found.shortfall:.6f}   pulled arms that were not worth the price")
    print(f"  congestion {found.congestion:.6f}   arms worth the price that were not pulled")
    table = Table(title=f"{title_of(problem)}: {found.policy}, {found.method}")
    titles = ("stage", "shortfall", "congestion", "so far")
    for title in titles if exact else (*titles, "± shortfall", "± congestion"):
        table.add_column(title, justify="right")
    for each, total in zip(found.stages, found.running, strict=True):
        if ROWS <= each.stage < len(found.stages) - ROWS:
            if each.stage == ROWS:
                table.add_row(*["..."] * len(table.columns))
            continue
        row = [str(each.stage), f"{each.shortfall:.6f}", f"{each.congestion:.6f}", f"{total:.6f}"]
        errors = [] if exact else [f"{each.shortfall_se:.6f}", f"{each.congestion_se:.6f}"]
        table.add_row(*row, *errors)
    Console().print(table)
    if len(found.stages) > 2 * ROWS:
        left = f"stages {ROWS} to {len(found.stages) - ROWS - 1}"
        print(f"{left} are left out; --json has all of them")
