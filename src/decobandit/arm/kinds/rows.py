"""The states of an arm in rows, one row per number of pulls, and what a pull does to them.

Exact where there are finitely many states. Where there are more, a row is a grid of posterior
means. V is convex in the mean, so values between two points of the grid are at most those on the
chord: with chances that spread what happens between two points to both, V on the grid is an *upper*
bound of V. Its companion `lower` has chances that are a contraction of the true ones, with the same
mean and smaller in convex order: there V is a lower bound, and so is the reward of any flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support import Floats, Ints

POINTS = 512  # of the longest rows of a grid, about, where nothing else is asked for
COARSEST, FINEST = -3, 6  # how often grids may be halved; points of a grid are points of finer ones
NONE = np.empty(0, dtype=np.int64)
NOWHERE = np.empty(0)


@dataclass(frozen=True, eq=False)
class ArmRows:
    """Arrays as in `kernels/rows.py`."""

    start: Ints  # (rows + 2,)
    mean: Floats  # (states,) expected value of the next outcome
    width: Ints  # (rows + 1,) successors of a state
    at: Ints  # (rows + 1,) where the weights of a row begin
    weights: Floats
    first: Ints  # (states,), or empty
    links: Ints  # as the weights, or empty; both empty: a law for every row
    up: Floats  # (states,), or empty where there are laws
    down: Floats  # as up
    exact: bool
    locate: Callable[[Floats], Floats]  # statistics (..., width) -> number in the row, (...)
    contract: Callable[[], ArmRows] | None = None  # of a grid: its contraction
    even: bool = False  # of laws: both sides are cut where the nearer end is

    @cached_property
    def lower(self) -> ArmRows | None:
        """Rows on which values are lower bounds: these where they are exact; None: no such rows."""
        if self.exact:
            return self
        return None if self.contract is None else self.contract()

    @property
    def rows(self) -> int:
        """Pulls that the arm may take."""
        return self.start.size - 2

    @property
    def size(self) -> int:
        """Number of states."""
        return int(self.start[-1])

    @property
    def widest(self) -> int:
        """States of the largest row."""
        return int(np.diff(self.start).max())

    @property
    def arrays(self) -> tuple[Floats | Ints | bool, ...]:
        """What kernels take, but for the ends of grids."""
        return (
            self.start, self.mean, self.width, self.at, self.weights, self.first, self.links,
            self.even,
        )  # fmt: skip
