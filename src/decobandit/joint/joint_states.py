"""Joint states of all arms: their number, their shapes by level, and their ranks.

A level is the set of states with the same total number of pulls: those before a stage, as one pull
is made at each. `kernels/joint.py` defines shapes, runs and ranks. In a large group, only as many
arms have columns as can ever be pulled; the others stay unpulled.

Notations
    G, C, S  groups, columns, shapes of a level
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..problem import Problem, State, States
from ..support import Floats, Ints, InvalidArgument
from .kernels.joint import Ranking, Shapes
from .shapes import Shape, allotments, states_by_units

LARGEST_RANK = 2.0**62


# -- counting -----------------------------------------------------------------------------------


class Counted(NamedTuple):
    """Numbers of joint states and shapes at the beginning of each stage, (stages,).

    Not finite where counting would be slow.
    """

    states: list[float]
    shapes: list[float]


def columns(problem: Problem, stages: int | None = None) -> list[int]:
    """Return the number of arms per group that can be pulled, in all stages or the first ones."""
    spent = round(problem.pulls[:stages].sum())
    return [min(group.count, spent) for group in problem.groups]


def count(problem: Problem, stages: int | None = None) -> Counted:
    """Count the joint states of all stages, or of the first ones, without enumerating them."""
    most, arms = (stages or problem.stages) - 1, columns(problem, stages)
    multisets = states_by_units(arms, most, most, lambda k, r, i: float(comb(r + i, i)))
    shapes = states_by_units(arms, most, most, lambda k, r, i: 1.0)
    return Counted(multisets.tolist(), shapes.tolist())


# -- shapes, level by level ---------------------------------------------------------------------


def shapes_at(
    problem: Problem, level: int, later: Shapes | None = None, stages: int | None = None
) -> Shapes:
    """Return all shapes of a level, linked to those of the next level if it is given."""
    arms = columns(problem, stages)
    group = np.repeat(np.arange(len(arms)), arms)
    pulls = _partitions(arms, level)
    ends = np.ones(pulls.shape, bool)
    ends[:, :-1] = (pulls[:, 1:] != pulls[:, :-1]) | (group[1:] != group[:-1])
    after = np.full(pulls.shape, -1, np.int32)
    if later is not None:
        keys = _keys(later.pulls)
        for c in range(len(group)):
            (rows,) = np.nonzero(ends[:, c])
            pulled = pulls[rows]
            pulled[:, c] += 1
            after[rows, c] = np.searchsorted(keys, _keys(pulled))
    return Shapes(pulls, _offsets(pulls, ends), after)


def _partitions(arms: Sequence[int], level: int) -> npt.NDArray[np.int32]:
    """Return pulls of every column, (S, C): `level` in all, ascending in groups."""
    left = np.array([level])
    after = sum(arms)
    steps: list[tuple[Ints, Ints]] = []  # per column: row that it extends, pulls
    for count in arms:
        low = np.zeros_like(left)
        for unfilled in range(count, 0, -1):
            after -= 1
            low = np.maximum(low, 0 if after else left)
            choices = left // unfilled - low + 1
            row = np.repeat(np.arange(left.size), choices)
            v = low[row] + np.arange(row.size) - np.repeat(np.cumsum(choices) - choices, choices)
            steps.append((row, v))
            left, low = left[row] - v, v
    pulls = np.empty((left.size, len(steps)), np.int32)
    row = np.arange(left.size)
    for c in range(len(steps) - 1, -1, -1):
        pulls[:, c] = steps[c][1][row]
        row = steps[c][0][row]
    return pulls


def _keys(pulls: npt.NDArray[np.int32]) -> npt.NDArray[np.bytes_]:
    """Return one byte string per row; they sort as the rows do."""
    return np.ascontiguousarray(pulls, ">u2").view(f"S{2 * pulls.shape[1]}")[:, 0]


def _offsets(pulls: npt.NDArray[np.int32], ends: npt.NDArray[np.bool_]) -> Ints:
    """Return the rank of the first state of every shape, and the number of states, (S + 1,)."""
    size = np.ones(len(pulls), np.int64)
    r = np.zeros(len(pulls), np.int64)
    for v, end in zip(pulls.T, ends.T, strict=True):
        # C(v+r, r) = C(v+r-1, r-1) (v+r) / r, without remainder
        r += 1
        size = size * (v + r) // r
        r[end] = 0
    return np.concatenate([[0], np.cumsum(size)])


# -- ranks of multisets -------------------------------------------------------------------------


def ranking_of(problem: Problem, stages: int | None = None) -> Ranking:
    """Return the tables that all levels share, or those of the first stages."""
    stages = stages or problem.stages
    arms = columns(problem, stages)
    most = max(arms)
    under = _under(stages + 2, most + 2)
    members = np.zeros((1, 0), np.int64)  # all multisets of r values, in order of rank
    tables: list[Ints] = []
    for r in range(most):
        # r + 1 arms with v pulls, or one with v - 1 and r with v: no more than `stages` in all
        v = stages // (r + 1)
        tables.append(_insertions(members[: under[v + 1, r]], v, under))
        values = range(stages // (r + 2) + 1)
        smaller = [members[: under[x + 1, r]] for x in values]  # x is the largest of the others
        members = np.concatenate(
            [np.column_stack([rows, np.full(len(rows), x)]) for x, rows in enumerate(smaller)]
        )
    return Ranking(
        group=np.repeat(np.arange(len(arms)), arms),
        under=under,
        start=np.array([0, *accumulate(table.size for table in tables)]),
        width=np.array([table.shape[1] for table in tables], np.int64),
        insert=np.concatenate([np.zeros(0, np.int64), *(table.ravel() for table in tables)]),
    )


def _under(values: int, most: int) -> Ints:
    """Return C(v + i - 1, i), the number of multisets of i values below v, for all v and i."""
    under = np.zeros((values, most))
    under[0, 0] = 1.0
    for v in range(1, values):
        under[v] = np.minimum(np.cumsum(under[v - 1]), LARGEST_RANK)
    return under.astype(np.int64)


def _insertions(members: Ints, v: int, under: Ints) -> Ints:
    """Return the rank of every multiset (row) with one more value 0..v (column)."""
    rows, r = members.shape
    i = np.arange(1, r + 1)
    none = np.zeros((rows, 1), np.int64)
    # values up to g keep their position, the others move up by one
    keep = np.hstack([none, np.cumsum(under[members, i], axis=1)])
    move = np.hstack([none, np.cumsum(under[members, i + 1][:, ::-1], axis=1)])[:, ::-1]
    g = np.arange(v + 1)
    position = (members[:, :, None] <= g).sum(axis=1)
    ranks: Ints = np.take_along_axis(keep, position, axis=1)
    ranks += np.take_along_axis(move, position, axis=1) + under[g, position + 1]
    return ranks


# -- values that were kept ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointValues:
    """Values of all joint states at all stages."""

    problem: Problem
    ranking: Ranking
    shapes: tuple[Shapes, ...]  # (stages,)
    values: tuple[Floats, ...]  # (stages,) W_t by rank
    allotments: tuple[Shape, ...] = field(init=False, repr=False)
    _keys: tuple[npt.NDArray[np.bytes_], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", tuple(_keys(shapes.pulls) for shapes in self.shapes))
        object.__setattr__(self, "allotments", allotments(self.problem))

    def worths(self, stage: int, states: States) -> Floats:
        """Return the worth of a pull of each arm before a stage, then the best ones, (E, K)."""
        if np.any(states.pulls.sum(axis=1) != stage):
            raise InvalidArgument(f"state before stage {stage}: no pulls lead to it", field="state")
        rows, place = np.unique(states.stats, axis=0, return_inverse=True)
        worths = np.empty((len(rows), self.problem.n_arms))
        for row, state in enumerate(States(self.problem, rows).state(e) for e in range(len(rows))):
            equal: dict[object, float] = {}  # of arms that are worth the same
            for arm in range(self.problem.n_arms):
                key = self._group[arm], state.good[arm], state.bad[arm]
                if key not in equal:
                    equal[key] = self._worth(stage, state, arm)
                worths[row, arm] = equal[key]
        return worths[place.reshape(-1)]

    def _worth(self, stage: int, state: State, arm: int) -> float:
        """Return the expected reward of a pull of an arm and of all that follows."""
        group = self.problem.groups[self._group[arm]]
        p = (group.alpha + state.good[arm]) / (group.alpha + group.beta + state.pulls[arm])
        good, bad = (self.value(stage + 1, state.after(arm, good)) for good in (True, False))
        good, bad = good + float(group.reward_good[stage]), bad + float(group.reward_bad[stage])
        return p * good + (1.0 - p) * bad

    @property
    def _group(self) -> list[int]:
        return [int(group) for group in self.problem.group_of_arm]

    def value(self, stage: int, state: State) -> float:
        """Return the optimal value from a stage on, last rewards included."""
        arms = list(zip(state.pulls, state.good, strict=True))
        total = 0.0
        pulled: list[tuple[int, int]] = []
        for group, count in zip(self.problem.groups, columns(self.problem), strict=True):
            ordered = sorted(arms[member] for member in group.members)
            pulled += ordered[-count:]
            if group.terminal is not None:
                total += sum(float(group.terminal[n * (n + 1) // 2 + g]) for n, g in ordered)
        if stage == self.problem.stages:
            return total
        return total + float(self.values[stage][self._rank(stage, pulled)])

    def _rank(self, stage: int, arms: list[tuple[int, int]]) -> int:
        group, under = self.ranking.group, self.ranking.under
        key = _keys(np.array([[n for n, _ in arms]], np.int32))
        shape = int(np.searchsorted(self._keys[stage], key)[0])
        rank = group_rank = r = 0
        for c, (n, g) in enumerate(arms):
            r += 1
            group_rank += int(under[g, r])
            if c + 1 == len(arms) or group[c + 1] != group[c] or arms[c + 1][0] != n:
                rank = rank * int(under[n + 1, r]) + group_rank
                group_rank = r = 0
        return int(self.shapes[stage].offset[shape]) + rank
