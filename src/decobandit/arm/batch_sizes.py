"""How much work a problem of batches is, and so whether its states are exact or on a grid.

Bytes are those of a market: what units are worth in every state, at all stages. Work counts the
multiplications of a pass backward.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..problem import Problem
from ..support import refuse_over
from .batch_grids import EXACT, Grid, check_convex

EXACT_BYTES, EXACT_WORK = 2 << 30, 2e9  # beyond either, states are on a grid
GRID_BYTES, GRID_WORK = 1 << 30, 2e9  # what the number of points is chosen by
FEWEST_POINTS, MOST_POINTS = 64, 256  # per row, where nobody says how many
LARGEST_GRID = 100_000
REACHED = 16.0  # states that one unit may lead to, on average over a grid


def states_of_rows(unit: int, rows: int) -> int:
    """States with at most `rows` units, every number of good outcomes counted."""
    return (rows + 1) * (rows * unit + 2) // 2


@dataclass(frozen=True)
class Batches:
    """What the cost of a problem depends on."""

    kinds: int
    horizon: int
    units: int
    unit: int

    def exact(self) -> tuple[float, float]:
        """Bytes and work with every number of good outcomes a state."""
        ends = [states_of_rows(self.unit, self.units * t) for t in range(self.horizon + 1)]
        kept = float(sum(ends)) * (self.units + 2) + ends[-1] * float(self.unit + 1)
        done = float(self.units * (self.unit + 1)) * sum(ends[1:])
        return 8.0 * self.kinds * kept, self.kinds * done

    def per_point(self) -> tuple[float, float]:
        """Bytes and work of a grid, for each point of its rows."""
        rows = [self.units * t + 1 for t in range(self.horizon + 1)]
        kept = float(sum(rows)) * (self.units + 2) + rows[-1] * 2.0 * REACHED
        return 8.0 * self.kinds * kept, self.kinds * self.units * REACHED * float(sum(rows))

    def is_small(self) -> bool:
        """Whether exact states are no matter."""
        size, work = self.exact()
        return size <= EXACT_BYTES and work <= EXACT_WORK

    def points(self) -> int:
        """Points of the rows of a grid that is no matter, at most MOST_POINTS."""
        size, work = self.per_point()
        return int(min(GRID_BYTES / size, GRID_WORK / work, MOST_POINTS))


def _batches(problem: Problem, unit: int) -> Batches:
    units = problem.pulls_per_stage // unit
    return Batches(len(problem.groups), problem.horizon, units, unit)


def exact_bytes(problem: Problem) -> float:
    """Of what units are worth in every state, at all stages."""
    return _batches(problem, problem.unit).exact()[0]


def _unit_that_fits(problem: Problem) -> int | None:
    """The smallest unit, not below that of the problem, with which it can be solved."""
    m = problem.pulls_per_stage
    for unit in (each for each in range(problem.unit, m + 1) if m % each == 0):
        tried = _batches(problem, unit)
        if tried.is_small() or tried.points() >= FEWEST_POINTS:
            return unit
    return None


def advice(problem: Problem) -> str:
    """What to do with a problem that is too large."""
    unit = _unit_that_fits(problem)
    if unit is None:
        return "use fewer stages or fewer kinds of arms"
    return f"unit = {unit} would fit" if unit > problem.unit else "a grid of states would fit"


def grid_of(problem: Problem, points: int | None = None) -> Grid:
    """The grid of a problem of batches: of `points`, 0 for every state, or as its size asks for.

    A ValueError where it needs more memory than there is, or more units than can be followed; it
    names a unit that would fit.
    """
    batches = _batches(problem, problem.unit)
    if points is None and batches.is_small():
        return EXACT
    if points is None and _has_chords(problem):
        fitting = batches.points()
        if fitting < FEWEST_POINTS:
            raise ValueError(
                f"unit: {problem.unit} is too small; {_sized(batches)} are too many to follow; "
                f"{advice(problem)}"
            )
        points = fitting
    if not points:
        what = f"every state of {_sized(batches)}"
        instead = advice(problem) if points is None else f"without grid = 0, {advice(problem)}"
        refuse_over(batches.exact()[0], what, instead)
        return EXACT
    check_convex(problem)
    what = f"a grid of {points} points, {_sized(batches)},"
    refuse_over(points * batches.per_point()[0], what, "use fewer points")
    return Grid(points)


def _sized(batches: Batches) -> str:
    kinds = "one kind of arm" if batches.kinds == 1 else f"{batches.kinds} kinds of arms"
    return f"{batches.horizon} batches of {batches.units} units for {kinds}"


def _has_chords(problem: Problem) -> bool:
    """Whether values are convex, so that a grid gives bounds."""
    try:
        check_convex(problem)
    except ValueError:
        return False
    return True


def check_points(grid: object, problem: Problem) -> int | None:
    """A setting `grid` that is allowed: None, 0, or points per row."""
    if grid is None:
        return None
    if not problem.repeat:
        raise ValueError("grid: only problems with repeat = true have grids; leave it out")
    if (
        isinstance(grid, bool)
        or not isinstance(grid, int)
        or not (grid == 0 or 3 <= grid <= LARGEST_GRID)
    ):
        raise ValueError(
            f"grid: {grid!r} is not allowed; must be 0 (every state), or 3 to {LARGEST_GRID} "
            "points per row"
        )
    return grid
