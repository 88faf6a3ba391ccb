"""Index policies in batches: unit after unit to the largest index, outcomes as expected.

No outcome of a batch is known before its end. The index of an arm that has been given some units
of the batch is taken as if their outcomes had come as expected: n pulls more with n E[p] good ones,
E[p] the posterior mean. Bonuses for rarely pulled arms shrink from unit to unit, means stay.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np

from ...problem import TIE_SIGNS, Group, Problem, States, TieRule
from ...support import Floats, Ints
from ..context import Context
from ..kernels.batch_units import give_by_index
from .base import BatchPolicy, distinct_states, with_none_of


class Formula(Protocol):
    """What is asked of an index policy: the index of any states, in whole numbers or not."""

    name: str
    ties: TieRule
    problem: Problem  # its rewards are those that are compared

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats: ...


class BatchIndexPolicy(BatchPolicy):
    """Gives units to the arms of largest index; `rule` has the formula."""

    def __init__(self, problem: Problem, rule: Formula) -> None:
        self.name = rule.name
        super().__init__(problem, ties=rule.ties)
        self.rule = rule

    @classmethod
    def make(cls, context: Context) -> Self:
        raise ValueError("policy: an index in batches is made from its rule, by the rule's name")

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        group, n, g, where = distinct_states(states)
        index = self._unit_indices(stage, group, n.astype(np.float64), g.astype(np.float64))
        none = np.full(self.problem.units, -np.inf)
        index = with_none_of(index, none, where, states.allowed)
        given = np.empty(where.shape, dtype=np.int64)
        by_pulls, by_position = TIE_SIGNS[self.ties]
        if self.ties == "random" and rng is None:
            raise ValueError("ties are broken at random: pass a random generator as rng")
        give_by_index(
            index, where, states.pulls, self.problem.unit, self.tolerance, by_pulls,
            by_position, rng or np.random.default_rng(0), 0, len(given), given,
        )  # fmt: skip
        return given

    def _unit_indices(self, stage: int, group: Ints, n: Floats, g: Floats) -> Floats:
        """Index of every unit of a batch in every state, (states, units)."""
        units, unit = self.problem.units, self.problem.unit
        index = np.empty((group.size, units))
        taken = unit * np.arange(units, dtype=np.float64)
        for k in np.unique(group):
            own, arms = group == k, self.rule.problem.groups[k]
            mean = (arms.alpha + g[own]) / (arms.alpha + arms.beta + n[own])
            pulls = n[own, None] + taken
            likely = g[own, None] + mean[:, None] * taken
            found = self.rule.group_index(arms, stage, pulls.ravel(), likely.ravel())
            index[own] = found.reshape(pulls.shape)
        return index
