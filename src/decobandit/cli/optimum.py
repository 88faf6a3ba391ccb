"""`deco optimum`: the exact optimum, where the problem is small enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import AsJson
from .output import print_result
from .problem_options import takes_problem

if TYPE_CHECKING:
    from ..joint import Optimum
    from ..problem import Problem


@takes_problem
def optimum(problem: Problem, as_json: AsJson = False) -> None:
    """Compute the exact optimum by dynamic programming over all arms together."""
    from ..joint import optimum as exact_optimum
    from ..support import show_progress

    with show_progress() as report:
        result = exact_optimum(problem, progress=report)
    print_result(result, as_json, print_optimum)


def print_optimum(result: Optimum) -> None:
    """Two lines."""
    print(f"optimum: {result.value:.9f}")
    print(f"{result.states:,} states, {result.seconds:.2f} s")
