"""Problems that are sent to the server: it takes only those that it solves in minutes."""

from __future__ import annotations

from ..problem import Problem
from ..problem_files import problem_from_dict
from .limits import Limits
from .schemas import ProblemIn


def checked_problem(sent: ProblemIn, limits: Limits) -> Problem:
    """The problem that was sent; a ValueError says why it is none, or too large."""
    # before the counts are expanded: a small request must not ask for much memory
    arms = sum(entry.count for entry in sent.arms)
    if arms > limits.max_arms or sent.horizon > limits.max_horizon:
        raise ValueError(
            f"this server takes at most {limits.max_arms} arms and {limits.max_horizon} stages"
        )
    return problem_from_dict(sent.tree(), source="problem")
