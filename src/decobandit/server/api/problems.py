"""Problems sent by requests and forms, within the limits of the server."""

from __future__ import annotations

from ...designs.designing import POLICIES
from ...policies import IndexPolicy, policy_class
from ...problem import Design, DesignedTable, InvalidProblem, Problem, ProblemTable
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
    kind = policy_class(policy, places=False)
    by_index = issubclass(kind, IndexPolicy) and kind.index is not IndexPolicy.index
    tabulates = by_index or kind.cost != "light"
    return limits.max_horizon if tabulates or bound else limits.max_light_horizon


def checked_problem(sent: ProblemTable, limits: Limits) -> Problem:
    """The problem that was sent; a ValueError if it is invalid or too large."""
    check_size(sent, limits)
    try:
        return sent.problem()
    except InvalidProblem as error:
        raise ValueError(error.line(in_body)) from None


def checked_design(
    sent: DesignedTable, limits: Limits, *, most_stages: int | None = None
) -> tuple[Problem, Design | None]:
    """The same with the design that was sent, where there is one."""
    check_size(sent, limits, most_stages)
    try:
        return sent.designed()
    except InvalidProblem as error:
        raise ValueError(error.line(in_body)) from None


def check_work(problem: Problem, design: Design, limits: Limits, where: Naming) -> None:
    """A ValueError for a design that simulates for too long, before it begins."""
    pulls = problem.horizon * problem.pulls_per_stage
    each = pulls * len(design.policies or POLICIES) * max(len(design.scenarios), 1)
    most = limits.design_pulls // each
    if design.draws > most:
        raise ValueError(
            f"{where(('design', 'draws'))}: {design.draws} is not allowed; must be at most {most} "
            "on this server, so that it does not take too long; deco design takes more"
        )
