"""`deco solve`: a problem's multipliers, with certified bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Tolerance,
    check_writable,
    print_json,
    problem_from,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..dual import DualSolution


def solve(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    tol: Tolerance = 1e-4,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the solution there, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bound what any policy can earn, and find the price of a pull at every stage."""
    if save is not None:
        check_writable(save)
        if save.suffix.lower() != ".json":
            raise typer.BadParameter(f"--save {save}: solutions are JSON; must end in .json")
    solution = solve_shown(problem_from(problem, arms, horizon, prior_good, prior_bad), tol)
    if save is not None:
        from ..solution_files import save_solution

        save_solution(solution, save)
    if as_json:
        print_json(solution.to_dict())
        return
    print_solution(solution)
    if save is not None:
        print(f"solution written to {save}")


def print_solution(solution: DualSolution) -> None:
    """The bounds as a table for people."""
    from rich.console import Console
    from rich.table import Table

    problem = solution.problem
    table = Table(title=title_of(problem), min_width=50)
    table.add_column("")
    table.add_column("value", justify="right")
    table.add_row("no policy can earn more than", f"{solution.upper_bound:.6f}")
    table.add_row("no prices can prove less than", f"{solution.lower_bound:.6f}")
    table.add_row("relative gap between the two", f"{solution.relative_gap:.1e}")
    table.add_row("price of a pull, first stage", f"{solution.multipliers[0]:.6f}")
    table.add_row("price of a pull, last stage", f"{solution.multipliers[-1]:.6f}")
    if solution.deployment_price is not None:
        table.add_row("price of the deployment", f"{solution.deployment_price:.6f}")
    table.add_row("backward passes", str(solution.oracle_calls))
    table.add_row("seconds", f"{solution.seconds:.2f}")
    Console().print(table)
    if not solution.converged:
        print(
            f"stopped before the gap reached {solution.tol:g}; both bounds are valid all the same"
        )
