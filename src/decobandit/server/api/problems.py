"""Problems sent by requests and forms, within the limits of the server."""

from __future__ import annotations

from ...problem import InvalidProblem, Problem, ProblemTable
from ...support import Naming, Place, dotted
from ..middleware.limits import Limits


def in_body(place: Place) -> str:
    """A place of the problem that is sent with a request."""
    return dotted(("body", "problem", *place))


def check_size(sent: ProblemTable, limits: Limits) -> None:
    """Refuse a problem that is too large, before counts are expanded.

    A small request must not allocate much memory.
    """
    if sent.n_arms > limits.max_arms or sent.horizon > limits.max_horizon:
        raise ValueError(
            f"this server takes at most {limits.max_arms} arms and {limits.max_horizon} stages"
        )


def checked_problem(sent: ProblemTable, limits: Limits, where: Naming = in_body) -> Problem:
    """The problem that was sent; a ValueError if it is invalid or too large."""
    check_size(sent, limits)
    try:
        return sent.problem()
    except InvalidProblem as error:
        raise ValueError(error.line(where)) from None
