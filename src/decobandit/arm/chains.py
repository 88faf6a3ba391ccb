"""Arms that move at rest as arrays.

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
from .kernels.chains import Chains

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
