"""The truth, where it is given: success probabilities, their distribution, the true horizon."""

from __future__ import annotations

from collections.abc import Sequence

from ..support import shown
from .arm_model import Beta
from .fields import MAX_HORIZON
from .model import Problem

Truth = tuple[float, ...]  # (arms,)


def check_truth(truth: Sequence[float], problem: Problem) -> Truth:
    """True success probabilities, one per arm; refuses what cannot be."""
    try:
        known, arms = tuple(float(p) for p in truth), problem.n_arms
    except (TypeError, ValueError):
        raise ValueError(
            f"truth: {shown(truth)} is not allowed; must be numbers from 0 to 1, one per arm"
        ) from None
    if len(known) != arms:
        raise ValueError(f"truth: {len(known)} given; must be {arms}, one per arm")
    for p in known:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"truth: {p} is not allowed; must be between 0 and 1")
    return known


def true_problem(
    problem: Problem, truth_prior: Beta | Sequence[Beta] | None, true_horizon: int | None
) -> Problem:
    """The problem as it really is, where priors or horizon differ from what policies believe."""
    horizon = problem.horizon if true_horizon is None else true_horizon
    if not 1 <= horizon <= MAX_HORIZON:
        raise ValueError(f"true_horizon: {horizon} is not allowed; must be 1 to {MAX_HORIZON}")
    if horizon != problem.horizon:
        _refuse_other_horizon(problem)
    priors = truth_prior
    if priors is None or isinstance(priors, Beta):
        priors = [arm.beta if priors is None else priors for arm in problem.arms]
    if len(priors) != problem.number_of_arms:
        raise ValueError(f"truth_prior: {len(priors)} given; must be one, or one per arm")
    arms = tuple(
        arm.model_copy(update={"prior": prior})
        for arm, prior in zip(problem.arms, priors, strict=True)
    )
    return problem.model_copy(update={"arms": arms, "horizon": horizon})


def _refuse_other_horizon(problem: Problem) -> None:
    listed = any(
        isinstance(reward, tuple) for arm in problem.arms
        for reward in (arm.outcome_reward.good, arm.outcome_reward.bad)
    )  # fmt: skip
    last = problem.terminal is not None or any(arm.terminal is not None for arm in problem.arms)
    if listed or last:
        what = "rewards listed stage by stage" if listed else "a last reward after the horizon"
        raise ValueError(
            f"true_horizon: the problem has {what}; what happens at another horizon is known only "
            "for constant rewards without a last one"
        )
