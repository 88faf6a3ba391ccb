"""Arms that move at rest as arrays, and their values at given prices.

An arm in state s at stage t has values of its own, whatever it was before: states are numbered by
group and state alone, and not by pulls. Beliefs that are too many to be states are on a grid that
a rest never leaves (`belief_chains.py`): above V, and on its contraction below.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from ..problem import ArmModel, DriftModel, MarkovModel, Problem, TwoLevelModel
from ..support import Cache, Floats, Ints, InvalidArgument, Unsupported, refuse_over
from .arm_states import EXACT, Grid
from .belief_chains import (
    ArmChain,
    coarse_belief_chain,
    drift_chain,
    moves_of,
    two_level_chain,
)
from .kernels.chains import Chains, settle, stage_margins

CACHED_CHAINS = 16


@singledispatch
def make_chain(model: ArmModel, stages: int, grid: Grid) -> ArmChain:
    """Make the states of an arm that moves at rest, for a number of stages."""
    raise TypeError(f"{model.word} arms stay as they are at rest")  # checked in the problem


@make_chain.register
def _(model: MarkovModel, stages: int, grid: Grid) -> ArmChain:
    arrays = model.arrays

    def places(stats: Floats) -> tuple[Ints, Floats]:
        state = np.asarray(stats[..., 1:2], dtype=np.int64)
        if state.size and not 0 <= int(state.min()) <= int(state.max()) < len(arrays.names):
            raise InvalidArgument("statistics of an arm: no such state", field="stats")
        return state, np.ones(state.shape)

    rest, pull = (
        moves_of(moves.after, moves.probabilities) for moves in (arrays.rest, arrays.pull)
    )
    return ArmChain(rest, pull, arrays.rest_reward, arrays.reward, arrays.first, places)


make_chain.register(
    TwoLevelModel, lambda model, stages, grid: two_level_chain(model, stages, grid.refine)
)

make_chain.register(DriftModel, lambda model, stages, grid: drift_chain(model, stages, grid.refine))


def long_run_chain(model: ArmModel) -> ArmChain:
    """Return states that no number of stages leaves; beliefs are on a coarse grid, for policies."""
    if isinstance(model, TwoLevelModel):
        return coarse_belief_chain(model)
    if isinstance(model, DriftModel):
        raise Unsupported(
            "policy 'whittle' needs a long-run reward, and the means of drifting arms go anywhere; "
            "use 'deco'",
            field="policy",
        )
    return make_chain(model, 1, EXACT)


_CACHE = Cache[tuple[ArmModel, int, Grid], ArmChain](CACHED_CHAINS)


class ChainStates:
    """States of all groups of a problem whose arms move at rest; `below`: on contractions."""

    def __init__(self, problem: Problem, grid: Grid = EXACT, *, below: bool = False) -> None:
        self.problem, T = problem, problem.horizon
        self.arms: list[ArmChain] = []
        for model in (group.model for group in problem.groups):
            key = (model, T, grid)
            arm = _CACHE.get_or_make(key, lambda key=key: make_chain(*key))  # type: ignore[misc]
            self.arms.append(arm.contract() if below and arm.contract is not None else arm)
        self.exact = all(arm.contract is None for arm in self.arms)
        sizes = [arm.reward.size for arm in self.arms]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sides = (
            ([arm.rest for arm in self.arms], [arm.rest_reward for arm in self.arms]),
            ([arm.pull for arm in self.arms], [arm.reward for arm in self.arms]),
        )
        arrays = []
        for parts, rewards in sides:
            at = np.concatenate([[0], np.cumsum(np.concatenate([part[0] for part in parts]))])
            pairs = zip(start, parts, strict=False)
            to = np.concatenate([first + part[1] for first, part in pairs])
            weight = np.concatenate([part[2] for part in parts])
            arrays += [at.astype(np.int64), to.astype(np.int64), weight, np.concatenate(rewards)]
        self.arrays = Chains(start, *arrays)

    @property
    def size(self) -> int:
        """States of all groups."""
        return int(self.arrays.start[-1])

    @property
    def first_masses(self) -> Floats:
        """Expected number of arms in every state before the first stage, (states,)."""
        counts = [group.count for group in self.problem.groups]
        pairs = zip(counts, self.arms, strict=True)
        return np.concatenate([count * arm.first for count, arm in pairs])

    def places(self, group: int, stats: Floats) -> tuple[Ints, Floats]:
        """Return states among those of all groups, and their weights, (..., width) -> (..., J)."""
        state, weight = self.arms[group].places(np.asarray(stats))
        return self.arrays.start[group] + state, weight


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

    def __init__(self, problem: Problem, prices: Floats, grid: Grid = EXACT) -> None:
        self.problem = problem
        self.states = ChainStates(problem, grid)
        states, T = self.states.size, problem.stages
        refuse_large_chains(problem, states, 2)
        factors, sizes = stage_factors(problem), np.diff(self.states.arrays.start)
        # what a pull earns in any state: less than nothing where it pays for resources
        bases = np.repeat([group.reward_base for group in problem.groups], sizes, axis=0).T
        self._values, self._rest = np.zeros((T + 1, states)), np.zeros((T, states))
        self._index, every = np.zeros((T, states)), np.ones(states, np.bool_)
        for t in range(T - 1, -1, -1):
            later, rest, index = self._values[t + 1], self._rest[t], self._index[t]
            stage_margins(self.states.arrays, factors[t], every, later, rest, index)
            index += bases[t]
            settle(rest, index, np.full(states, prices[t]), self._values[t])

    def _of_group(self, table: Floats, group: int) -> Floats:
        start = self.states.arrays.start
        return table[start[group] : start[group + 1]]

    def values(self, stage: int, group: int) -> Floats:
        """V of all states of a group, (S,)."""
        return self._of_group(self._values[stage], group)

    def first_value(self, group: int) -> float:
        """Value of one arm before the first stage."""
        return float((self.states.arms[group].first * self.values(0, group)).sum())

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
        """Read a table over states, (S, columns), at statistics (..., width)."""
        state, weight = self.states.arms[group].places(np.asarray(stats))
        return np.asarray((weight[..., None] * table[state]).sum(axis=-2)), False
