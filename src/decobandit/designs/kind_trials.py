"""Designs of arms with any outcomes: what is drawn, and read off the ends of trials.

Where outcomes are good or bad, what is known of arms is an array of good outcomes, (E, K). Of other
kinds it is one of statistics, (E, K, widest): that of an arm are its first `width` numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Problem, Rules, check_kind_truth, true_means
from ..support import Floats
from .endings import Endings


def truth_values(problem: Problem, truth: tuple[Any, ...]) -> tuple[float, ...]:
    """True mean outcome of every arm."""
    if problem.is_binary:
        return truth
    means = true_means(problem, check_kind_truth(truth, problem))
    assert means is not None  # own states were refused
    return tuple(means)


def compared_values(rules: Rules, problem: Problem, means: object) -> Floats:
    """What arms of these mean outcomes, (..., K), are compared by: rewards, or the outcomes.

    In units of the largest factor, so that rounding errors do not depend on the unit of rewards.
    """
    base, factor = rules.pull_values(problem)
    unit = max(float(np.abs(factor).max()), float(np.abs(base).max()))
    return np.asarray((base + factor * np.asarray(means)) / unit)


def drawn_statistics(
    rng: np.random.Generator, trials: int, problem: Problem, truth: tuple[Any, ...], most: int
) -> Floats:
    """Statistics after the first n pulls of each arm, (trials, arms, most + 1, widest)."""
    groups = [problem.groups[k] for k in problem.group_of_arm]
    found = np.zeros((trials, len(groups), most + 1, widest(problem)))
    for k, (group, own) in enumerate(zip(groups, check_kind_truth(truth, problem), strict=True)):
        kind = group.model
        drawn = kind.stream(np.tile(np.array(own, dtype=float), (trials, 1)), most, rng)
        stats = np.tile(np.array(kind.initial(), dtype=float), (trials, 1))
        found[:, k, 0, : kind.width] = stats
        for n in range(most):
            stats = kind.update(stats, kind.from_stream(drawn[:, n], stats))
            found[:, k, n + 1, : kind.width] = stats
    return found


def widest(problem: Problem) -> int:
    """Most numbers that the statistics of an arm are."""
    return max(group.model.width for group in problem.groups)


def totals(problem: Problem, ends: Endings) -> Floats:
    """What the outcomes of each arm counted in all, (S, K): the good ones, or the sum of all."""
    return _by_arm(problem, ends, "total") if not problem.is_binary else ends.good.astype(float)


def posterior_means(problem: Problem, ends: Endings) -> Floats:
    """Of each arm at the end, (S, K)."""
    if not problem.is_binary:
        return _by_arm(problem, ends, "mean")
    groups = [problem.groups[k] for k in problem.group_of_arm]
    alpha = np.array([group.alpha for group in groups])
    beta = np.array([group.beta for group in groups])
    return np.asarray((alpha + ends.good) / (alpha + beta + ends.pulls))


def rewards(problem: Problem, ends: Endings) -> Floats:
    """Total reward of each trial, (S,): good outcomes, or what outcomes earn at mean factors."""
    each = totals(problem, ends)
    if problem.is_binary:
        return np.asarray(each.sum(axis=1))
    stages, groups = slice(0, problem.horizon), [problem.groups[k] for k in problem.group_of_arm]
    base = np.array([group.reward_base[stages].mean() for group in groups])
    factor = np.array([group.reward_factor[stages].mean() for group in groups])
    return np.asarray((base * ends.pulls + factor * each).sum(axis=1))


def _by_arm(problem: Problem, ends: Endings, what: str) -> Floats:
    columns = []
    for k, group in enumerate(problem.group_of_arm):
        kind = problem.groups[group].model
        known = np.asarray(ends.good[:, k, : kind.width], dtype=float)
        columns.append(getattr(kind, what)(known))
    return np.stack(columns, axis=1)
