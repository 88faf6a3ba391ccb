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

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...problem import Measured
from ...support import Cache, Floats, refuse_over
from .rows import COARSEST, NONE, NOWHERE, POINTS, ArmRows

CELLS = POINTS * 2.0**COARSEST  # of the longest row, on the coarsest grid
REACH = 4.5  # standard deviations of a row on either side of its middle
STEP_REACH = 7.0  # of a pull
MOST_LOST = 0.3  # of the variance by a contraction, in squares of the spacing
TRIED, SECTIONS = 16, 4  # of contractions at once, and how often their range is narrowed
KEPT = 16  # lattices


def loss(c: Floats, sd: float | Floats) -> Floats:
    """G(c) = E(X - c)^+ of X ~ N(0, sd^2)."""
    from scipy.special import ndtr  # late: scipy takes half a second to load

    z = c / sd
    return np.asarray(sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)))


def chord_law(h: float, sd: float, reach: int) -> Floats:
    """Chances of the points 0 .. reach; of what lies there or beyond; and how far beyond."""
    G = loss(h * np.arange(-1.0, reach + 2.0), sd)
    inner = np.maximum((G[:-2] - 2.0 * G[1:-1] + G[2:]) / h, 0.0)
    return np.concatenate([inner, (G[:-2] - G[1:-1]) / h, G[1:-1]])


def contracted_sd(h: float, sd: float, reach: int) -> float:
    """The largest s whose chord law is below N(0, sd^2) in convex order; 0 where there is none."""
    from scipy.special import ndtri

    left = h * np.arange(reach + 1)
    found, high = float(np.sqrt(max(sd**2 - MOST_LOST * h * h, 0.0))), sd
    sure = found == 0.0
    for _ in range(SECTIONS):
        tried = np.linspace(found, high, TRIED + 1)[1:]
        G = loss(np.append(left, left[-1] + h), tried[:, None])
        slope = np.diff(G) / h
        # the chord of a cell comes closest to the curve where the slopes agree
        at = np.clip(sd * ndtri(np.clip(1.0 + slope, 0.0, 1.0)), left, left + h)
        below = np.flatnonzero(np.all(G[:, :-1] + slope * (at - left) <= loss(at, sd), axis=1))
        best = int(below[-1]) if below.size else -1
        if best + 1 < TRIED:
            high = float(tried[best + 1])
        if best >= 0:
            found, sure = float(tried[best]), True
    return found if sure else 0.0


def contracted_law(h: float, sd: float, reach: int) -> Floats:
    """As `chord_law`, of the contraction: nothing lies beyond, what is cut is at the end."""
    s = contracted_sd(h, sd, reach)
    if s == 0.0:
        return np.array([0.0, 0.5, 0.0])  # stays where it is
    law = chord_law(h, s, reach)
    law[2 * (reach + 1) :] = 0.0
    return law


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
    sizes = 2 * half + 1
    refuse_over(
        16.0 * float(sizes.sum()),
        f"a grid for {rows} pulls of a normal arm",
        "use fewer stages, or a coarser grid",
    )

    def locate(stats: Floats) -> Floats:
        n = stats[..., 0].astype(np.int64)
        return np.asarray(stats[..., 1] / (of_prior + stats[..., 0]) / h + half[n])

    def with_laws(laws: Sequence[Floats], even: bool) -> ArmRows:
        ends = np.cumsum([law.size for law in laws])
        return ArmRows(
            start=np.concatenate([[0], np.cumsum(sizes)]),
            mean=h * np.concatenate([np.arange(-a, a + 1) for a in half]),
            width=np.array([law.size // 3 for law in laws]),
            at=np.concatenate([[0], ends])[:-1], weights=np.concatenate(laws), first=NONE,
            links=NONE, up=NOWHERE, down=NOWHERE, exact=False, locate=locate, even=even,
        )  # fmt: skip

    spread = [chord_law(h, float(sd), int(r)) for sd, r in zip(step_sd, reach, strict=True)]

    def contract() -> ArmRows:
        pairs = zip(step_sd, reach, strict=True)
        return with_laws([contracted_law(h, float(sd), int(r)) for sd, r in pairs], even=True)

    return replace(with_laws(spread, even=False), contract=contract)
