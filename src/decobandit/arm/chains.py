"""Arms that move at rest as arrays, and their values at given prices.

An arm in state s at stage t has values of its own, whatever it was before: states are numbered by
group and state alone, and not by pulls.
"""

from __future__ import annotations

import numpy as np

from ..problem import Group, MarkovModel, Problem
from ..support import Floats, Ints, InvalidArgument, refuse_over
from .kernels.chains import Chains, settle, stage_margins


def chain_of(group: Group) -> MarkovModel:
    """Return the model of a group in a problem whose arms move at rest."""
    assert isinstance(group.model, MarkovModel)  # checked where the problem is made
    return group.model


def chains_of(problem: Problem) -> Chains:
    """Return the states of all groups, and where they lead."""
    models = [chain_of(group) for group in problem.groups]
    sizes = [len(model.names) for model in models]
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    moves = []
    for pulled in (False, True):
        parts = [model.moves(pulled) for model in models]
        ways = np.concatenate([part[0] for part in parts])
        at = np.concatenate([[0], np.cumsum(ways)]).astype(np.int64)
        to = np.concatenate([first + part[1] for first, part in zip(start, parts, strict=False)])
        weight = np.concatenate([part[2] for part in parts])
        reward = np.concatenate([model.rewards[int(pulled)] for model in models])
        moves += [at, to.astype(np.int64), weight, reward]
    return Chains(start, *moves)


def stage_factors(problem: Problem) -> Floats:
    """Return what rewards of every group are multiplied by, (stages, groups)."""
    return np.array([group.reward_factor for group in problem.groups]).T.copy()


def refuse_large_chains(problem: Problem, states: int, tables: int) -> None:
    """Refuse tables of all states and stages that do not fit."""
    refuse_over(
        8.0 * tables * states * (problem.stages + 1.0),
        f"tables of {states} states at {problem.stages} stages",
        "use fewer stages, or fewer kinds of arms",
    )


class ChainValues:
    """Values and indices of all states at all stages, at prices (stages,)."""

    def __init__(self, problem: Problem, prices: Floats) -> None:
        self.problem = problem
        self.chains = chains_of(problem)
        states, T = int(self.chains.start[-1]), problem.stages
        refuse_large_chains(problem, states, 2)
        factors = stage_factors(problem)
        self._values, self._rest = np.zeros((T + 1, states)), np.zeros((T, states))
        self._index = np.zeros((T, states))
        for t in range(T - 1, -1, -1):
            later, rest, index = self._values[t + 1], self._rest[t], self._index[t]
            stage_margins(self.chains, factors[t], later, rest, index)
            settle(rest, index, float(prices[t]), self._values[t])

    def _of_group(self, table: Floats, group: int) -> Floats:
        return table[self.chains.start[group] : self.chains.start[group + 1]]

    def values(self, stage: int, group: int) -> Floats:
        """V of all states of a group, (S,)."""
        return self._of_group(self._values[stage], group)

    def first_value(self, group: int) -> float:
        """Value of one arm before the first stage."""
        law = chain_of(self.problem.groups[group]).first_law
        return float((law * self.values(0, group)).sum())

    def idle(self, stage: int, group: int) -> Floats:
        """Q of all states of a group without a pull, (S,)."""
        return self._of_group(self._rest[stage], group)

    def index(self, stage: int, group: int) -> Floats:
        """Index of all states of a group, (S,)."""
        return self._of_group(self._index[stage], group)

    def worth(self, stage: int, group: int) -> Floats:
        """Q of all states with a pull, (S, 1)."""
        return (self.idle(stage, group) + self.index(stage, group))[:, None]

    def read(self, table: Floats, group: int, stats: Floats) -> tuple[Floats, bool]:
        """Read a table over states, (S, columns), at statistics (..., 2)."""
        return np.asarray(table[chain_states(stats, len(table))]), False


def chain_states(stats: Floats, states: int) -> Ints:
    """Return the states in statistics (..., 2), checked."""
    state = np.asarray(stats[..., 1], dtype=np.int64)
    if state.size and not 0 <= int(state.min()) <= int(state.max()) < states:
        raise InvalidArgument("statistics of an arm: no such state", field="stats")
    return state
