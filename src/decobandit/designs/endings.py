"""How trials of a design end: states with their probabilities, whether followed or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..problem import Problem, Rules, check_kind_truth
from ..support import Floats, Ints

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Base of records of arrays with a row per trial or state; what is no array is shared."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the rows of several parts."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in parts[0]._arrays()
        }
        return replace(parts[0], **columns)

    def rows(self, some: Ints | Flags) -> Self:
        """Return some of the rows, in this order, or some of them several times."""
        columns: dict[str, Any] = {name: array[some] for name, array in self._arrays().items()}
        return replace(self, **columns)

    def _arrays(self) -> dict[str, Any]:
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: array for name, array in every.items() if isinstance(array, np.ndarray)}


@dataclass(frozen=True, eq=False)
class Endings(Rows):
    """Trials that have ended, or sets of trials that ended alike.

    S endings, K arms; all outcomes are known, also those that were pending when a trial stopped.
    """

    pulls: Ints  # (S, K)
    stats: Floats  # (S, K, W) as in `States`
    allowed: Flags  # (S, K) arms that were not dropped
    declared: Flags  # (S, K) at a look
    reason: npt.NDArray[np.int8]  # (S,) why it stopped: code of REASONS; 0: it did not
    weight: Floats  # (S,) probability; they add up to 1
    # (S, K, W) statistics of control at stages at which each arm is available; None: all stages
    controls: Floats | None = None
    spent: Floats | None = None  # (S,) money; None without a budget
    # expected number of allocations of a trial that are guessed from all earlier outcomes; None
    # where the probabilities of the policy are not known
    guesses: float | None = None

    @property
    def size(self) -> Ints:
        """Pulls of each trial."""
        return np.asarray(self.pulls.sum(axis=1), dtype=np.int64)


def chance_se(mean: Floats, trials: int) -> Floats:
    """Error of a probability; as if one trial more had gone either way, so that it is never 0."""
    p = (mean * trials + 1.0) / (trials + 2.0)
    return np.asarray(np.sqrt(p * (1.0 - p) / trials))


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean over simulated trials, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


# -- what is read off endings, whatever the model of the arms ---------------------------------


def truth_values(problem: Problem, truth: tuple[Any, ...]) -> tuple[float, ...]:
    """Return the true mean outcome of every arm; nan for one with states of its own."""
    if problem.is_binary:
        return truth
    models = [group.model for group in problem.arm_groups]
    arms = zip(models, check_kind_truth(truth, problem), strict=True)
    return tuple(
        np.nan if local == () else float(model.mean_at(np.array(local))) for model, local in arms
    )


def compared_values(rules: Rules, problem: Problem, means: object) -> Floats:
    """Return what arms of these mean outcomes, (..., K), are compared by: rewards, or the outcomes.

    In units of the largest factor, so that rounding errors do not depend on the unit of rewards.
    """
    base, factor = rules.pull_values(problem)
    unit = max(float(np.abs(factor).max()), float(np.abs(base).max()))
    return np.asarray((base + factor * np.asarray(means)) / unit)


def totals(problem: Problem, ends: Endings) -> Floats:
    """Return the total of the outcomes of each arm, (S, K): good ones, or the sum.

    States of their own do not tell it: the column after their statistics does.
    """
    return _by_arm(problem, ends, "total")


def posterior_means(problem: Problem, ends: Endings) -> Floats:
    """Of each arm at the end, (S, K)."""
    return _by_arm(problem, ends, "mean")


def rewards(problem: Problem, ends: Endings) -> Floats:
    """Total reward of each trial, (S,): good outcomes, or what outcomes earn at mean factors."""
    reward = totals(problem, ends)
    if problem.is_binary:
        return np.asarray(reward.sum(axis=1))
    stages, groups = slice(0, problem.horizon), problem.arm_groups
    played = [group.played_rewards for group in groups]
    base, factor = (
        np.array([part[stages].mean() for part in x]) for x in zip(*played, strict=True)
    )
    return np.asarray((base * ends.pulls + factor * reward).sum(axis=1))


def _by_arm(problem: Problem, ends: Endings, what: str) -> Floats:
    columns = []
    for k, group in enumerate(problem.group_of_arm):
        kind = problem.groups[group].model
        local = ends.stats[:, k]
        reported = what == "total" and kind.ordered
        columns.append(
            local[:, kind.width] if reported else getattr(kind, what)(local[:, : kind.width])
        )
    return np.stack(columns, axis=1)
