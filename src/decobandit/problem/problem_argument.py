"""Checks of the first argument that public functions have in common."""

from __future__ import annotations

from ..support import InvalidArgument, Unsupported, shown
from .model import Problem


def check_problem(problem: object, *, segments: bool = False) -> Problem:
    """Return the problem; raise a TypeError for anything else, refuse segments unless allowed."""
    if isinstance(problem, Problem):
        if problem.segments and not segments:
            names = ", ".join(segment.name for segment in problem.segments)
            raise Unsupported(
                "segments: this takes the problem of one segment, problem.segment(NAME) or "
                f"--segment NAME, of {names}",
                field="segments",
            )
        return problem
    raise TypeError(
        f"problem: {shown(problem)} is not a decobandit.Problem; "
        "load_problem(path) reads one, Problem.uniform(arms=3, horizon=20) makes one"
    )


def refuse_budget(problem: Problem, what: str) -> None:
    """Raise Unsupported for a problem with a budget, which `what` does not keep to."""
    if problem.budget is not None:
        raise Unsupported(
            f"{what}: does not keep to a budget; solve, bound, gap, evaluate and simulate do",
            field="budget",
        )


def refuse_resources(problem: Problem, what: str) -> None:
    """Raise Unsupported for a problem with resources, which `what` does not share out."""
    if problem.resources is not None:
        raise Unsupported(
            f"{what}: does not share out resources; solve, bound, optimum, evaluate and simulate "
            "do",
            field="resources",
        )


def refuse_batches(problem: Problem, what: str) -> None:
    """Refuse problems whose arms share the pulls of a stage; `what` does not support them."""
    if problem.repeat:
        raise InvalidArgument(
            f"{what}: not for problems with repeat = true, whose arms share the pulls of a stage; "
            "use solve for a bound, simulate or evaluate for policies, optimum for small ones"
        )


def refuse_restless(problem: Problem, what: str) -> None:
    """Raise Unsupported for problems with arms that move at rest; `what` does not follow them."""
    if problem.is_restless:
        raise Unsupported(
            f"{what}: not for arms that move at rest; use solve, simulate, evaluate or optimum"
        )
