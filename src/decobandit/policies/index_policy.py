"""Policies that pull the arms of largest index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from ..problem import (
    DEFAULT_TIES,
    TIE_RULES,
    Problem,
    State,
    States,
    TieRule,
    break_tie,
    check_problem,
    tie_rule,
    tie_tolerance,
    tied_arms,
)
from ..support import Floats
from .allotting import largest_arms
from .asked_states import check_turn
from .base import Policy
from .chances import distinct_rows, of_allowed, pulls_made
from .context import Context
from .records import Allotments, Ways, Weighed


class IndexPolicy(Policy):
    """Pulls the arms of largest index; ties by the rule.

    Parameters
    ----------
    problem : Problem
        What it is made for.
    ties : TieRule
        How ties are broken: "least-pulled", "most-pulled", "first", "last" or "random".

    Examples
    --------
    >>> import numpy as np
    >>> from decobandit import IndexPolicy, Problem, State
    >>> class FewestFailures(IndexPolicy):
    ...     name = "fewest-failures"
    ...
    ...     def indices(self, stage, state):
    ...         return -np.array(state.bad, dtype=float)
    >>> FewestFailures(Problem.uniform(arms=3, horizon=10)).choose(State.parse("0/1,1/1,1/2"))
    (1,)
    """

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        if ties not in TIE_RULES:
            tie_rule(ties)  # refuses it
        self.problem = check_problem(problem)
        self.ties = ties
        self._tolerance = tie_tolerance(problem)

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, ties=context.ties)

    @abstractmethod
    def indices(self, stage: int, state: State) -> Floats:
        """Index of every arm, (arms,)."""

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull, largest index first."""
        check_turn(self.problem, stage, state)
        number = round(self.problem.pulls[stage])
        return self.pick(self.indices(stage, state), state.pulls, rng=rng, number=number)

    def pick(
        self,
        indices: Floats,
        pulls: Sequence[int],
        *,
        rng: np.random.Generator | None = None,
        number: int = 1,
        allowed: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """The arms of largest given index, largest first, of those allowed; ties by the rule.

        indices, pulls (arms,): pulls only break ties. allowed: positions, ascending.
        """
        remaining = np.arange(indices.size) if allowed is None else np.array(allowed)
        chosen: list[int] = []
        for _ in range(number):
            tied = tied_arms(indices, remaining, self._tolerance)
            chosen.append(break_tie(tied, pulls, self.ties, rng))
            remaining = remaining[remaining != chosen[-1]]
        return tuple(chosen)

    def allotments(self, stage: int, state: State) -> Allotments:
        """With random ties, every set of arms that they may lead to."""
        if self.ties != "random":
            return super().allotments(stage, state)
        indices, arms = self.indices(stage, state), self.problem.n_arms
        chances = {(0,) * arms: 1.0}
        for _ in range(round(self.problem.pulls[stage])):
            more: dict[tuple[int, ...], float] = {}
            for taken, chance in chances.items():
                tied = tied_arms(indices, np.flatnonzero(np.array(taken) == 0), self._tolerance)
                for arm in tied.tolist():
                    after = (*taken[:arm], 1, *taken[arm + 1 :])
                    more[after] = more.get(after, 0.0) + chance / tied.size
            chances = more
        return list(chances.items())

    @property
    def has_chances(self) -> bool:
        return self.has_table or type(self).probabilities is not IndexPolicy.probabilities

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        """Chances of the largest index among the arms allowed, where there is no table."""
        by_index = type(self).select is IndexPolicy.select and self.problem.pulls[stage] == 1
        if self.has_table or self.problem.repeat or not by_index:
            return super().probabilities(stage, states, rng)
        rows, place = distinct_rows(states)
        indices = np.stack([self.indices(stage, rows.state(e)) for e in range(len(rows))])[place]
        indices = of_allowed(indices, states)
        if self.ties == "random":
            tied = indices >= indices.max(axis=1, keepdims=True) - self._tolerance
            return np.asarray(tied / tied.sum(axis=1, keepdims=True))
        pulls = pulls_made(states)
        return largest_arms(indices, pulls, 1, self._tolerance, self.ties, rng).astype(float)

    def weigh(self, stage: int, ways: Ways, taken: tuple[int, ...]) -> Weighed | None:
        """Indices averaged over the ways."""
        average = np.zeros(self.problem.n_arms)
        for state, chance in ways:
            average += chance * self.indices(stage, state)
        return Weighed(average)
