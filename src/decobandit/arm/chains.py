"""Arms that move at rest, as arrays.

The values of an arm depend only on its state s and the stage t: states are numbered by group and
state alone, and not by pulls. A state may be a belief: every reachable one, or one of a grid.

V is convex in the belief: values of a policy are linear in it, and V is their maximum. A rest moves
the belief to one other belief, so a grid must be *closed*: a rest leads from every point to a
point. It has *landings*, to which the outcomes of a pull are moved, and for each of them the
beliefs that it passes at rest, one per stage. Rests are then exact, and only pulls are rounded. The
mean of the belief after a pull is the belief after a rest:

    above    each outcome is shared by the landings around it, its mean kept (chords)
    below    the outcomes move inwards to landings, the mean kept; if none are between, as at rest

As in `grids.py`, values above are at least V in every state at any prices, and values below at most
V: phi computed with the former bounds every policy, flows on the latter bound min phi from below.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..problem import (
    ArmModel,
    DriftModel,
    MarkovModel,
    Problem,
    TwoLevelModel,
    normal_excess,
)
from ..support import Cache, Floats, Ints, InvalidArgument, TooLarge, Unsupported, refuse_over
from .arm_states import EXACT, Grid
from .grids import contracted_law
from .kernels.chains import Chains

LANDINGS = 1024  # of a grid of beliefs, where nothing else is asked for
MIN_LANDINGS = 48
COARSE_BELIEFS = 101
GRID_STATES = 1e7  # of all stages, about, that the number of landings is chosen by
ROUNDED = 1e-9  # of a level
SAME_BELIEF = 1e-13  # beliefs this close count as equal: rounding
Moves = tuple[Ints, Ints, Floats]  # number of ways from every state; where they lead; weights


class ArmChain(NamedTuple):
    """States of one arm, and where they lead at rest and by a pull."""

    rest: Moves
    pull: Moves
    rest_reward: Floats  # (S,)
    reward: Floats
    first: Floats  # (S,) probabilities of the first states
    places: Callable[[Floats], tuple[Ints, Floats]]  # of statistics: states and weights, (..., J)
    contract: Callable[[], ArmChain] | None = None  # of a grid: makes its contraction


def two_level_chain(model: TwoLevelModel, stages: int, refine: int) -> ArmChain:
    """Return all beliefs if they are few, otherwise a grid of 1,024 * 2^refine landings."""
    beliefs = model.beliefs(stages)
    if beliefs is None:
        return _two_level_grid(model, stages, refine, below=False)

    def places(stats: Floats) -> tuple[Ints, Floats]:
        state = _nearest(beliefs, stats[..., 1:2])
        return state, np.ones(state.shape)

    rest = _certain(_nearest(beliefs, model.drifted(beliefs)))
    return _belief_chain(
        model, beliefs, rest, lambda after, chances: (_nearest(beliefs, after), chances), places
    )


def coarse_belief_chain(model: TwoLevelModel) -> ArmChain:
    """Return beliefs on a grid; a rest, too, is split between the two points around its end."""
    ends = (model.start, model.up, 1.0 - model.down)
    beliefs = np.linspace(min(ends), max(ends), COARSE_BELIEFS)
    share = partial(_shared, beliefs)
    rest = moves_of(*share(model.drifted(beliefs)[:, None], np.ones((beliefs.size, 1))))

    def places(stats: Floats) -> tuple[Ints, Floats]:
        return share(stats[..., 1:2], np.ones((*stats.shape[:-1], 1)))

    return _belief_chain(model, beliefs, rest, share, places)


def _belief_chain(
    model: TwoLevelModel,
    beliefs: Floats,
    rest: Moves,
    share: Callable[[Floats, Floats], tuple[Ints, Floats]],
    places: Callable[[Floats], tuple[Ints, Floats]],
) -> ArmChain:
    """Return a chain of beliefs (S,).

    share: function from beliefs after a bad and a good outcome, and their probabilities, to states
    and weights, (S, J).
    """
    learned = [model.learned(beliefs, np.full(beliefs.shape, good)) for good in (0.0, 1.0)]
    rate, first = model.rate(beliefs), int(np.abs(beliefs - model.start).argmin())
    after = np.stack([model.drifted(x) for x in learned], axis=1)
    return ArmChain(
        rest=rest,
        pull=moves_of(*share(after, np.stack([1.0 - rate, rate], axis=1))),
        rest_reward=np.zeros(beliefs.size),
        reward=rate,
        first=(np.arange(beliefs.size) == first).astype(float),
        places=places,
    )


def _nearest(points: Floats, x: Floats) -> Ints:
    return np.searchsorted((points[:-1] + points[1:]) / 2.0, x)


def moves_of(to: Ints, weight: Floats) -> Moves:
    """Return moves from states and weights (S, J)."""
    possible = weight > 0.0
    return possible.sum(axis=1), to[possible], weight[possible]


def _certain(to: Ints) -> Moves:
    return np.ones(to.size, np.int64), to, np.ones(to.size)


def _two_level_grid(model: TwoLevelModel, stages: int, refine: int, below: bool) -> ArmChain:
    rate = abs(1.0 - model.up - model.down)
    passed = stages + 1
    if rate < 1.0:  # beliefs forget where they were
        passed = min(passed, 2 + int(np.ceil(np.log(SAME_BELIEF) / np.log(max(rate, 1e-6)))))
    most = max(MIN_LANDINGS, int(GRID_STATES / (stages * passed)))
    ends = (model.start, model.up, 1.0 - model.down)
    landings = np.linspace(min(ends), max(ends), min(round(LANDINGS * 2.0**refine), most))
    landings = np.union1d(landings, model.start)
    M = landings.size
    grid = np.empty((passed, M))  # state k * M + i: landing i, k stages later
    grid[0] = landings
    for level in range(1, passed):
        grid[level] = model.drifted(grid[level - 1])
    belief = grid.ravel()
    rest = np.arange(belief.size) + M
    rest[-M:] -= M  # the last ones no longer move, or no stage is left
    share = partial(_shared, landings)
    if below:
        share = partial(_inwards, landings, rest=rest, mean=model.drifted(belief))
    order = np.argsort(belief, kind="stable")

    def places(stats: Floats) -> tuple[Ints, Floats]:
        left, part = _between(belief[order], stats[..., 1])
        return order[np.stack([left, left + 1], axis=-1)], np.stack([1.0 - part, part], axis=-1)

    chain = _belief_chain(model, belief, _certain(rest), share, places)
    if below:
        return chain
    return chain._replace(contract=lambda: _two_level_grid(model, stages, refine, below=True))


def _between(points: Floats, x: Floats) -> tuple[Ints, Floats]:
    """Return the point to the left, and the part of the way to the next one; ends stay."""
    left = np.clip(np.searchsorted(points, x, side="right") - 1, 0, points.size - 2)
    width = points[left + 1] - points[left]
    part = (x - points[left]) / np.where(width > 0.0, width, 1.0)
    return left, np.clip(part, 0.0, 1.0)


def _shared(points: Floats, after: Floats, probability: Floats) -> tuple[Ints, Floats]:
    """Share beliefs (..., J) with these probabilities by the points around them, (..., 2 J)."""
    left, part = _between(points, after)
    to = np.concatenate([left, left + 1], axis=-1)
    return to, np.concatenate([probability * (1.0 - part), probability * part], axis=-1)


def _inwards(
    landings: Floats, after: Floats, probability: Floats, rest: Ints, mean: Floats
) -> tuple[Ints, Floats]:
    """Move the two beliefs after a pull inwards to landings, their mean kept."""
    low, high = after.min(axis=1), after.max(axis=1)
    first = np.minimum(np.searchsorted(landings, low - SAME_BELIEF), landings.size - 1)
    last = np.maximum(np.searchsorted(landings, high + SAME_BELIEF, side="right") - 1, 0)
    room = (landings[first] < mean) & (mean < landings[last])
    room &= (probability > 0.0).all(axis=1)
    width = np.where(room, landings[last] - landings[first], 1.0)
    part = np.where(room, (mean - landings[first]) / width, 0.0)
    to = np.stack([np.where(room, first, rest), np.where(room, last, rest)], axis=1)
    return to, np.stack([1.0 - part, part], axis=1)


# Means that do a random walk: states are levels of the variance of the mean, and means on a lattice
# of spacing h. V is convex in the mean, and it rises with the variance: who knows less of a mean
# that is spread as much could be told more. Levels are v0 + j q / r, q the variance of a step of
# the walk and j an integer: a rest leads r levels up, exactly, and the mean stays. A pull moves the
# mean by N(0, s^2), which is shared by the lattice (`grids.chord_law`, `contracted_law`), and
# leads to a variance that is rounded: up for values above V, down for values below it.
#
# Above, every level also has two far means -B and B, which chords from the ends of the lattice lead
# to, and which are never left. The gap between V there and (f B - mu)^+ is at most f E|theta - B|
# a stage, theta the mean then: both pulls and rests earn as much more. Below, laws are cut
# symmetrically at the ends of the lattice.

VARIANCE_STEP = 0.0125  # of levels, at most, in variances of an arm that is always pulled
MEAN_STEP = 0.4  # of the lattice, in standard deviations of a step of such an arm's mean
DRIFT_REACH, DRIFT_STEP_REACH = 4.0, 5.0  # of the lattice and of a pull, in standard deviations
FAR_MEAN = 4.0  # far means, in ends of the lattice
MEAN_DEVIATION = 0.8  # E|Z| of a standard normal Z, rounded up
MAX_DRIFT_STATES = 900_000


def drift_chain(model: DriftModel, stages: int, refine: int, *, below: bool = False) -> ArmChain:
    """Return a grid of variances and means."""
    q, noise, v0 = model.drift_sd**2, model.noise_sd**2, model.prior_sd**2
    least = v0  # variance of an arm that is always pulled, at the end
    for _ in range(stages - 1):
        least = least * noise / (least + noise) + q
    finer = 2.0 ** (refine / 2.0)
    per_rest = int(np.ceil(finer * q / (VARIANCE_STEP * least)))
    spacing, h = q / per_rest, MEAN_STEP * float(model.step_sd(np.sqrt(min(v0, least)))) / finer
    last_sd = float(np.sqrt(v0 + stages * q))
    half = int(np.ceil(DRIFT_REACH * last_sd / h))

    def pulled_to(level: Ints) -> Ints:
        v = v0 + level * spacing
        place = (v * noise / (v + noise) + q - v0) / spacing
        return (np.floor if below else np.ceil)(
            place + (-ROUNDED if not below else ROUNDED)
        ).astype(np.int64)

    fresh = per_rest * np.arange(stages)  # levels of an arm that has not been pulled
    levels = now = np.zeros(0, np.int64)
    for t in range(1, stages):
        before = np.append(now, fresh[t - 1])
        now = np.unique(np.concatenate([now + per_rest, pulled_to(before)]))
        levels = np.union1d(levels, now)
        if levels.size * (2 * half + 3) > MAX_DRIFT_STATES:
            raise TooLarge(
                f"drifting arms: {stages} stages have more than {MAX_DRIFT_STATES} variances and "
                "means; use fewer stages, a larger drift_sd or a coarser grid"
            )
    M, far = 2 * half + 1, 2 * half + 3  # means of a level; with the far ones
    mean = h * np.arange(-half, half + 1.0)
    edge = FAR_MEAN * h * half
    every = np.concatenate(
        [np.tile(np.concatenate([mean, [-edge, edge]]), levels.size), np.zeros(stages)]
    )
    row_of_fresh = levels.size * far + np.arange(stages)

    def row(level: Ints) -> Ints:
        return far * np.clip(np.searchsorted(levels, level), 0, max(levels.size - 1, 0))

    # rests: as many levels up; the last variances have no stage left
    rest = (row(levels + per_rest)[:, None] + np.arange(far)).ravel()
    rest = np.concatenate([rest, np.minimum(row_of_fresh + 1, row_of_fresh[-1])])
    ways, to, weight = [], [], []
    law_of = _drift_contraction if below else _drift_chords
    for level, target in zip(levels, row(pulled_to(levels)), strict=True):
        sd = float(model.step_sd(np.sqrt(v0 + level * spacing)))
        offsets, law = law_of(h, sd, half, edge, np.arange(-half, half + 1))
        at_ends = np.array([target + M, target + M + 1])
        ways.append(np.append((law > 0.0).sum(axis=1), [1, 1]))
        to.append(np.append((target + offsets)[law > 0.0], at_ends))
        weight.append(np.append(law[law > 0.0], [1.0, 1.0]))
    for j, target in zip(fresh, row(pulled_to(fresh)), strict=True):
        if levels.size == 0 or j == fresh[-1]:  # no stage is left
            ways.append(np.array([1]))
            to.append(row_of_fresh[-1:])
            weight.append(np.ones(1))
            continue
        sd = float(model.step_sd(np.sqrt(v0 + j * spacing)))
        offsets, law = law_of(h, sd, half, edge, np.zeros(1, np.int64))
        ways.append((law > 0.0).sum(axis=1))
        to.append((target + offsets)[law > 0.0])
        weight.append(law[law > 0.0])
    more = np.zeros(every.size)
    if not below:
        more[: levels.size * far].reshape(-1, far)[:, M:] = MEAN_DEVIATION * last_sd

    def places(stats: Floats) -> tuple[Ints, Floats]:
        at = (stats[..., 2] ** 2 - v0) / spacing
        alone = (stats[..., 0] == 0.0) | (levels.size == 0)
        stage = np.clip(np.rint(at / per_rest).astype(np.int64), 0, stages - 1)
        if levels.size == 0:
            return row_of_fresh[stage][..., None], np.ones((*stage.shape, 1))
        shift = np.clip(stats[..., 1] - model.prior_mean, -edge, edge)
        order = np.concatenate([[M], np.arange(M), [M + 1]])
        left, part = _between(np.concatenate([[-edge], mean, [edge]]), shift)
        low, up = _between(levels.astype(float), at) if levels.size > 1 else (0 * stage, 0.0 * at)
        high = np.minimum(low + 1, levels.size - 1)
        states = [far * line + order[left + k] for line in (low, high) for k in (0, 1)]
        weights = [a * b for a in (1.0 - up, up) for b in (1.0 - part, part)]
        states = [np.where(alone, row_of_fresh[stage], state) for state in states]
        return np.stack(states, axis=-1), np.stack(weights, axis=-1)

    return ArmChain(
        rest=_certain(rest),
        pull=(np.concatenate(ways), np.concatenate(to), np.concatenate(weight)),
        rest_reward=more,
        reward=model.prior_mean + every + more,
        first=(np.arange(every.size) == row_of_fresh[0]).astype(float),
        places=places,
        contract=None if below else lambda: drift_chain(model, stages, refine, below=True),
    )


def _drift_chords(h: float, sd: float, half: int, edge: float, at: Ints) -> tuple[Ints, Floats]:
    """Return places in a level (N, J) and probabilities of means after a step from these points."""
    reach = int(np.ceil(DRIFT_STEP_REACH * sd / h))
    G = normal_excess(h * np.arange(-reach, reach + 1.0), sd)
    point = np.clip(at[:, None] + np.arange(-reach, reach + 1), -half, half)
    now = h * at[:, None]
    x = np.concatenate(
        [np.full((at.size, 1), -edge), h * point, np.full((at.size, 1), edge)], axis=1
    )
    beyond = np.concatenate(
        [edge + now, G[point - at[:, None] + reach], np.zeros((at.size, 1))], axis=1
    )
    width = np.diff(x, axis=1)
    slope = np.diff(beyond, axis=1) / np.where(width > 0.0, width, 1.0)
    ends = np.where(np.arange(slope.shape[1]) <= reach, slope[:, :1], slope[:, -1:])
    slope = np.where(width > 0.0, slope, ends)
    none = np.zeros((at.size, 1))
    law = np.maximum(np.diff(np.concatenate([none - 1.0, slope, none], axis=1), axis=1), 0.0)
    last = np.full((at.size, 1), 2 * half + 1)
    return np.concatenate([last, point + half, last + 1], axis=1), law


def _drift_contraction(
    h: float, sd: float, half: int, edge: float, at: Ints
) -> tuple[Ints, Floats]:
    """As `_drift_chords`, of the contraction, cut where the lattice ends."""
    reach = int(np.ceil(DRIFT_STEP_REACH * sd / h))
    inner_and_end = contracted_law(h, sd, reach)
    reach = inner_and_end.size // 3 - 1
    inner, end = inner_and_end[: reach + 1], inner_and_end[reach + 1 : 2 * reach + 2]
    cut = np.minimum(reach, half - np.abs(at))[:, None]
    away = np.abs(np.arange(-reach, reach + 1))[None, :]
    law = np.where(away < cut, inner[np.minimum(away, reach)], 0.0)
    law = np.where(away == cut, end[np.minimum(away, reach)], law)
    law = np.where(cut == 0, away == 0, law).astype(float)
    return np.clip(at[:, None] + np.arange(-reach, reach + 1), -half, half) + half, law


# Arms of a problem.

CACHED_CHAINS = 16


def make_chain(model: ArmModel, stages: int, grid: Grid) -> ArmChain:
    """Make the states of an arm that moves at rest, for a number of stages."""
    if isinstance(model, TwoLevelModel):
        return two_level_chain(model, stages, grid.refine)
    if isinstance(model, DriftModel):
        return drift_chain(model, stages, grid.refine)
    assert isinstance(model, MarkovModel)  # others stay as they are at rest
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
