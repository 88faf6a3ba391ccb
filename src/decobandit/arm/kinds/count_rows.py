"""Rows of arms with Poisson counts: the sum of the counts so far, on a grid of whole numbers.

V is convex in the sum: with r larger by one, the next count is larger by an independent one, so
E[V(sum + count)] has a second difference E[V(y + z + z') - V(y + z) - V(y + z') + V(y)] >= 0. So
chords bound it from above. A row ends where sums seldom lead; there V continues as a line of its
largest slope. Points are one apart where that is no more than about 2,000 to a row, else 2, 4, ...

The contraction, where points are one apart: of the sums after a pull, those beyond the end e count
as e, and the smallest ones as one larger, so that the mean is kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...problem import Counted
from ...support import Floats, refuse_over
from ..kernels.counts import count_reach, count_weights
from .rows import COARSEST, NONE, ArmRows

CELLS = 2048  # of the longest row, at most
TAIL = 1e-7  # chance of a sum beyond the end of its row
ROOM = 1 << 12  # counts that the next one may be, at first


def count_rows(kind: Counted, rows: int, refine: int) -> ArmRows:
    """Rows 0 .. `rows`; grids with 2^refine times as many points."""
    coarse, tops = _ends(kind, rows)
    step = np.maximum(coarse / 2.0 ** (refine - COARSEST), 1.0).astype(np.int64)
    step[tops <= CELLS * 2.0**refine] = 1  # few sums: coarser ones would merge single counts
    last = (tops / step).astype(np.int64)  # number of the last point
    sizes = last + 1
    start = np.concatenate([[0], np.cumsum(sizes)])
    first, up = np.zeros(start[-1], np.int64), np.zeros(start[-1])
    width, weights = np.ones(rows + 1, np.int64), []
    room = ROOM
    for n in range(rows):
        own = (kind.shape, kind.rate, n, int(step[n]), int(sizes[n]), int(step[n + 1]))
        while (wide := count_reach(*own, room)) == 0:
            room *= 4
            refuse_over(8.0 * room, "the law of a count", "use smaller counts")
        width[n] = wide = min(wide, int(sizes[n + 1]))
        part = np.zeros((sizes[n], wide))
        refuse_over(
            8.0 * part.size * (rows - n), f"a grid for {rows} pulls of counts", "use fewer stages"
        )
        row = slice(start[n], start[n + 1])
        count_weights(*own, int(last[n + 1]), wide, room, first[row], part, up[row])
        weights.append(part.ravel())
    weights.append(np.zeros(sizes[-1]))
    pulls = np.repeat(np.arange(rows + 1.0), sizes)
    sums = np.concatenate([s * np.arange(size) for s, size in zip(step, sizes, strict=True)])
    made = ArmRows(
        start=start, mean=(kind.shape + sums) / (kind.rate + pulls), width=width,
        at=np.concatenate([[0], np.cumsum(sizes * width)])[:-1], weights=np.concatenate(weights),
        first=first, links=NONE, up=up, down=np.zeros(up.size), exact=False,
        locate=lambda stats: stats[..., 1] / step[stats[..., 0].astype(np.int64)],
    )  # fmt: skip
    exact = step.max() == 1
    return replace(made, contract=lambda: _contracted(kind, made)) if exact else made


def _ends(kind: Counted, rows: int) -> tuple[Floats, Floats]:
    """Spacing of the coarsest grid and the last sum, a multiple of it, of every row."""
    from scipy.stats import nbinom  # late: scipy takes half a second to load

    pulls = np.arange(1.0, rows + 1.0)
    seldom = nbinom.isf(TAIL, kind.shape, kind.rate / (kind.rate + pulls)) + 1.0
    tops = np.concatenate([[0.0], seldom])
    coarse = 2.0 ** (np.ceil(np.log2(np.maximum(tops / CELLS, 1.0))) - COARSEST)
    for n in range(rows):  # what the last sum of a row is expected to lead to is in the next row
        expected = tops[n] + (kind.shape + tops[n]) / (kind.rate + n)
        tops[n + 1] = np.ceil(max(tops[n + 1], expected) / coarse[n + 1]) * coarse[n + 1]
    return coarse, tops


def _contracted(kind: Counted, made: ArmRows) -> ArmRows:
    """Rows whose chances are below the true ones in convex order, with the same mean."""
    weights = made.weights.copy()
    for n in range(made.rows):
        low, high, wide = made.start[n], made.start[n + 1], int(made.width[n])
        begin = made.at[n]
        part = weights[begin : begin + (high - low) * wide].reshape(-1, wide)
        missing = made.up[low:high] * (kind.rate + n + 1.0)  # of the mean of the sum
        for j in range(wide - 1):
            moved = np.minimum(part[:, j], missing)
            part[:, j] -= moved
            part[:, j + 1] += moved
            missing = missing - moved
    return replace(made, weights=weights, up=np.zeros(made.up.size))
