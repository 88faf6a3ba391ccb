"""`deco bound`: what no policy can pass, by three bounds."""

from __future__ import annotations

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
    print_json,
    problem_from,
    show_levels,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..information_bounds import InformationBound


def bound(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    draws: Annotated[int, typer.Option(help="Scenarios of the information bound.")] = 500,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 1,
    weight: Annotated[
        float | None,
        typer.Option(help="Part of the penalty that is paid, 0 to 1. [default: the best of six]"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; as many as cores by default.")
    ] = None,
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Bound what any policy can earn, also where arms are few and the dual's bound is loose."""
    from ..information_bounds import check_settings, information_bound

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    check_settings(draws, seed, weight)
    solution = solve_shown(described, tol)
    with show_levels("information bound") as report:
        result = information_bound(
            described,
            solution,
            draws=draws,
            seed=seed,
            weight=weight,
            threads=threads,
            progress=report,
        )
    if as_json:
        print_json(result.to_dict())
    else:
        print_bounds(result)


def print_bounds(result: InformationBound) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"No policy earns more: {title_of(result.problem)}")
    for title in ("bound", "value", "± s.e.", "what it is"):
        table.add_column(title, justify="right" if title in ("value", "± s.e.") else "left")
    rows = [
        ("lagrangian", result.lagrangian, "", "pulls are limited in expectation only"),
        (
            "information", result.information, f"{result.information_se:.4f}",
            f"outcomes are foreseen, and paid for by {result.weight:.0%}",
        ),
        ("trivial", result.trivial, "", "the best arms are known"),
    ]  # fmt: skip
    for name, value, error, meaning in rows:
        mark = " (best)" if name == result.best_is else ""
        table.add_row(name + mark, "" if value is None else f"{value:.4f}", error, meaning)
    Console().print(table)
    print(f"information: an estimate from {result.scenarios} scenarios, seed {result.seed}")
    if result.stopped_early > 0.0:
        print(f"in {result.stopped_early:.1%} of them the search was stopped, still with a bound")
