"""Arms that move at rest whose state is a belief: every reachable one, or a grid.

V is convex in the belief: values of a policy are linear in it, and V is their maximum. A rest moves
the belief to one place, so that a grid must be *closed*: every point is led to a point. It has
*landings*, to which the outcomes of a pull are moved, and behind each of them the beliefs that it
passes at rest, one per stage. Rests are then exact, and only pulls are rounded. The next belief
after a pull has the mean of a rest:

    above    each outcome is shared by the landings around it, its mean kept (chords)
    below    the outcomes move inwards to landings, the mean kept; if none are between, as at rest

As in `grids.py`, values above are at least V in every state at any prices, and values below at most
V: phi computed with the former bounds every policy, flows on the latter bound min phi from below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..problem import TwoLevelModel
from ..support import Floats, Ints

LANDINGS = 1024  # of a grid of beliefs, where nothing else is asked for
MIN_LANDINGS = 48
COARSE_BELIEFS = 101
GRID_STATES = 1e7  # of all stages, about, that the number of landings is chosen by
SAME_BELIEF = 1e-13  # beliefs this close count as equal: rounding
Moves = tuple[Ints, Ints, Floats]  # number of ways from every state; where they lead; weights


class ArmChain(NamedTuple):
    """States of one arm, and where they lead at rest and by a pull."""

    rest: Moves
    pull: Moves
    rest_reward: Floats  # (S,)
    reward: Floats
    first: Floats  # (S,) chances of the first states
    places: Callable[[Floats], tuple[Ints, Floats]]  # of statistics: states and weights, (..., J)
    contract: Callable[[], ArmChain] | None = None  # of a grid: makes its contraction


def two_level_chain(model: TwoLevelModel, stages: int, refine: int) -> ArmChain:
    """Return every belief where these are few, else a grid of 1,024 * 2^refine landings."""
    beliefs = model.beliefs(stages)
    if beliefs is None:
        return _two_level_grid(model, stages, refine, below=False)
    rest = _nearest(beliefs, model.drifted(beliefs))
    after = [_nearest(beliefs, model.drifted(x)) for x in _learned(model, beliefs)]
    p = model.rate(beliefs)

    def places(stats: Floats) -> tuple[Ints, Floats]:
        state = _nearest(beliefs, stats[..., 1:2])
        return state, np.ones(state.shape)

    pull = np.stack(after, axis=1), np.stack([1.0 - p, p], axis=1)
    return _belief_chain(model, beliefs, _certain(rest), pull, places)


def coarse_belief_chain(model: TwoLevelModel) -> ArmChain:
    """Return beliefs on a grid on which rests, too, go to the two points around them."""
    ends = (model.start, model.up, 1.0 - model.down)
    beliefs = np.linspace(min(ends), max(ends), COARSE_BELIEFS)
    p = model.rate(beliefs)
    chance = np.stack([1.0 - p, p], axis=1)
    after = np.stack([model.drifted(x) for x in _learned(model, beliefs)], axis=1)
    pull = _shared(beliefs, after, chance)
    rest = _shared(beliefs, model.drifted(beliefs)[:, None], np.ones((beliefs.size, 1)))

    def places(stats: Floats) -> tuple[Ints, Floats]:
        return _shared(beliefs, stats[..., 1:2], np.ones((*stats.shape[:-1], 1)))

    return _belief_chain(model, beliefs, _moves(*rest), pull, places)


def _learned(model: TwoLevelModel, belief: Floats) -> list[Floats]:
    """Beliefs after a bad and a good outcome, before levels move."""
    return [model.learned(belief, np.full(belief.shape, outcome)) for outcome in (0.0, 1.0)]


def _nearest(points: Floats, x: Floats) -> Ints:
    return np.searchsorted((points[:-1] + points[1:]) / 2.0, x)


def _moves(to: Ints, weight: Floats) -> Moves:
    """Return moves from states and weights (S, J)."""
    possible = weight > 0.0
    return possible.sum(axis=1), to[possible], weight[possible]


def _certain(to: Ints) -> Moves:
    return np.ones(to.size, np.int64), to, np.ones(to.size)


def _belief_chain(
    model: TwoLevelModel,
    beliefs: Floats,
    rest: Moves,
    pull: tuple[Ints, Floats],
    places: Callable[[Floats], tuple[Ints, Floats]],
) -> ArmChain:
    """Return a chain of beliefs (S,) with pulls (S, J)."""
    first = int(np.abs(beliefs - model.start).argmin())
    return ArmChain(
        rest=rest,
        pull=_moves(*pull),
        rest_reward=np.zeros(beliefs.size),
        reward=model.rate(beliefs),
        first=(np.arange(beliefs.size) == first).astype(float),
        places=places,
    )


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
    rest[-M:] -= M  # the last ones have come to rest, or no stage is left
    p = model.rate(belief)
    chance = np.stack([1.0 - p, p], axis=1)
    after = np.stack([model.drifted(x) for x in _learned(model, belief)], axis=1)
    if below:
        pull = _inwards(landings, after, chance, rest, model.drifted(belief))
    else:
        pull = _shared(landings, after, chance)
    order = np.argsort(belief, kind="stable")

    def places(stats: Floats) -> tuple[Ints, Floats]:
        left, part = _between(belief[order], stats[..., 1])
        return order[np.stack([left, left + 1], axis=-1)], np.stack([1.0 - part, part], axis=-1)

    chain = _belief_chain(model, belief, _certain(rest), pull, places)
    if below:
        return chain
    return chain._replace(contract=lambda: _two_level_grid(model, stages, refine, below=True))


def _between(points: Floats, x: Floats) -> tuple[Ints, Floats]:
    """Return the point to the left, and the part of the way to the next one; ends stay."""
    left = np.clip(np.searchsorted(points, x, side="right") - 1, 0, points.size - 2)
    width = points[left + 1] - points[left]
    part = (x - points[left]) / np.where(width > 0.0, width, 1.0)
    return left, np.clip(part, 0.0, 1.0)


def _shared(points: Floats, after: Floats, chance: Floats) -> tuple[Ints, Floats]:
    """Share beliefs (..., J) with these chances by the points around them, (..., 2 J)."""
    left, part = _between(points, after)
    to = np.concatenate([left, left + 1], axis=-1)
    return to, np.concatenate([chance * (1.0 - part), chance * part], axis=-1)


def _inwards(
    landings: Floats, after: Floats, chance: Floats, rest: Ints, mean: Floats
) -> tuple[Ints, Floats]:
    """Move the two beliefs after a pull inwards to landings, their mean kept."""
    low, high = after.min(axis=1), after.max(axis=1)
    first = np.minimum(np.searchsorted(landings, low - SAME_BELIEF), landings.size - 1)
    last = np.maximum(np.searchsorted(landings, high + SAME_BELIEF, side="right") - 1, 0)
    room = (landings[first] < mean) & (mean < landings[last])
    room &= (chance > 0.0).all(axis=1)
    width = np.where(room, landings[last] - landings[first], 1.0)
    part = np.where(room, (mean - landings[first]) / width, 0.0)
    to = np.stack([np.where(room, first, rest), np.where(room, last, rest)], axis=1)
    return to, np.stack([1.0 - part, part], axis=1)
