"""Errors for problems that a policy does not support; most name policies that do."""

from __future__ import annotations

import numpy as np

from ..problem import Problem, States
from .names import general_policies


class TooManyStates(ValueError):
    """The policy reaches more states than allowed.

    See Also
    --------
    evaluate : its `limit_states` says how many.
    """


def refuse_ruled_optimum(states: States, policy: str) -> None:
    """A ValueError where rules of a trial leave the states that the optimum was computed for."""
    pending, dropped = states.pending, states.allowed is not None and not np.all(states.allowed)
    if dropped or (pending is not None and np.any(pending)):
        raise ValueError(
            f"policy {policy!r} is optimal where all outcomes are known and all arms can be "
            "pulled: not with a delay, a share of control, or arms that are dropped"
        )


def refuse_several_pulls(problem: Problem, policy: str) -> None:
    """A ValueError unless one arm is pulled at every stage."""
    if problem.pulls_per_stage != 1:
        raise ValueError(
            f"policy {policy!r} weighs single pulls; the problem has {problem.pulls_per_stage} per "
            f"stage; use {general_policies()}"
        )


def refuse_unequal_rewards(problem: Problem, policy: str) -> None:
    """A ValueError unless one pair of rewards, good above bad, holds for all arms and stages."""
    first = problem.groups[0]
    good, bad = float(first.reward_good[0]), float(first.reward_bad[0])
    why = f"policy {policy!r} compares success probabilities, so that"
    for group in problem.groups:
        name = problem.arms[group.members[0]].name
        for rewards, expected in ((group.reward_good, good), (group.reward_bad, bad)):
            other = rewards[: problem.horizon][rewards[: problem.horizon] != expected]
            if other.size:
                raise ValueError(
                    f"{why} all arms must have the same rewards at all stages; arm {name!r} has "
                    f"{other[0]:g} where others have {expected:g}; use {general_policies()}"
                )
    if good <= bad:
        raise ValueError(
            f"{why} a good outcome must earn more than a bad one; here good earns {good:g} and "
            f"bad {bad:g}; use {general_policies()}"
        )


def refuse_changing_rewards(problem: Problem, policy: str) -> None:
    """A ValueError unless every arm has the same rewards at all stages."""
    for group in problem.groups:
        for rewards in (group.reward_good[: problem.horizon], group.reward_bad[: problem.horizon]):
            if np.any(rewards != rewards[0]):
                name = problem.arms[group.members[0]].name
                raise ValueError(
                    f"policy {policy!r} discounts the same reward at all stages; those of arm "
                    f"{name!r} change; use {general_policies()}"
                )
