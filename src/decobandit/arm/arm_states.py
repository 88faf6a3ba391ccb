"""Which states an arm is followed on: every one, or a grid. Graphs are made once.

Bytes are those of a market: what units are worth in every state, at all stages. Work counts the
multiplications of a pass backward.
"""

from __future__ import annotations

from contextlib import suppress
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from ..problem import (
    ArmModel,
    BernoulliModel,
    CategoricalModel,
    Group,
    MarkovModel,
    NormalGammaModel,
    NormalModel,
    PoissonModel,
    Problem,
)
from ..support import Cache, Floats, InvalidArgument, TooLarge, Unsupported, refuse_over
from .graph import ArmGraph, class_graph, good_graph, state_graph
from .grids import (
    COARSEST,
    FINEST,
    POINTS,
    count_graph,
    good_grid,
    mean_graph,
    normal_graph,
)

EXACT_BYTES, EXACT_WORK = 2 << 30, 2e9  # beyond either, good outcomes are on a grid
GRID_BYTES, GRID_WORK = 1 << 30, 2e9  # what the number of points is chosen by
FEWEST_POINTS, MOST_POINTS = 64, 256  # per row, by default
LARGEST_GRID = 100_000
REACHED = 16.0  # states that one unit may lead to, on average over a grid
LONG = 200  # pulls beyond which lattices have twice as many points: their errors add up
CACHED_GRAPHS = 64


class Grid(NamedTuple):
    """States of a row: of good and bad outcomes all or about `points`, lattices halved by it."""

    points: int = 0
    refine: int = 0

    @property
    def per_row(self) -> int:
        """About how many states a row has that does not have all."""
        return self.points or round(POINTS * 2.0**self.refine)


EXACT = Grid()


def make_graph(model: ArmModel, unit: int, rows: int, grid: Grid) -> ArmGraph:
    """Make the graph of an arm that may take `rows` units: by default a grid of means."""
    match model:
        case BernoulliModel() if grid.points:
            return good_grid(model, unit, rows, grid.points)
        case BernoulliModel():
            return good_graph(model, unit, rows)
        case CategoricalModel():
            return class_graph(model, unit, rows * unit)
        case MarkovModel():
            return state_graph(model, unit, rows * unit, len(model.arrays.names))
        case NormalModel():
            return normal_graph(model, unit, rows, grid.refine)
        case PoissonModel():
            return count_graph(model, unit, rows, grid.refine)
        case NormalGammaModel():
            raise Unsupported(
                "arms of unknown variance have no index and no values of their own: their states "
                "have two dimensions; prices and bounds assume that the variance is known",
                field="prior",
            )
    return mean_graph(model, unit, rows * unit, grid.refine)


_CACHE = Cache[tuple[ArmModel, int, int, Grid], ArmGraph](CACHED_GRAPHS)


def graph_of(model: ArmModel, rows: int, *, unit: int = 1, grid: Grid = EXACT) -> ArmGraph:
    """Return the states of an arm that may take `rows` units; arms of a model share the object."""
    return _CACHE.get_or_make(
        (model, unit, rows, grid), lambda: make_graph(model, unit, rows, grid)
    )


def arm_graph(problem: Problem, group: Group, grid: Grid = EXACT) -> ArmGraph:
    """Return the states of a group's arms."""
    return graph_of(group.model, problem.most_pulls // problem.unit, unit=problem.unit, grid=grid)


def grid_of(problem: Problem, setting: object = None) -> Grid:
    """Return the grid of a problem: `setting` as in `solve`, or chosen by the problem's size.

    Raises ValueError if it needs more memory than available, or more units than can be followed;
    the message names a unit that would fit.
    """
    if not problem.is_binary:
        return _lattices_of(problem, setting)
    if not problem.repeat:
        if setting is not None:
            rule = "only problems with repeat = true have grids; leave it out"
            raise InvalidArgument(f"grid: {rule}", field="grid")
        return EXACT
    if setting is not None and (
        isinstance(setting, bool)
        or not isinstance(setting, int)
        or not (setting == 0 or 3 <= setting <= LARGEST_GRID)
    ):
        raise InvalidArgument(
            f"grid: {setting!r} is not allowed; must be 0 (every state), or 3 to {LARGEST_GRID} "
            "points per row",
            field="grid",
        )
    return _good_grid_of(problem, setting)


def _lattices_of(problem: Problem, setting: object) -> Grid:
    finite = all(group.model.finite for group in problem.groups)
    if setting is None or (setting == 0 and finite):
        refine = int(problem.most_pulls > LONG)
    else:
        low, high = (round(POINTS * 2.0**level) for level in (COARSEST, FINEST))
        if isinstance(setting, bool) or not isinstance(setting, int) or not 1 <= setting <= high:
            raise InvalidArgument(
                f"grid: {setting!r} is not allowed; must be {low} to {high} points per row, where "
                "arms are normal or counts",
                field="grid",
            )
        refine = max(COARSEST, ceil(log2(setting / POINTS)))
    return Grid(refine=refine)


class Batches:
    """Sizes that the cost of a problem of binary batches depends on, in units of some size."""

    def __init__(self, problem: Problem, unit: int) -> None:
        self.kinds, self.horizon = len(problem.groups), problem.horizon
        self.units, self.unit = problem.pulls_per_stage // unit, unit

    def exact(self) -> tuple[float, float]:
        """Bytes and work with every number of good outcomes a state."""
        rows = [self.units * t for t in range(self.horizon + 1)]
        ends = [(n + 1) * (n * self.unit + 2) // 2 for n in rows]  # states of 0 .. n units
        tables = float(sum(ends)) * (self.units + 2) + ends[-1] * float(self.unit + 1)
        done = float(self.units * (self.unit + 1)) * sum(ends[1:])
        return 8.0 * self.kinds * tables, self.kinds * done

    def per_point(self) -> tuple[float, float]:
        """Bytes and work of a grid, for each point of its rows."""
        rows = [self.units * t + 1 for t in range(self.horizon + 1)]
        tables = float(sum(rows)) * (self.units + 2) + rows[-1] * 2.0 * REACHED
        return 8.0 * self.kinds * tables, self.kinds * self.units * REACHED * float(sum(rows))

    def is_small(self) -> bool:
        """Whether exact states are no matter."""
        size, work = self.exact()
        return size <= EXACT_BYTES and work <= EXACT_WORK

    def points(self) -> int:
        """Points of the rows of a grid that is no matter, at most MOST_POINTS."""
        size, work = self.per_point()
        return int(min(GRID_BYTES / size, GRID_WORK / work, MOST_POINTS))

    def __str__(self) -> str:
        kinds = "one kind of arm" if self.kinds == 1 else f"{self.kinds} kinds of arms"
        return f"{self.horizon} batches of {self.units} units for {kinds}"


def exact_bytes(problem: Problem) -> float:
    """Return what units are worth in every state, at all stages."""
    return Batches(problem, problem.unit).exact()[0]


def advice(problem: Problem) -> str:
    """Say what to do with a problem that is too large: the smallest unit that would fit."""
    m = problem.pulls_per_stage
    for unit in (divisor for divisor in range(problem.unit, m + 1) if m % divisor == 0):
        tried = Batches(problem, unit)
        if tried.is_small() or tried.points() >= FEWEST_POINTS:
            larger = unit > problem.unit
            return f"unit = {unit} would fit" if larger else "a grid of states would fit"
    return "use fewer stages or fewer kinds of arms"


def _good_grid_of(problem: Problem, points: int | None) -> Grid:
    batches = Batches(problem, problem.unit)
    if points is None:
        if batches.is_small():
            return EXACT
        with suppress(InvalidArgument):
            check_convex(problem)  # else a grid gives no bounds
            points = batches.points()
        if points is not None and points < FEWEST_POINTS:
            raise TooLarge(
                f"unit: {problem.unit} is too small; {batches} are too many to follow; "
                f"{advice(problem)}",
                field="unit",
            )
    if not points:
        instead = advice(problem) if points is None else f"without grid = 0, {advice(problem)}"
        refuse_over(batches.exact()[0], f"every state of {batches}", instead)
        return EXACT
    check_convex(problem)
    what = f"a grid of {points} points, {batches},"
    refuse_over(points * batches.per_point()[0], what, "use fewer points")
    return Grid(points)


def check_convex(problem: Problem) -> None:
    """Refuse terminal tables that are not convex in the number of good outcomes."""
    for group in problem.groups:
        if group.terminal is None:
            continue
        for n in range(0, problem.most_pulls + 1, problem.unit):
            row = group.terminal[n * (n + 1) // 2 : (n + 1) * (n + 2) // 2]
            if row.size > 2 and np.diff(row, 2).min() < -1e-12 * max(1.0, float(np.abs(row).max())):
                arm = problem.arms[group.members[0]]
                raise InvalidArgument(
                    f"grid: the terminal table of {arm.name} is not convex in good outcomes after "
                    f"{n} pulls, and a grid gives no bound then; use grid 0 and a larger unit",
                    field="grid",
                )


class Rewards:
    """Rewards of the steps of an arm: base + factor * mean, (horizon,); terminal ones by state.

    rise, fall (horizon,): V_{t+1} grows by at most rise[t] per unit of the mean, and by at most
    fall[t] per unit downwards: every policy's reward is linear in a shift of the mean.
    """

    def __init__(self, problem: Problem, group: Group, graph: ArmGraph) -> None:
        T = problem.horizon
        self.units = problem.most_units
        self.per_stage = self.units * graph.steps
        self.base = graph.pulls * group.reward_base[:T]
        self.factor = graph.pulls * group.reward_factor[:T]
        self.deploy = 0.0 if problem.terminal is None else problem.terminal.deploy
        self.rise = self._later(np.maximum(self.per_stage * self.factor, 0.0), self.deploy)
        self.fall = self._later(np.maximum(-self.per_stage * self.factor, 0.0), 0.0)
        self.last = _last_rewards(group, graph)
        low, high = float(graph.mean.min()), float(graph.mean.max())
        able = group.available[:T]
        base, factor = group.reward_base[:T][able], group.reward_factor[:T][able]
        pulls = [np.abs(base + factor * x).max(initial=0.0) for x in (low, high)]
        deployed = self.deploy * max(abs(low), abs(high))
        # the largest reward of a pull in any state, in size
        self.largest = float(max(*pulls, deployed, np.abs(self.last).max()))

    @staticmethod
    def _later(slopes: Floats, last: float) -> Floats:
        return np.asarray(last + np.append(np.cumsum(slopes[:0:-1])[::-1], 0.0))

    def of_stage(self, stage: int) -> tuple[float, float, float, float]:
        """Return base, factor, rise and fall."""
        return (
            float(self.base[stage]),
            float(self.factor[stage]),
            float(self.rise[stage]),
            float(self.fall[stage]),
        )


def _last_rewards(group: Group, graph: ArmGraph) -> Floats:
    """Return terminal rewards, (states,): those of a table, on chords between entries, or 0."""
    if group.terminal is None:
        return np.zeros(graph.size)
    assert graph.good is not None  # tables are of good and bad outcomes
    pulls = np.repeat(np.arange(graph.rows + 1) * graph.pulls, np.diff(graph.start))
    row = pulls * (pulls + 1) // 2
    low = np.minimum(graph.good.astype(np.int64), np.maximum(pulls - 1, 0))
    part = graph.good - low
    entry, after = group.terminal[row + low], group.terminal[row + np.minimum(low + 1, pulls)]
    return np.asarray((1.0 - part) * entry + part * after)
