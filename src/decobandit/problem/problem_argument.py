"""Checks of the first argument that public functions have in common."""

from __future__ import annotations

from ..support import shown
from .model import Problem


def check_problem(problem: object) -> Problem:
    """The problem; a TypeError where it is something else."""
    if isinstance(problem, Problem):
        return problem
    raise TypeError(
        f"problem: {shown(problem)} is not a decobandit.Problem; "
        "load_problem(path) reads one, Problem.uniform(arms=3, horizon=20) makes one"
    )


def refuse_batches(problem: Problem, what: str) -> None:
    """A ValueError for problems whose arms share the pulls of a stage; `what` is not for them."""
    if problem.repeat:
        raise ValueError(
            f"{what}: not for problems with repeat = true, whose arms share the pulls of a stage; "
            "use solve for a bound, simulate or evaluate for policies, optimum for small ones"
        )
