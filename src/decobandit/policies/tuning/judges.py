"""What policies earn, found by rooms above this one: named here, as the catalogue names policies.

A price path is chosen by the value of its policy. Values come from `evaluation` and `simulation`,
which import `policies`; here stands what the search asks of them, and where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from ...problem import Problem
from ...support import found_at
from ..base import Policy

EXACT = "decobandit.evaluation:evaluate"
SAMPLED = "decobandit.simulation:simulate"


class Value(Protocol):
    """What a policy earns, and how many states it reaches."""

    @property
    def value(self) -> float: ...
    @property
    def states(self) -> int: ...


class Difference(Protocol):
    """What one policy earns more than another, with its standard error."""

    @property
    def value(self) -> float: ...
    @property
    def value_se(self) -> float: ...


class Sample(Protocol):
    """Policies on common draws."""

    @property
    def interrupted(self) -> bool: ...
    def difference(self, a: str, b: str, /) -> Difference: ...


class _Exact(Protocol):
    def __call__(self, problem: Problem, policy: Policy, *, limit_states: int) -> Value: ...


class _Sampled(Protocol):
    def __call__(
        self, problem: Problem, policies: Sequence[Policy], *, draws: int, per_draw: int
    ) -> Sample: ...


def exact_value(policy: Policy, limit_states: int) -> Value:
    """What it earns, exactly; `TooManyStates` where it reaches more than the limit."""
    return cast(_Exact, found_at(EXACT))(policy.problem, policy, limit_states=limit_states)


def on_common_draws(policies: Sequence[Policy], draws: int, per_draw: int) -> Sample:
    """What policies of one problem earn in simulated episodes; interrupted where the user was."""
    simulate = cast(_Sampled, found_at(SAMPLED))
    found = simulate(policies[0].problem, policies, draws=draws, per_draw=per_draw)
    if found.interrupted:
        raise KeyboardInterrupt
    return found
