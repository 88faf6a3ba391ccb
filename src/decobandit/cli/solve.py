"""`deco solve`: a problem's multipliers, with certified bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .files import ending_in, written
from .options import AsJson, Tolerance
from .output import print_result, say, title_of
from .problem_options import solve_shown, takes_problem
from .tables import print_table

if TYPE_CHECKING:
    from ..prices import DualSolution
    from ..problem import Problem


@takes_problem
def solve(
    problem: Problem,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=ending_in(".json"), help="Write the solution there, as JSON."
        ),
    ] = None,
    tol: Tolerance = 1e-4,
    grid: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of batches, normal arms, counts: states per row; 0 for all, in batches. By "
            "default a grid where all are too many.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bound what any policy can earn, and find the price of a pull at every stage."""
    from ..prices import save_solution

    solution = solve_shown(problem, tol, grid)
    if solution.interrupted:
        say("interrupted: this is the best solution so far")
    if out is not None:
        save_solution(solution, out)
        written("solution", out)
    print_result(solution, as_json, print_solution)


def _below(solution: DualSolution) -> list[tuple[str, str]]:
    if solution.lower_bound is None:
        return [("the minimum of the dual is at least", "not known")]
    return [
        ("the minimum of the dual is at least", f"{solution.lower_bound:.6f}"),
        ("relative gap between the two", f"{solution.relative_gap:.1e}"),
    ]


def print_solution(solution: DualSolution) -> None:
    """The bounds as a table for people."""
    rows = [
        ("no policy can earn more than", f"{solution.upper_bound:.6f}"),
        *_below(solution),
        ("price of a pull, first stage", f"{solution.multipliers[0] / solution.problem.unit:.6f}"),
        ("price of a pull, last stage", f"{solution.multipliers[-1] / solution.problem.unit:.6f}"),
    ]
    if solution.deployment_price is not None:
        rows.append(("price of the deployment", f"{solution.deployment_price:.6f}"))
    if solution.grid:
        rows.append(("states per row, a grid", str(solution.grid)))
    rows.append(("backward passes", str(solution.oracle_calls)))
    rows.append(("seconds, without compiling", f"{solution.seconds:.2f}"))
    print_table(title_of(solution.problem), ["", "value"], rows, text=[""], min_width=50)
    if solution.grid:
        if solution.search_gap is not None:
            print(f"on this grid the prices are the best to a gap of {solution.search_gap:.1e};")
        if solution.lower_bound is None:
            print("the bound holds for every state; below, only a finer grid (--grid) tells")
        else:
            print("both bounds hold for every state; a finer grid (--grid) narrows their gap")
    elif not solution.converged:
        print(
            f"stopped before the gap reached {solution.tol:g}; both bounds are valid nevertheless"
        )
    if solution.stopped:
        print(solution.stopped)
