"""Compiled simulation of index policies, over tables of their indices.

The states of an arm are numbered row by row, by pulls; a table has the index of every state at
every stage, from the policy's `index` itself. Outcomes are those that any other loop meets. Sums of
counts have no largest one: where an episode leaves the table, its chunk is played stage by stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..policies import IndexPolicy
from ..problem import (
    TIE_SIGNS,
    ArmModel,
    MarkovModel,
    PoissonModel,
    Problem,
    tie_tolerance,
)
from ..support import Floats, Ints, Progress, tell
from .accounts import GapTerms, Played, Turns, turn_of
from .kernels.table_play import BY_CLASS, BY_COUNT, BY_STATE, play_tables
from .worlds import Chunk, World, class_bounds, class_outcomes, law_of

MOST_CELLS = 2**25  # of a table: states times stages
TAIL = 1e-9  # chance of a sum of counts beyond the end of its row
Arrays = tuple[npt.NDArray[Any], ...]
CODES = {"classes": BY_CLASS, "states": BY_STATE, "counts": BY_COUNT}


@dataclass(frozen=True, eq=False)
class ArmStates:
    """States of an arm, row by row; S of them, with up to L outcomes each."""

    stats: Floats  # (S, width)
    start: Ints  # (rows + 1,) where rows begin
    links: Ints  # (S, L) state after each outcome; of counts: the state after 0, and most that fit
    below: Floats  # (S, L) of own states, chance of an outcome or one before it; else (S, 0)


def _arm_states(model: ArmModel, rows: int, truth: Floats | None) -> ArmStates:
    """Return states after 0 .. rows - 1 pulls; truth: fixed parameters of the arms."""
    if isinstance(model, PoissonModel):
        return _count_states(model, rows, truth)
    if not isinstance(model, MarkovModel):
        return _states_by_outcome(model, rows, class_outcomes(model))
    chances = [[chance for chance, _ in model.links(i)] for i in range(len(model.arrays.names))]
    below = np.ones((len(chances), max(map(len, chances))))
    for row, row_chances in zip(below, chances, strict=True):
        row[: len(row_chances) - 1] = np.cumsum(row_chances)[:-1]
    states = _states_by_outcome(model, rows, np.arange(float(below.shape[1])))
    return replace(states, below=below[states.stats[:, 1].astype(np.int64)])


def _states_by_outcome(model: ArmModel, rows: int, outcomes: Floats) -> ArmStates:
    """Return rows of the distinct statistics after all outcomes of the row before."""
    level = np.array([model.initial()], dtype=float)
    stats, links, start = [level], [], [0, 1]
    for _ in range(rows - 1):
        later = model.update(np.repeat(level, outcomes.size, axis=0), np.tile(outcomes, len(level)))
        radix = np.cumprod([1.0, *(later[:, :-1].max(axis=0) + 1.0)])
        _, first, place = np.unique(later @ radix, return_index=True, return_inverse=True)
        level = later[first]
        links.append(start[-1] + place.reshape(-1, outcomes.size))
        stats.append(level)
        start.append(start[-1] + len(level))
    links.append(np.zeros((len(level), outcomes.size), np.int64))
    joined = np.concatenate(stats)
    return ArmStates(joined, np.array(start), np.concatenate(links), np.empty((len(joined), 0)))


def _count_states(model: PoissonModel, rows: int, truth: Floats | None) -> ArmStates:
    """Return rows of sums of counts, up to the end of each row."""
    from scipy.stats import nbinom, poisson  # late: scipy takes half a second to load

    pulls = np.arange(1.0, rows)
    if truth is None:
        ends = nbinom.isf(TAIL, model.shape, model.rate / (model.rate + pulls))
    else:
        ends = poisson.isf(TAIL, pulls * float(truth.max()))
    sizes = np.concatenate([[1], np.minimum(ends, MOST_CELLS).astype(np.int64) + 1])
    start = np.concatenate([[0], np.cumsum(sizes)])
    sums = np.arange(start[-1]) - np.repeat(start[:-1], sizes)
    n = np.repeat(np.arange(rows), sizes)
    after = start[np.minimum(n + 1, rows - 1)] + sums
    room = np.append(sizes[1:], 0)[n] - 1 - sums
    stats = np.stack([n, sums], axis=1).astype(float)
    return ArmStates(stats, start, np.stack([after, room], axis=1), np.empty((len(stats), 0)))


class Tables:
    """Tables of all arms, by which chunks are played; arrays: as `play_tables` takes them."""

    def __init__(self, turns: Turns, world: World, arrays: Arrays) -> None:
        self.turns, self.world, self._arrays = turns, world, arrays
        self._outcomes = arrays[4].shape[1]  # of a state
        self._with_gap = arrays[-1].size > 0

    def play(self, chunk: Chunk, played: Played) -> bool:
        """Play a chunk and book what came of it; False, and nothing is booked, where it leaves."""
        world, problem = self.world, self.world.problem
        draws, stages = len(chunk.weights), problem.stages
        policy = self.turns[0][0]
        reward, predicted, last = np.zeros((3, draws))
        pulls, means = np.zeros((draws, problem.n_arms)), np.zeros((draws, stages))
        terms = np.zeros((draws if self._with_gap else 0, stages, 2))
        fits = play_tables(
            (chunk.keys, world.per_draw, self._theta(chunk), chunk.means),
            self._arrays,
            (world.base, world.factor, problem.pulls.astype(np.int64), problem.horizon),
            (tie_tolerance(policy.problem), *TIE_SIGNS[policy.ties]),
            chunk.rng(),
            (reward, predicted, last, pulls, means, terms),
        )
        if not fits:
            return False
        every, no_regret = slice(0, stages), np.zeros(draws)
        gap_terms = terms if self._with_gap else None
        played.book(chunk, every, reward, predicted, means, gap_terms, no_regret)
        played.close(chunk, pulls, last)
        return True

    def _theta(self, chunk: Chunk) -> Floats:
        """Return cumulative chances of classes, or means, (draws, K, L)."""
        problem = self.world.problem
        chances = np.ones((len(chunk.weights), problem.n_arms, self._outcomes))
        for group, theta in zip(problem.groups, chunk.theta, strict=True):
            arms, law = list(group.members), law_of(group.model)
            if law == "counts":
                chances[:, arms, 0] = theta[..., 0]
            elif law == "classes":
                below = class_bounds(theta)
                chances[:, arms, : below.shape[-1] - 1] = below[..., :-1]
        return chances


def make_tables(turns: Turns, world: World, gap: GapTerms | None) -> Tables | None:
    """Make the tables of index policies; None where there are none, or they would be too large."""
    problem, policies = world.problem, [policy for policy, _ in turns]
    if problem.has_windows or problem.is_restless or problem.may_wait:
        return None
    if not all(
        isinstance(one, IndexPolicy) and one.by_arm and one.has_own_index for one in policies
    ):
        return None
    if any(law_of(group.model) == "stream" for group in problem.groups):
        return None
    believed = policies[0].problem
    pairs = list(zip(believed.group_of_arm.tolist(), problem.group_of_arm.tolist(), strict=True))
    parts = list(dict.fromkeys(pairs))
    most = min(MOST_CELLS, world.draws * world.per_draw * problem.n_arms * problem.stages)
    if sum(_cells(problem, k) for _, k in parts) > most:
        return None
    states = [_states(world, k) for _, k in parts]
    if sum(int(_lengths(one, problem.stages).sum()) for one in states) > most:
        return None
    tell(Progress("tables of stages", 0, problem.stages))
    return _joined(turns, world, gap, pairs, parts, states)


def _cells(problem: Problem, k: int) -> float:
    """Return the number of states of an arm over all stages; 0 for counts, checked later."""
    model = problem.groups[k].model
    if not model.finite:
        return 0.0
    rows = np.array([model.states(n) for n in range(problem.horizon)], dtype=float)
    return float(np.cumsum(rows).sum())


def _states(world: World, k: int) -> ArmStates:
    group = world.problem.groups[k]
    truth = None
    if world.truth is not None:
        truth = np.array([world.truth[arm] for arm in group.members], dtype=float)
    return _arm_states(group.model, world.problem.horizon + 1, truth)


def _lengths(states: ArmStates, stages: int) -> Ints:
    """Return the number of stages at which every state may be reached, (S,)."""
    rows = np.diff(states.start)
    return np.repeat(stages - np.arange(len(rows)), rows)


def _joined(
    turns: Turns,
    world: World,
    gap: GapTerms | None,
    pairs: list[tuple[int, int]],
    parts: list[tuple[int, int]],
    states: list[ArmStates],
) -> Tables:
    problem = world.problem
    begin = np.cumsum([0, *(len(one.stats) for one in states)])
    size, width = int(begin[-1]), max(one.links.shape[1] for one in states)
    lengths = np.concatenate([_lengths(one, problem.stages) for one in states])
    cells = np.cumsum(lengths) - lengths
    place = cells - (problem.stages - lengths)
    links, values = np.zeros((size, width), np.int32), np.zeros((len(parts), width))
    own_laws = any(one.below.shape[1] for one in states)
    below = np.ones((size, width)) if own_laws else np.empty((0, 0))
    mean, last, law = np.empty(size), np.empty(size), np.empty(len(parts), np.int64)
    index = np.empty(int(lengths.sum()))
    excess = np.empty(index.size if gap is not None else 0)
    for i, ((believed, k), one) in enumerate(zip(parts, states, strict=True)):
        group, here = problem.groups[k], slice(int(begin[i]), int(begin[i + 1]))
        law[i] = CODES[law_of(group.model)]
        links[here, : one.links.shape[1]] = one.links + begin[i]
        if law[i] == BY_COUNT:
            links[here, 1] = one.links[:, 1]
        elif law[i] == BY_CLASS:
            outcomes = class_outcomes(group.model)
            first = np.repeat(one.stats[:1], outcomes.size, axis=0)
            values[i, : outcomes.size] = group.model.value(first, outcomes)
        below[here, : one.below.shape[1]] = one.below if own_laws else 1.0
        mean[here], last[here] = group.model.mean(one.stats), group.last_rewards(one.stats)
        for t in range(problem.stages):
            reached = int(one.start[min(t, problem.horizon) + 1])
            at = place[here][:reached] + t
            index[at] = _index(turns, problem, t, believed, one.stats[:reached])
            if gap is not None:
                excess[at] = gap.index(t, k, one.stats[:reached]) - gap.prices[t]
    table_of = np.array([parts.index(pair) for pair in pairs])
    arrays = (table_of, begin[:-1], law, place, links, below, values, mean, last, index, excess)
    return Tables(turns, world, arrays)


def _index(turns: Turns, problem: Problem, stage: int, group: int, stats: Floats) -> Floats:
    """Index of states by the policy that plays a stage; at a deployment, what it expects."""
    policy = turn_of(turns, stage)
    if stage < problem.horizon:
        assert isinstance(policy, IndexPolicy)
        return policy.index(stage, group, stats)
    arms, last = policy.problem.groups[group], policy.problem.horizon
    return np.asarray(arms.reward_base[last] + arms.reward_factor[last] * arms.model.mean(stats))
