"""`deco recommend`: the next arm to pull, and why."""

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
    Tolerance,
    print_json,
    problem_from,
    solve_shown,
)

if TYPE_CHECKING:
    from ..policies.deco import DecoPolicy
    from ..problem import Problem
    from ..recommendation import Recommendation
    from ..state import State

MOST_ROWS = 30  # arms shown to a person


def recommend(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="PROBLEM|SOLUTION", help="Problem file, or a saved solution."),
    ] = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="G/N,...", help='Good/pulls of every arm: "3/5,2/2,0/0".'),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Outcomes, one per row: columns arm, outcome."),
    ] = None,
    seed: Annotated[int, typer.Option(help="For a policy that breaks ties at random.")] = 0,
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Recommend the next arm from what has been observed, or at the end the arm to deploy."""
    if (state is None) == (data is None):
        raise typer.BadParameter("give the observations by --state or by --data, one of them")
    import numpy as np

    from ..policies.deco import deco
    from ..recommendation import recommendation

    solved = _saved(file) if file is not None else None
    interrupted = False
    if solved is None:
        problem = problem_from(file, arms, horizon, prior_good, prior_bad)
        observed = _observed(problem, state, data)  # before the long work: bad input fails at once
        solution = solve_shown(problem, tol)
        policy, interrupted = deco(solution), solution.interrupted
    else:
        if any(value is not None for value in (arms, horizon, prior_good, prior_bad)):
            raise typer.BadParameter("a solution file has its problem in it: no --arms, --horizon")
        policy, observed = solved, _observed(solved.problem, state, data)
    result = recommendation(policy, observed, rng=np.random.default_rng(seed))
    if as_json:
        print_json(result.to_dict() | {"interrupted": interrupted})
    else:
        print_recommendation(result)


def _saved(file: Path) -> DecoPolicy | None:
    """The policy of a solution file; None where the file is a problem."""
    from ..problem_files import read_tree
    from ..solution_files import is_solution, load_policy

    if file.suffix.lower() != ".json" or not is_solution(read_tree(file)):
        return None
    return load_policy(file)


def _observed(problem: Problem, state: str | None, data: Path | None) -> State:
    from ..outcomes import read_outcomes
    from ..state import State

    if state is None:
        assert data is not None
        observed = read_outcomes(data, problem)
    else:
        observed = State.parse(state)
    observed.check(problem)
    if observed.stage(problem.pulls_per_stage) >= problem.stages:
        raise ValueError(f"all {problem.horizon} stages have been played; nothing is left to pull")
    return observed


def print_recommendation(result: Recommendation) -> None:
    """The decision and its reasons as a table for people, best index first."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    what = "the deployment" if result.deploy else "a pull"
    table = Table(title=f"stage {result.stage}: price of {what} {digits(result.price)}")
    table.add_column("")
    table.add_column("arm", overflow="fold")
    for title in ("good/pulls", "posterior", "expected reward", "value of information", "index"):
        table.add_column(title, justify="right")
    ranked = sorted(result.arms, key=lambda arm: (arm.name not in result.chosen, -arm.index))
    for arm in ranked[:MOST_ROWS]:
        mark = ">" if arm.name in result.chosen else ""
        table.add_row(
            mark, Text(arm.name), f"{arm.good}/{arm.good + arm.bad}",
            f"Beta({arm.posterior_good:g}, {arm.posterior_bad:g})",
            digits(arm.expected_reward), digits(arm.value_of_information), digits(arm.index),
        )  # fmt: skip
    console = Console()
    console.print(table)
    if len(ranked) > MOST_ROWS:
        console.print(f"({len(ranked) - MOST_ROWS} more arms, none with a larger index)")
    print(("deploy: " if result.deploy else "pull: ") + ", ".join(result.chosen))


def digits(value: float) -> str:
    """A number for a table: six digits, no -0."""
    return f"{round(value, 12) + 0.0:.6g}"
