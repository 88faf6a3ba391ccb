"""Rows of normal arms: posterior means on one lattice, with spacing h, for all numbers of pulls.

After n pulls the variance that is left is v_n = noise^2 / (k + n), k = noise^2 / sd^2; the mean has
moved from the prior's by N(0, sd^2 - v_n), and the next pull moves it by X, N(0, v_n - v_{n+1}).
With G(c) = E(X - c)^+ the hat of the point j h of the lattice is, in expectation,

    w_j = (G((j-1) h) - 2 G(j h) + G((j+1) h)) / h                        (chords)

a law on the lattice that is larger than that of X in convex order. At the ends of a row, and K h
from the mean, what lies beyond counts as at the end, and G of the end is how far beyond.

The contraction is the chord law of N(0, s^2), s as large as chords of its G stay below G: then it
is smaller in convex order than X. It is cut symmetrically where the row ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...problem import Measured
from ...support import Cache, Floats, Ints, refuse_over
from .rows import COARSEST, NONE, POINTS, ArmRows

CELLS = POINTS * 2.0**COARSEST  # of the longest row, on the coarsest grid
REACH = 4.5  # standard deviations of a row on either side of its middle
STEP_REACH = 7.0  # of a pull
BISECTIONS = 45
KEPT = 16  # lattices


def loss(c: Floats, sd: float) -> Floats:
    """G(c) = E(X - c)^+ of X ~ N(0, sd^2)."""
    from scipy.special import ndtr  # late: scipy takes half a second to load

    z = c / sd
    return np.asarray(sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)))


def chord_law(h: float, sd: float, most: int) -> tuple[Floats, Floats]:
    """Chances of the points -most .. most; and of 0 .. most where the lattice ends there."""
    G = loss(h * np.arange(-1.0, most + 2.0), sd)
    inner = (G[:-2] - 2.0 * G[1:-1] + G[2:]) / h
    return np.maximum(np.concatenate([inner[:0:-1], inner]), 0.0), (G[:-2] - G[1:-1]) / h


def contracted_sd(h: float, sd: float, most: int) -> float:
    """The largest s whose chord law is below N(0, sd^2) in convex order; 0 where there is none."""
    from scipy.special import ndtri

    left = h * np.arange(most + 1)

    def below(s: float) -> bool:
        G = loss(np.append(left, left[-1] + h), s)
        slope = np.diff(G) / h
        # the chord of a cell comes closest to the curve where the slopes agree
        at = np.clip(sd * ndtri(np.clip(1.0 + slope, 0.0, 1.0)), left, left + h)
        return bool(np.all(G[:-1] + slope * (at - left) <= loss(at, sd)))

    low, high = 0.0, sd
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def normal_rows(kind: Measured, rows: int, refine: int) -> ArmRows:
    """Rows 0 .. `rows`, on a lattice of about 512 * 2^refine points."""
    sd, noise, m0 = kind.prior_sd, kind.noise_sd, kind.prior_mean
    made = _CACHE.get_or_make((sd, noise, rows, refine), lambda: _lattice(sd, noise, rows, refine))

    def shifted(own: ArmRows) -> ArmRows:
        return replace(own, mean=m0 + own.mean, locate=locate)

    def locate(stats: Floats) -> Floats:
        # of an arm whose prior mean is 0: sums less what the mean adds to them
        moved = np.stack([stats[..., 0], stats[..., 1] - m0 * stats[..., 0]], axis=-1)
        return made.locate(moved)

    def contract() -> ArmRows:
        narrow = made.lower
        assert narrow is not None
        return shifted(narrow)

    return replace(shifted(made), contract=contract)


_CACHE = Cache[tuple[float, float, int, int], ArmRows](KEPT)


def _lattice(prior_sd: float, noise_sd: float, rows: int, refine: int) -> ArmRows:
    """Rows of an arm whose prior mean is 0."""
    finer = 2.0 ** (refine - COARSEST)
    of_prior = (noise_sd / prior_sd) ** 2
    pulls = np.arange(rows + 2.0)
    left_over = noise_sd**2 / (of_prior + pulls)
    step_sd = np.sqrt(left_over[:-1] * left_over[1:]) / noise_sd
    row_sd = prior_sd * np.sqrt(pulls[:-1] / (of_prior + pulls[:-1]))
    h = 2.0 * REACH * max(row_sd[-1], 1e-300) / CELLS
    half = (np.ceil(REACH * row_sd / h - 1e-9) * finer).astype(np.int64)
    reach = (np.maximum(np.ceil(STEP_REACH * step_sd / h), 1.0) * finer).astype(np.int64)
    h = h / finer
    width = np.append(np.minimum(2 * reach[:-1], 2 * half[1:]) + 1, 1)
    sizes = 2 * half + 1
    refuse_over(
        16.0 * float((sizes * width).sum()),
        f"a grid for {rows} pulls of a normal arm",
        "use fewer stages, or a coarser grid",
    )

    def locate(stats: Floats) -> Floats:
        n = stats[..., 0].astype(np.int64)
        return np.asarray(stats[..., 1] / (of_prior + stats[..., 0]) / h + half[n])

    first, weights, up, down = _linked(half, reach, width, h, step_sd, contract=False)
    spread = ArmRows(
        start=np.concatenate([[0], np.cumsum(sizes)]),
        mean=h * np.concatenate([np.arange(-a, a + 1) for a in half]), width=width,
        at=np.concatenate([[0], np.cumsum(sizes * width)])[:-1], weights=weights, first=first,
        links=NONE, up=up, down=down, exact=False, locate=locate,
    )  # fmt: skip

    def contract() -> ArmRows:
        _, inner, _, _ = _linked(half, reach, width, h, step_sd, contract=True)
        none = np.zeros(up.size)
        return replace(spread, weights=inner, up=none, down=none)

    return replace(spread, contract=contract)


def _linked(
    half: Ints, reach: Ints, width: Ints, h: float, step_sd: Floats, *, contract: bool
) -> tuple[Ints, Floats, Floats, Floats]:
    """First successors, weights, and what lies beyond either end, of all states."""
    parts = [_row(half, reach, width, h, step_sd, n, contract) for n in range(half.size - 1)]
    last = 2 * int(half[-1]) + 1
    parts.append((np.zeros(last, np.int64), np.zeros(last), np.zeros(last), np.zeros(last)))
    first, weights, up, down = (np.concatenate(each) for each in zip(*parts, strict=True))
    return first, weights, up, down


def _row(
    half: Ints, reach: Ints, width: Ints, h: float, step_sd: Floats, n: int, contract: bool
) -> tuple[Ints, Floats, Floats, Floats]:
    a, b, wide = int(half[n]), int(half[n + 1]), int(width[n])
    most = a + b + 1
    sd = float(step_sd[n])
    own = np.arange(-a, a + 1)[:, None]
    begin = np.clip(own - reach[n], -b, b - (wide - 1))
    offset = begin + np.arange(wide) - own  # of the successors, in steps of the lattice
    below, above = -offset[:, 0], offset[:, -1]
    if not contract:
        inner, end = chord_law(h, sd, most)
        weights = inner[offset + most]
        weights[:, 0], weights[:, -1] = end[below], end[above]
        beyond = loss(h * np.arange(most + 1.0), sd)
        return (begin + b)[:, 0], weights.ravel(), beyond[above], beyond[below]
    none = np.zeros(own.size)
    s = contracted_sd(h, sd, int(reach[n]))
    if s == 0.0:
        return (begin + b)[:, 0], (offset == 0).astype(float).ravel(), none, none
    inner, end = chord_law(h, s, most)
    cut = np.minimum(np.minimum(below, above), reach[n])[:, None]
    away = np.abs(offset)
    weights = np.where(away < cut, inner[offset + most], np.where(away == cut, end[away], 0.0))
    weights[(cut == 0)[:, 0]] = offset[(cut == 0)[:, 0]] == 0
    return (begin + b)[:, 0], weights.ravel(), none, none
