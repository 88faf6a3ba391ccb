"""The markets of a problem: the one that is solved, and on grids the one that bounds from below.

On a grid the dual function is too large (chords): its values are upper bounds as ever, but the
reward of a cleared flow there bounds the minimum *on the grid* from below, not the true one. The
true one is bounded by flows of a market whose values are below: on a contraction of the grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import ceil, log2

from ..arm import COARSEST, FINEST, POINTS, Grid, arm_rows, check_points, grid_of
from ..problem import Problem, arms_of, thinned, unit_pulls
from ..support import Floats, refuse_over
from .batch_market import BatchMarket, unit_market
from .market import Market
from .row_traders import row_market
from .search import Search, rounds, start_prices, stretch

BYTES_PER_ROW_PAIR = 60.0  # slabs, rows of bands and scratch, per kind of arms and stage squared
COARSE_TOLERANCE = 3e-4  # at which searches on coarser grids end
COARSER = 3  # times that points are doubled from one of them to the next
LONG = 200  # pulls beyond which usual grids have twice as many points: their errors add up
COARSE_CALLS = 15  # of each: where points are few, ties keep rounds from an end
FEWEST_STAGES = 25  # of the smallest problem that the search starts from
FEWER_TOLERANCE = 1e-3  # at which searches on fewer stages end


class Markets(ABC):
    """The markets of one problem; points: states per row of its grids, 0 where all are states."""

    points = 0

    def __init__(self, problem: Problem, workers: int) -> None:
        self.problem, self.workers = problem, workers

    @abstractmethod
    def above(self) -> Market | BatchMarket:
        """The market that is solved: its dual function is an upper bound."""

    def below(self) -> BatchMarket | None:
        """On a grid, a market whose values are lower bounds; None where there is none."""
        return None

    def start(self, search: Search, most_calls: int) -> Floats:
        """Prices to begin with."""
        return start_prices(search, self.problem.horizon, most_calls)


class _Single(Markets):
    """Good and bad outcomes, single pulls."""

    def above(self) -> Market:
        kinds, stages = len(self.problem.groups), self.problem.stages
        refuse_over(
            BYTES_PER_ROW_PAIR * kinds * stages**2,
            f"solving {kinds} kinds of arms over {stages} stages",
            "use fewer kinds of arms, batches (repeat, unit) or a shorter horizon",
        )
        return Market(arms_of(self.problem), self.problem.pulls, workers=self.workers)


class _Batches(Markets):
    """Good and bad outcomes, in batches."""

    def __init__(self, problem: Problem, workers: int, grid: int | None) -> None:
        super().__init__(problem, workers)
        self._grid = grid_of(problem, grid)
        self.points = self._grid.points

    def above(self) -> BatchMarket:
        return unit_market(self.problem, self._grid, workers=self.workers)

    def below(self) -> BatchMarket:
        return unit_market(self.problem, Grid(self.points, below=True), workers=self.workers)


class _Kinds(Markets):
    """Arms of any kind."""

    def __init__(self, problem: Problem, workers: int, refine: int) -> None:
        super().__init__(unit_pulls(problem), workers)
        self._refine = refine
        if not all(group.model.finite for group in problem.groups):
            self.points = round(POINTS * 2.0**refine)

    def above(self) -> BatchMarket:
        return row_market(self.problem, refine=self._refine, workers=self.workers)

    def below(self) -> BatchMarket | None:
        most = self.problem.most_pulls
        rows = (arm_rows(group.model, most, self._refine) for group in self.problem.groups)
        if any(each.lower is None for each in rows):
            return None
        return row_market(self.problem, refine=self._refine, below=True, workers=self.workers)

    def start(self, search: Search, most_calls: int) -> Floats:
        """From fewer stages and coarser grids, where there are some."""
        found: tuple[int, Floats] | None = None
        for problem, refine, tol in self._levels():
            market = row_market(problem, refine=refine, workers=self.workers)
            level = Search(market, search.note, search.calls)
            regular = problem.horizon
            if found is None:
                first = start_prices(level, regular, most_calls)
            else:
                first = stretch(found[1], found[0], regular)
            rounds(level, first, tol, min(most_calls, search.calls + COARSE_CALLS))
            search.calls_before += market.calls
            found = regular, level.prices
        if found is None:
            return super().start(search, most_calls)
        return stretch(found[1], found[0], self.problem.horizon)

    def _levels(self) -> Iterator[tuple[Problem, int, float]]:
        """Problems, grids and tolerances of the searches before, each the start of the next."""
        problem, own = self.problem, self._refine if self.points else COARSEST
        if not problem.repeat and all(group.terminal is None for group in problem.groups):
            sizes = [problem.horizon]
            while sizes[-1] > FEWEST_STAGES:
                sizes.append(sizes[-1] // 2)
            for number in sizes[:0:-1]:
                yield thinned(problem, number), COARSEST, FEWER_TOLERANCE
        for refine in range(COARSEST, own, COARSER):
            yield problem, refine, COARSE_TOLERANCE


def markets_of(problem: Problem, grid: int | None, workers: int) -> Markets:
    """The markets of a problem; `grid` as of `solve`."""
    if not problem.is_binary:
        return _Kinds(problem, workers, _refine_of(problem, grid))
    points = check_points(grid, problem)
    return _Batches(problem, workers, points) if problem.repeat else _Single(problem, workers)


def _refine_of(problem: Problem, grid: object) -> int:
    """How often the usual grid is halved for at least so many points to a row."""
    if grid is None or (grid == 0 and all(group.model.finite for group in problem.groups)):
        return int(problem.most_pulls > LONG)
    low, high = (round(POINTS * 2.0**level) for level in (COARSEST, FINEST))
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= high:
        raise ValueError(
            f"grid: {grid!r} is not allowed; must be {low} to {high} points per row, where arms "
            "are normal or counts"
        )
    return max(COARSEST, ceil(log2(grid / POINTS)))
