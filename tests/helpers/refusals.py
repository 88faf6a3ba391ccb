"""A policy may refuse a problem that it is not made for: a result, and not a skipped test."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from decobandit.problem import Problem


class RefusedError(Exception):
    """The policy refused the problem, as it may, and named itself."""


def check_refusal(name: str, problem: Problem, error: ValueError) -> RefusedError:
    """Only pulls in sets and rewards that differ, between arms or stages, are reasons to refuse."""
    rewards = {arm.reward for arm in problem.arms}
    changing = any(
        isinstance(side, tuple) for reward in rewards for side in (reward.good, reward.bad)
    )
    assert problem.pulls_per_stage > 1 or len(rewards) > 1 or changing, str(error)
    assert repr(name) in str(error)
    return RefusedError(str(error))


def unless_refused(test: Callable[..., None]) -> Callable[..., None]:
    """A test of a policy on a problem; it ends where the policy rightly refuses the problem."""

    @wraps(test)
    def until_refused(*arguments: Any, **named: Any) -> None:
        try:
            test(*arguments, **named)
        except RefusedError:
            return

    return until_refused
