"""`deco demo`: the main job in one go, a solved problem, a recommendation and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .files import make_folder
from .problem_options import context_of


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the figures go.")] = Path("demo"),
) -> None:
    """Solve a small trial, recommend its next arm, and draw prices and indices."""
    from ..figures import save_figure, solution_figure
    from ..policies import recommend
    from ..policies.deco import deco
    from ..problem import Problem, State
    from .recommend import print_recommendation
    from .solve import print_solution

    make_folder(out)
    solution = context_of(Problem.uniform(arms=5, horizon=40), 1e-4).solution
    print_solution(solution)
    observed = State.parse("5/7,1/3,2/2,0/1,0/0")
    policy = deco(solution)
    print(f"\nafter {observed.total} pulls, good/pulls per arm: {observed}")
    print_recommendation(recommend(policy.problem, observed, policy))
    file = out / "prices-and-indices.png"
    save_figure(solution_figure(solution), file)
    print(f"\nfigure written to {file}")
