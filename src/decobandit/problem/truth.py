"""The truth of a simulation or scenario: true parameters, their distribution, the true horizon."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..support import InvalidArgument, shown
from .arms import Prior
from .fields import MAX_HORIZON
from .model import Problem
from .models.base import Stats
from .models.categorical import DirichletCategorical
from .models.markov import MarkovArm

Truth = tuple[float, ...]  # (arms,)
KindTruth = tuple[Stats, ...]  # (arms,) parameters, as the model of each arm has them
Given = Sequence[float | Sequence[float] | str]  # as user input has the truth of all arms


def check_kind_truth(truth: Given, problem: Problem) -> KindTruth:
    """Return the checked true parameters of all arms, as the model of each has them."""
    if isinstance(truth, str) or not isinstance(truth, Iterable):
        raise InvalidArgument(
            f"truth: {shown(truth)} is not allowed; must be a list, one per arm", field="truth"
        )
    values = list(truth)
    if len(values) != problem.n_arms:
        raise InvalidArgument(
            f"truth: {len(values)} given; must be {problem.n_arms}, one per arm", field="truth"
        )
    parameters = []
    for arm, group, value in zip(problem.arms, problem.arm_groups, values, strict=True):
        try:
            parameters.append(group.model.format.read_truth(value))
        except ValueError as error:
            raise InvalidArgument(f"truth of {arm.name}: {error}", field="truth") from None
    return tuple(parameters)


def truth_of(truth: Given, problem: Problem) -> Any:
    """Return success probabilities (arms,) of a binary problem, or the parameters of all arms."""
    parameters = check_kind_truth(truth, problem)
    return tuple(p for (p,) in parameters) if problem.is_binary else parameters


def plain_truth(truth: KindTruth) -> list[float | list[float] | None]:
    """Return the truth as files have it: numbers, probabilities of classes, None of Markov arms."""
    return [one[0] if len(one) == 1 else list(one) or None for one in truth]


def truth_text(parameters: float | Sequence[float] | str | None) -> str:
    """Return the truth of one arm as `--truth` reads it."""
    if parameters is None or isinstance(parameters, str):
        return "-"
    numbers = parameters if isinstance(parameters, Sequence) else [parameters]
    return "+".join(f"{p:g}" for p in numbers)


def described_truth(problem: Problem, truth: Given) -> list[str]:
    """Describe the truth of every arm: several parameters with their mean."""
    texts = [truth_text(parameters) for parameters in truth]
    parameters = check_kind_truth(truth, problem)
    means = true_means(problem, parameters)
    if means is None:
        return texts
    arms = zip(texts, means, parameters, strict=True)
    return [f"{text}, mean {mean:.4g}" if len(p) > 1 else text for text, mean, p in arms]


def true_means(problem: Problem, truth: KindTruth) -> list[float] | None:
    """Return the expected outcome of every arm; None for Markov arms."""
    if not all(truth):
        return None
    pairs = zip(problem.arm_groups, truth, strict=True)
    return [float(group.model.mean_at(np.array(parameters))) for group, parameters in pairs]


def true_problem(
    problem: Problem, truth_prior: Prior | Sequence[Prior] | None, true_horizon: int | None
) -> Problem:
    """Return the true problem, whose priors or horizon differ from what policies believe."""
    horizon = problem.horizon if true_horizon is None else true_horizon
    if not 1 <= horizon <= MAX_HORIZON:
        raise InvalidArgument(
            f"true_horizon: {horizon} is not allowed; must be 1 to {MAX_HORIZON}",
            field="true_horizon",
        )
    if horizon != problem.horizon:
        _refuse_other_horizon(problem)
    stages = {} if true_horizon is None else {"horizon": horizon}
    if truth_prior is None:
        return problem.model_copy(update=stages)
    one = not isinstance(truth_prior, Sequence)
    priors: list[Any] = [truth_prior] * problem.n_arms if one else list(truth_prior)
    if len(priors) != problem.n_arms:
        raise InvalidArgument(
            f"truth_prior: {len(priors)} given; must be one, or one per arm", field="truth_prior"
        )
    arms = []
    for arm, prior in zip(problem.arms, priors, strict=True):
        if not _same_outcomes(arm.prior, prior):
            raise InvalidArgument(
                f"truth_prior: {prior} is not allowed; must be a prior as arm {arm.name!r} has, "
                f"{arm.prior}, with other numbers",
                field="truth_prior",
            )
        arms.append(arm.model_copy(update={"prior": prior}))
    return problem.model_copy(update={"arms": tuple(arms)} | stages)


def _same_outcomes(prior: Prior, other: Prior) -> bool:
    """Whether two priors are of the same outcomes, and of parameters that can differ."""
    if isinstance(prior, DirichletCategorical) and isinstance(other, DirichletCategorical):
        return len(prior.counts) == len(other.counts)
    return type(prior) is type(other) and not isinstance(prior, MarkovArm)


def _refuse_other_horizon(problem: Problem) -> None:
    listed = any(
        isinstance(reward, tuple)
        for arm in problem.arms
        for reward in (getattr(arm.reward, name) for name in arm.reward.per_stage)
    )
    last = problem.terminal is not None or any(arm.terminal is not None for arm in problem.arms)
    if listed or last:
        what = "rewards listed stage by stage" if listed else "a last reward after the horizon"
        raise InvalidArgument(
            f"true_horizon: the problem has {what}; what happens at another horizon is known only "
            "for constant rewards without a last one",
            field="true_horizon",
        )
