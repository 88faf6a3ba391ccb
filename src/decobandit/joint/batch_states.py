"""All arms together in batches: joint states by shape, and what a batch does to them.

A shape is how many units every arm has had; its states are the good outcomes of every arm, an array
with an axis of n_k + 1 entries per arm, n_k the pulls. Exchangeable arms may be swapped: only
shapes whose units descend within each group are stored.

Notations
    shape (arms,)       units of every arm so far
    given (arms,)       units of every arm in a batch
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import comb, factorial, prod

import numpy as np

from ..problem import Problem
from ..support import Cache, Floats

Shape = tuple[int, ...]
KEPT_BYTES = 256 << 20  # of matrices


def shares(units: int, arms: int) -> Iterator[Shape]:
    """All ways to share units among arms."""
    for bars in itertools.combinations(range(units + arms - 1), arms - 1):
        ends = (-1, *bars, units + arms - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def number_of_shares(problem: Problem) -> int:
    """Ways to share a batch."""
    return comb(problem.units + problem.n_arms - 1, problem.n_arms - 1)


def least_states(problem: Problem) -> int:
    """Joint states of all stages together are at least so many, counted without listing them."""
    swaps = prod(factorial(group.count) for group in problem.groups)
    total, units = 0, problem.units * problem.horizon
    own = [problem.unit * u + 1 for u in range(units + 1)]
    power = [1, *([0] * units)]
    for _ in range(problem.n_arms):  # whole numbers: they may be too large for doubles
        power = [sum(power[i] * own[j - i] for i in range(j + 1)) for j in range(units + 1)]
    for t in range(problem.horizon + 1):
        total += -(-power[problem.units * t] // swaps)
    return total


def sorted_shapes(problem: Problem, units: int) -> Iterator[Shape]:
    """Shapes of so many units in all, descending within each group."""
    groups = [list(group.members) for group in problem.groups]

    def fill(number: int, left: int) -> Iterator[list[tuple[int, ...]]]:
        if number == len(groups):
            if left == 0:
                yield []
            return
        for mine in range(left + 1) if number + 1 < len(groups) else (left,):
            for part in _descending(mine, len(groups[number]), mine):
                for rest in fill(number + 1, left - mine):
                    yield [part, *rest]

    for parts in fill(0, units):
        shape = [0] * problem.n_arms
        for members, part in zip(groups, parts, strict=True):
            for arm, own in zip(members, part, strict=True):
                shape[arm] = own
        yield tuple(shape)


def _descending(total: int, places: int, most: int) -> Iterator[tuple[int, ...]]:
    if places == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(total, most), -1, -1):
        if first * places < total:
            return
        for rest in _descending(total - first, places - 1, first):
            yield (first, *rest)


def sizes(problem: Problem, shape: Shape) -> tuple[int, ...]:
    """Entries of every axis."""
    return tuple(problem.unit * own + 1 for own in shape)


class Batches:
    """What batches do: chances of outcomes as matrices, rewards, last rewards."""

    def __init__(self, problem: Problem, truth: tuple[float, ...] | None = None) -> None:
        self.problem = problem
        self.truth = truth
        self._groups = [problem.groups[k] for k in problem.group_of_arm]
        self._matrices = Cache[tuple[object, ...], Floats](KEPT_BYTES, size=lambda m: m.nbytes)

    def chances(self, arm: int, had: int, given: int) -> Floats:
        """Of the good outcomes after a batch (columns) by those before (rows); units of an arm."""
        group = self._groups[arm]
        known = None if self.truth is None else self.truth[arm]
        key = (group.alpha, group.beta, had, given) if known is None else (known, had, given)

        def make() -> Floats:
            from scipy.stats import betabinom, binom  # late: most commands do not need scipy

            n, more = had * self.problem.unit, given * self.problem.unit
            g, x = np.arange(n + 1)[:, None], np.arange(more + 1)
            if known is None:
                part = betabinom.pmf(x, more, group.alpha + g, group.beta + n - g)
            else:
                part = np.broadcast_to(binom.pmf(x, more, known), (n + 1, more + 1))
            matrix = np.zeros((n + 1, n + more + 1))
            matrix[g, g + x] = part
            return matrix

        return self._matrices.get_or_make(key, make)

    def mean(self, arm: int, had: int) -> Floats:
        """Posterior mean of an arm by its good outcomes, shaped as its axis of a joint state."""
        group, n = self._groups[arm], had * self.problem.unit
        return self.on_axis(arm, (group.alpha + np.arange(n + 1)) / (group.alpha + group.beta + n))

    def on_axis(self, arm: int, values: Floats) -> Floats:
        """Values by the good outcomes of one arm, to be broadcast over those of all."""
        shape = [1] * self.problem.n_arms
        shape[arm] = values.size
        return values.reshape(shape)

    def reward(self, stage: int, shape: Shape, given: Shape) -> Floats | float:
        """Expected reward of a batch, by joint state; at the truth where that is given."""
        total: Floats | float = 0.0
        for arm, units in enumerate(given):
            if units:
                group, pulls = self._groups[arm], units * self.problem.unit
                low, high = group.reward_bad[stage], group.reward_good[stage]
                p = self.mean(arm, shape[arm]) if self.truth is None else self.truth[arm]
                total = total + pulls * (low + (high - low) * p)
        return total

    def last(self, shape: Shape) -> Floats:
        """Last rewards of the tables of all arms."""
        total = np.zeros(sizes(self.problem, shape))
        for arm, units in enumerate(shape):
            table, n = self._groups[arm].terminal, units * self.problem.unit
            if table is not None:
                row = table[n * (n + 1) // 2 : n * (n + 1) // 2 + n + 1]
                total = total + self.on_axis(arm, row)
        return total
