"""Grids of states for batches that are too large for every number of good outcomes.

V_t(n, .) is convex in g. Let g be any number from 0 to n: the state has the posterior Beta(alpha +
g, beta + n - g), and one pull is good with p(g) = (alpha + g) / (alpha + beta + n), linear in g.
One pull later, E[f](g) = p f(g + 1) + (1 - p) f(g), and for convex f

    E[f]'' = p f''(g + 1) + (1 - p) f''(g) + 2 p' (f'(g + 1) - f'(g)) >= 0.

So a unit keeps convexity; rewards of pulls are linear in g, the deployment's (deploy * mean -
price)^+ is convex, maxima of convex functions are convex. Terminal tables must be convex in every
row: others are refused (`check_convex`).

On a grid, the chances of a unit are moved to states of the next row, their mean kept
(`kernels/batch_grids.py`). Both moves are monotone operators, and for convex f

    below: E_b[f] <= E[f] <= E_a[f] :above.

By induction from the last stage, values computed on the grid *above* are at least V in every state,
at any prices: phi computed with them bounds every policy. This is what chords do: between two
states V is replaced by its chord. Values *below* are at most V at any prices, so the minimum of
phi computed with them is at most min phi, and so is the reward of any flow that spends the units
there are, as it is at most that minimum.

Points of the grid are posterior means, the same in all rows: then a unit leaves the mean of a
state at a state, and narrow chances hardly move. Where f'' has no preferred place the error of
chords is least for a density of points proportional to the cube root of the density of the mean;
of a Beta(alpha, beta) this is a Beta((alpha + 2) / 3, (beta + 2) / 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..problem import Problem
from ..support import Floats, Ints


class Grid(NamedTuple):
    """States of a row: all where `points` is 0, else about so many; values above or below V."""

    points: int
    below: bool = False


EXACT = Grid(0)


def knots_of(alpha: float, beta: float, points: int) -> Floats:
    """Posterior means that are states wherever they are possible, (points,): with the prior's."""
    from scipy.special import betaincinv  # late: most commands do not need scipy

    ranks = (np.arange(points) + 0.5) / points
    knots = betaincinv((alpha + 2.0) / 3.0, (beta + 2.0) / 3.0, ranks)
    mean = alpha / (alpha + beta)
    knots[np.argmin(np.abs(knots - mean))] = mean
    return np.unique(knots)


def rows_of(
    alpha: float, beta: float, unit: int, rows: int, knots: Floats, grid: Grid
) -> tuple[list[Floats], Ints]:
    """Good outcomes of the states of every row, and the knot that the first of them is.

    Above, a row of no more whole numbers than knots has these; others have both ends beside knots.
    """
    first = np.zeros(rows + 1, dtype=np.int64)
    kept = []
    for i in range(rows + 1):
        n = i * unit
        if i == 0 or (n < knots.size and not grid.below):
            kept.append(np.arange(n + 1.0))
            first[i] = np.searchsorted(knots, alpha / (alpha + beta)) if i == 0 else 0
            continue
        good = knots * (alpha + beta + n) - alpha
        inside = (good > 0.0) & (good < n)
        first[i] = int(np.argmax(inside))
        own = good[inside]
        kept.append(own if grid.below else np.concatenate([[0.0], own, [float(n)]]))
    return kept, first


def check_convex(problem: Problem) -> None:
    """A ValueError where a terminal table is not convex in the number of good outcomes."""
    for group in problem.groups:
        if group.terminal is None:
            continue
        for n in range(0, problem.most_pulls + 1, problem.unit):
            row = group.terminal[n * (n + 1) // 2 : (n + 1) * (n + 2) // 2]
            if row.size > 2 and np.diff(row, 2).min() < -1e-12 * max(1.0, float(np.abs(row).max())):
                arm = problem.arms[group.members[0]]
                raise ValueError(
                    f"grid: the terminal table of {arm.name} is not convex in good outcomes after "
                    f"{n} pulls, and a grid gives no bound then; use grid 0 and a larger unit"
                )
