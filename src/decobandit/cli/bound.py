"""`deco bound`: upper bounds on the value of any policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson, Seed, Tolerance
from .output import fixed, print_result, said_of, title_of
from .problem_options import context_of, takes_problem
from .tables import print_table

if TYPE_CHECKING:
    from ..bounds import BestBound, InformationBound
    from ..problem import Problem


@takes_problem
def bound(
    problem: Problem,
    draws: Annotated[int, typer.Option(help="Scenarios of the information bound.")] = 500,
    seed: Seed = 1,
    weight: Annotated[
        float | None,
        typer.Option(show_default="the best of six", help="Weight of the penalty, 0 to 1."),
    ] = None,
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Bound what any policy can earn, also where arms are few and the dual's bound is loose."""
    from ..bounds import best_bound, bounds_at_prices
    from ..support import show_progress

    if not problem.is_binary or problem.repeat:
        with show_progress() as report:
            found = best_bound(problem, tol=tol, draws=0, progress=report)
        print_result(found, as_json, _print_from_prices)
        return
    with show_progress() as report:
        result = bounds_at_prices(
            context_of(problem, tol), draws=draws, rng=seed, weight=weight, progress=report
        )
    print_result(result, as_json, print_bounds)


def _print_from_prices(found: BestBound) -> None:
    print(said_of(found))
    print("information bound: none; its scenarios are of single pulls, good or bad")


def print_bounds(result: InformationBound) -> None:
    """A table for people."""
    rows = [
        (result.joint_is, result.joint, "", _joint_meaning(result)),
        ("lagrangian", result.lagrangian, "", "limit on pulls holds in expectation only"),
        (
            "information", result.information, f"{result.information_se:.4f}",
            f"outcomes known in advance, {result.weight:.0%} of the penalty",
        ),
        ("trivial", result.trivial, "", "always pulling the best arms"),
    ]  # fmt: skip
    shown = [
        [name + " (best)" * (name == result.best_is), fixed(value, 4), error, meaning]
        for name, value, error, meaning in rows
        if value is not None or name == "trivial"
    ]
    title = f"Upper bounds on the value of any policy: {title_of(result.problem)}"
    print_table(
        title, ["bound", "value", "± s.e.", "what it is"], shown, text=["bound", "what it is"]
    )
    print(f"information: an estimate from {result.scenarios} scenarios, seed {result.seed}")
    if result.stopped_early > 0.0:
        print(f"in {result.stopped_early:.1%} of them the search was stopped early; still a bound")


def _joint_meaning(result: InformationBound) -> str:
    if result.joint_is == "optimum":
        return "what the best policy earns"
    return f"all arms together for {result.exact_stages} stages, from prices after them"
