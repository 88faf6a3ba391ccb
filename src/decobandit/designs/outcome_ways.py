"""What pulls may come to under a truth, where outcomes are finitely many, and how likely it is.

What is known of an arm is a row of whole numbers: good outcomes where all arms have good and bad
ones, else counts of classes, (S, K, width), those of an arm in its first columns.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np

from ..problem import Problem, check_kind_truth
from ..support import Floats, Ints
from .kind_trials import widest


class Ways(NamedTuple):
    """Of one arm: what 0, 1, 2, .. pulls may add to what is known, those of n from `start[n]`."""

    added: Ints  # (N, width)
    chance: Floats  # (N,)
    start: Ints  # (most + 2,)


def width_of(problem: Problem) -> int:
    """How many numbers are known of an arm."""
    return 1 if problem.is_binary else widest(problem)


def ways_of(problem: Problem, truth: tuple[Any, ...], most: int) -> list[Ways]:
    """Of every arm, up to so many pulls."""
    found = []
    for k, parameters in zip(problem.group_of_arm, check_kind_truth(truth, problem), strict=True):
        kind, width = problem.groups[k].model, width_of(problem)
        chances = (1.0 - sum(parameters), *parameters) if kind.counts_good else parameters
        counts, chance, start = class_counts(tuple(map(float, chances)), most)
        if kind.counts_good:  # bad, good: as statistics are, or the good ones alone
            counts = counts[:, 1:] if problem.is_binary else counts[:, ::-1]
        added = np.zeros((len(counts), width), np.int64)
        added[:, : counts.shape[1]] = counts
        found.append(Ways(added, chance, start))
    return found


@lru_cache(maxsize=64)
def class_counts(chances: tuple[float, ...], most: int) -> Ways:
    """Counts of classes after 0 .. most outcomes, with multinomial chances; possible ones only."""
    level: dict[tuple[int, ...], float] = {(0,) * len(chances): 1.0}
    rows, likely, sizes = list(level), list(level.values()), [0, 1]
    for _ in range(most):
        later: dict[tuple[int, ...], float] = {}
        for counts, p in level.items():
            for j, chance in enumerate(chances):
                if chance > 0.0:
                    more = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
                    later[more] = later.get(more, 0.0) + p * chance
        level = later
        rows += level
        likely += level.values()
        sizes.append(len(level))
    return Ways(np.array(rows, dtype=np.int64), np.array(likely), np.cumsum(sizes))


def outcomes(ways: list[Ways], pulls: Ints) -> tuple[Ints, Ints, Floats]:
    """All outcomes of these pulls, (S, K): of which row, what each arm adds, probability."""
    rows, width = np.arange(len(pulls)), ways[0].added.shape[1]
    added, chance = np.zeros((*pulls.shape, width), np.int64), np.ones(len(pulls))
    for arm, own in enumerate(ways):
        first = own.start[pulls[rows, arm]]
        number = own.start[pulls[rows, arm] + 1] - first
        again = np.repeat(np.arange(len(rows)), number)
        place = np.arange(len(again)) - (np.cumsum(number) - number)[again] + first[again]
        rows, added, chance = rows[again], added[again], chance[again] * own.chance[place]
        added[:, arm] = own.added[place]
    return rows, added, chance


def joint_states(problem: Problem, known: int) -> int:
    """Joint states after so many known outcomes, at most: ways to count classes of all arms."""
    classes = sum(problem.groups[k].model.width for k in problem.group_of_arm)
    return comb(known + classes - 1, classes - 1)
