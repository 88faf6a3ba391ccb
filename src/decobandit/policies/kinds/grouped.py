"""Statistics of all arms in many states, those of equal arms side by side in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from ...problem import Problem
from ...support import Floats


class GroupedStats(Sequence[Floats]):
    """Of every arm (E, width), as a sequence; of every group (E, members, width)."""

    def __init__(self, problem: Problem, by_group: list[Floats]) -> None:
        self._by_group = by_group
        self._place = [(0, 0)] * problem.n_arms
        for k, group in enumerate(problem.groups):
            for i, arm in enumerate(group.members):
                self._place[arm] = (k, i)

    @staticmethod
    def of(problem: Problem, stats: Sequence[Floats]) -> GroupedStats:
        """From statistics of every arm, (E, width) each."""
        if isinstance(stats, GroupedStats):
            return stats
        arrays = [np.stack([stats[arm] for arm in g.members], axis=1) for g in problem.groups]
        return GroupedStats(problem, arrays)

    @staticmethod
    def fresh(problem: Problem, episodes: int) -> GroupedStats:
        """Of arms that have not been pulled."""
        kinds = [(group.model.initial(), group.count) for group in problem.groups]
        arrays = [np.tile(np.array(first, dtype=float), (episodes, n, 1)) for first, n in kinds]
        return GroupedStats(problem, arrays)

    def of_group(self, group: int) -> Floats:
        """Of the arms of a group in order of its members, (E, members, width); not a copy."""
        return self._by_group[group]

    def __len__(self) -> int:
        return len(self._place)

    @overload
    def __getitem__(self, arm: int) -> Floats: ...
    @overload
    def __getitem__(self, arm: slice) -> Sequence[Floats]: ...
    def __getitem__(self, arm: int | slice) -> Floats | Sequence[Floats]:
        if isinstance(arm, slice):
            return [self[i] for i in range(*arm.indices(len(self)))]
        group, member = self._place[arm]
        return self._by_group[group][:, member]
