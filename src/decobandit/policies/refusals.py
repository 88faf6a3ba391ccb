"""Why a policy does not serve a problem, in one sentence; None where it does."""

from __future__ import annotations

import numpy as np

from ..problem import Problem, States

GENERAL = "use 'deco', 'greedy' or 'equal'"  # which serve every problem


def refuse_ruled_optimum(states: States, policy: str) -> None:
    """A ValueError where rules of a trial leave the states that the optimum was computed for."""
    pending, dropped = states.pending, states.allowed is not None and not np.all(states.allowed)
    if dropped or (pending is not None and np.any(pending)):
        raise ValueError(
            f"policy {policy!r} is optimal where all outcomes are known and all arms can be "
            "pulled: not with a delay, a share of control, or arms that are dropped"
        )


def batch_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that chooses arms for single pulls."""
    if not problem.repeat:
        return None
    return (
        f"policy {policy!r} chooses arms for single pulls, and does not share a batch among them; "
        "use 'deco', 'greedy' or 'thompson'"
    )


def single_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that shares batches."""
    if problem.repeat:
        return None
    return (
        f"policy {policy!r} shares batches among arms: it needs a problem with repeat = "
        "true (--batch); for single pulls use 'deco', 'greedy' or 'thompson'"
    )


def binary_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy whose formula is for good and bad outcomes."""
    if problem.is_binary:
        return None
    return f"policy {policy!r} has a formula for good and bad outcomes only; {GENERAL}"


def own_state_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that looks at unknown means."""
    if all(group.model.has_law for group in problem.groups):
        return None
    return f"policy {policy!r}: own arms have states and no unknown mean; {GENERAL}"


def several_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that weighs single pulls."""
    if problem.pulls_per_stage == 1:
        return None
    return (
        f"policy {policy!r} weighs single pulls; the problem has {problem.pulls_per_stage} per "
        f"stage; {GENERAL}"
    )


def falling_rewards_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that bounds means from above."""
    for group in problem.groups:
        if np.any(group.reward_factor[: problem.horizon] < 0.0):
            name = problem.arms[group.members[0]].name
            return (
                f"policy {policy!r} bounds means from above; arm {name!r} earns less where its "
                f"outcomes are larger; {GENERAL}"
            )
    return None


def unequal_rewards_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that compares success probabilities: one pair of rewards, good above bad."""
    first = problem.groups[0]
    good, bad = float(first.reward_good[0]), float(first.reward_bad[0])
    why = f"policy {policy!r} compares success probabilities, so that"
    for group in problem.groups:
        name = problem.arms[group.members[0]].name
        for rewards, expected in ((group.reward_good, good), (group.reward_bad, bad)):
            other = rewards[: problem.horizon][rewards[: problem.horizon] != expected]
            if other.size:
                return (
                    f"{why} all arms must have the same rewards at all stages; arm {name!r} has "
                    f"{other[0]:g} where others have {expected:g}; {GENERAL}"
                )
    if good <= bad:
        return (
            f"{why} a good outcome must earn more than a bad one; here good earns {good:g} and "
            f"bad {bad:g}; {GENERAL}"
        )
    return None


def changing_rewards_refusal(problem: Problem, policy: str) -> str | None:
    """Of a policy that needs the same rewards at all stages."""
    for group in problem.groups:
        for rewards in group.rewards:
            if np.any(rewards[: problem.horizon] != rewards[0]):
                name = problem.arms[group.members[0]].name
                return (
                    f"policy {policy!r} discounts the same reward at all stages; those of arm "
                    f"{name!r} change; {GENERAL}"
                )
    return None
