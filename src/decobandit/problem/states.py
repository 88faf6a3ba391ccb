"""Many joint states at once, as arrays: what policies, simulation and recursions are asked about.

Notation
    E    joint states
    K    arms
    W    numbers of the widest arm model; statistics of narrower ones are padded with zeros
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..support import Floats, Ints, InvalidArgument, Unsupported
from .model import Problem
from .state import State

Flags = npt.NDArray[np.bool_]
SLACK = 1e-12  # part of a budget that rounding may add to what is spent


@dataclass(frozen=True, eq=False)
class States:
    """Statistics of all arms in many joint states; not to be changed in place (`pulls` is cached).

    Parameters
    ----------
    problem : Problem
        The problem that the arms belong to.
    stats : array (E, K, W)
        Statistics of every arm, as its model has them, padded with zeros.
    pending : array (E, K), optional
        Pulls whose outcomes are not known yet; None where nothing is pending.
    allowed : array (E, K), optional
        Arms that may be pulled; None where all may.
    spent : array (E,), optional
        Money spent; None where it follows from the pulls, or there is no budget.

    Examples
    --------
    >>> from decobandit.problem import Problem, State, States
    >>> problem = Problem.uniform(arms=2, horizon=9)
    >>> states = States.of(problem, [State.parse("3/5,0/0"), State.parse("1/1,1/2")])
    >>> states.pulls.tolist(), str(states.state(1))
    ([[5, 0], [1, 2]], '1/1,1/2')
    """

    problem: Problem
    stats: Floats
    pending: Ints | None = None
    allowed: Flags | None = None
    spent: Floats | None = None

    def __post_init__(self) -> None:
        expected = (self.problem.n_arms, _widest(self.problem))
        if self.stats.ndim != 3 or self.stats.shape[1:] != expected:
            shape = ", ".join(map(str, ("states", *expected)))
            raise InvalidArgument(
                f"stats: shape {self.stats.shape}; must be ({shape})", field="stats"
            )

    @classmethod
    def initial(cls, problem: Problem, number: int) -> Self:
        """Return `number` joint states in which no arm has been pulled."""
        return cls.of(problem, [State.before(problem)]).rows(np.zeros(number, np.intp))

    @classmethod
    def of(cls, problem: Problem, states: Sequence[State]) -> Self:
        """Stack states of a problem."""
        stats = np.zeros((len(states), problem.n_arms, _widest(problem)))
        rows = [state.rows for state in states]
        for group in problem.groups:
            members, width = list(group.members), group.model.width
            of_group = np.array([[row[arm] for arm in members] for row in rows], dtype=float)
            stats[:, members, :width] = of_group.reshape(len(rows), len(members), width)
        return cls(problem, stats)

    @classmethod
    def of_counts(cls, problem: Problem, pulls: npt.ArrayLike, good: npt.ArrayLike) -> Self:
        """Stack states of a binary problem from pulls and good outcomes, (E, K) each."""
        counts = np.empty((*np.shape(pulls), 2))
        counts[..., 0] = good
        counts[..., 1] = np.subtract(pulls, good)
        return cls(problem, counts)

    def __len__(self) -> int:
        return len(self.stats)

    @cached_property
    def pulls(self) -> Ints:
        """Pulls of every arm whose outcomes are known, (E, K)."""
        pulls = np.empty(self.stats.shape[:2], dtype=np.int64)
        for k, group in enumerate(self.problem.groups):
            pulls[:, _positions(group.members)] = group.model.pulls(self.of_group(k))
        return pulls

    @property
    def good(self) -> Ints:
        """Good outcomes of every arm, (E, K), in binary problems; others are refused."""
        if not self.problem.is_binary:
            raise InvalidArgument(
                "good: outcomes of this problem are not good or bad; read stats", field="good"
            )
        return np.asarray(self.stats[..., 0], dtype=np.int64)

    def of_group(self, group: int) -> Floats:
        """Return the statistics of a group's arms, (E, members, width): a view where possible."""
        arms = self.problem.groups[group]
        return self.stats[:, _positions(arms.members), : arms.model.width]

    def rows(self, index: Any) -> Self:
        """Return some of the joint states, by a slice, positions or flags."""
        pending = None if self.pending is None else self.pending[index]
        allowed = None if self.allowed is None else self.allowed[index]
        spent = None if self.spent is None else self.spent[index]
        return type(self)(self.problem, self.stats[index], pending, allowed, spent)

    @cached_property
    def left(self) -> Floats:
        """Money that is left of the budget, (E,)."""
        problem = self.problem
        if problem.budget is None:
            return np.full(len(self), np.inf)
        if self.spent is not None:
            return np.asarray(problem.budget - self.spent)
        costs = problem.costs[: problem.horizon]
        if np.any(costs != costs[0]):
            raise Unsupported(
                "costs that change over the stages: money spent does not follow from the pulls; "
                "simulate, or give it as `spent`",
                field="cost",
            )
        pulls = self.pulls if self.pending is None else self.pulls + self.pending
        return np.asarray(problem.budget - pulls @ costs[0])

    def at(self, stage: int) -> Self:
        """Return the states with the arms that can be pulled, and paid, at a stage."""
        problem = self.problem
        if not problem.has_windows and problem.budget is None:
            return self
        able = problem.available_at(stage)
        if problem.budget is not None:
            able = able & is_paid(problem.unit * problem.costs[stage], self.left[:, None])
        allowed = able if self.allowed is None else self.allowed & able
        return replace(self, allowed=np.broadcast_to(allowed, self.stats.shape[:2]))

    def state(self, row: int) -> State:
        """Return one joint state, without what is pending or allowed."""
        groups = self.problem.arm_groups
        rows = zip(self.stats[row], groups, strict=True)
        stats = [tuple(arm[: group.model.width].tolist()) for arm, group in rows]
        return State.of_stats(self.problem, stats)


def is_paid(cost: Floats | float, left: Floats | float) -> Flags:
    """Tell whether money that is left pays a cost."""
    return np.asarray(cost <= np.asarray(left) * (1.0 + SLACK) + SLACK)


def _widest(problem: Problem) -> int:
    return max(group.model.width for group in problem.groups)


def _positions(members: tuple[int, ...]) -> slice | list[int]:
    """Return the positions of a group's arms: a slice where they are side by side."""
    first, last = members[0], members[-1]
    return slice(first, last + 1) if last - first + 1 == len(members) else list(members)
