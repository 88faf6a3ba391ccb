"""What a simulation draws and how often, and which of that is refused."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypedDict, Unpack

from ..problem import Beta, Problem, Truth, check_kind_truth, check_truth, true_problem
from ..support import Rng, seed_of, shown

MOST_EPISODES = 10_000_000


class Sizes(TypedDict, total=False):
    """How often is drawn: keywords of `simulate` and `gap`."""

    draws: int
    per_draw: int
    rng: Rng


class Sampling(Sizes, total=False):
    """What is drawn, too: keywords of `simulate`."""

    truth: Sequence[Any] | None
    truth_prior: Beta | Sequence[Beta] | None
    true_horizon: int | None
    keep_episodes: bool


def check_sizes(draws: int, per_draw: int) -> None:
    """Refuse numbers that make no simulation."""
    for name, value in (("draws", draws), ("per_draw", per_draw)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{name}: {shown(value)} is not allowed; must be a whole number")
    if draws < 2:
        raise ValueError(f"draws: {draws} is not allowed; must be 2 or more, for an error bar")
    if per_draw < 1:
        raise ValueError(f"per_draw: {per_draw} is not allowed; must be 1 or more")
    if draws * per_draw > MOST_EPISODES:
        raise ValueError(
            f"draws x per_draw: {draws * per_draw} episodes; must be at most {MOST_EPISODES}"
        )


def check_sampling(problem: Problem, **sampling: Unpack[Sampling]) -> tuple[Problem, Truth | None]:
    """The problem as it is played, and its truth; a ValueError for settings that do not fit."""
    check_sizes(sampling.get("draws", 2), sampling.get("per_draw", 1))
    seed_of(sampling.get("rng", 0))
    truth, prior = sampling.get("truth"), sampling.get("truth_prior")
    actual = true_problem(problem, prior, sampling.get("true_horizon"))
    if not problem.is_binary:
        if truth is not None:
            check_kind_truth(truth, problem)
        return problem, None
    known = None if truth is None else check_truth(truth, problem)
    if known is not None and prior is not None:
        raise ValueError("truth and truth_prior: give one of the two")
    return actual, known
