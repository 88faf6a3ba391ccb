"""Problems sent by requests and forms, within the limits of the server."""

from __future__ import annotations

from ...policies import Policy, policy_class
from ...problem import InvalidProblem, Problem, ProblemTable
from ...support import Naming, Place, dotted
from ..middleware.limits import Limits


def in_body(place: Place) -> str:
    """A place of the problem that is sent with a request."""
    return dotted(("body", "problem", *place))


def check_size(sent: ProblemTable, limits: Limits, most_stages: int | None = None) -> None:
    """Refuse a problem that is too large, before counts are expanded.

    A small request must not allocate much memory.
    """
    most = most_stages or limits.max_horizon
    if sent.n_arms > limits.max_arms or sent.horizon > most:
        raise ValueError(f"this server takes at most {limits.max_arms} arms and {most} stages")


def most_stages(policy: str, limits: Limits, *, bound: bool | None) -> int:
    """Stages of a trial: more where its policy needs neither prices nor tables."""
    kind = policy_class(policy)
    tabulates = kind.stage_index is not Policy.stage_index or kind.cost != "light"
    return limits.max_horizon if tabulates or bound else limits.max_light_horizon


def checked_problem(
    sent: ProblemTable, limits: Limits, where: Naming = in_body, *, most_stages: int | None = None
) -> Problem:
    """The problem that was sent; a ValueError if it is invalid or too large."""
    check_size(sent, limits, most_stages)
    try:
        return sent.problem()
    except InvalidProblem as error:
        raise ValueError(error.line(where)) from None
