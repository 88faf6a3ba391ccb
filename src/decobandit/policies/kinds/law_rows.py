"""Distribution functions of bounded means on points that all states share, kept by state.

Trials of a design meet the same states of arms again and again, in looks, scenarios and policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from ...problem import Kind
from ...support import Floats

PER_ROOT = 32.0  # points, times the root of all pulls: some 16 to the sharpest deviation
FEWEST, MOST = 128, 4096
KEPT = 6_000_000  # numbers of all rows of a kind, in 48 MB; beyond, they are begun anew


def common_grid(kinds: Sequence[Kind], base: Floats, factor: Floats, pulls: int) -> Floats:
    """Evenly spaced points over all of base + factor times a mean, (M,), M odd.

    Fine enough for so many pulls of every arm.
    """
    parts = zip(kinds, base, factor, strict=True)
    ends = np.array([np.sort(b + f * np.array(kind.mean_range)) for kind, b, f in parts])
    low, high = ends.min(), ends.max()
    each = [sqrt(pulls + (kind.prior_pulls or 0.0)) for kind in kinds]
    finest = max(n / (to - at) for n, (at, to) in zip(each, ends, strict=True))
    number = ceil(PER_ROOT * (high - low) * finest)
    return np.linspace(low, high, 2 * (min(max(number, FEWEST), MOST) // 2) + 1)


def smooth_integral(values: Floats, below: Floats) -> Floats:
    """Of values over a distribution function, (E, M) each, on evenly spaced points.

    The trapezoidal rule of all points and of every other one, extrapolated.
    """
    fine, coarse = trapezoidal(values, below), trapezoidal(values[:, ::2], below[:, ::2])
    return np.asarray(np.clip((4.0 * fine - coarse) / 3.0, 0.0, 1.0))


def trapezoidal(values: Floats, below: Floats) -> Floats:
    """Of values over a distribution function, both (E, M)."""
    middle = 0.5 * (values[:, 1:] + values[:, :-1])
    return np.asarray((middle * np.diff(below, axis=1)).sum(axis=1))


class LawRows:
    """Of one kind of arm."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._kept: dict[tuple[bytes, bytes], Floats] = {}

    def below(self, stats: Floats, points: Floats) -> Floats:
        """Chance that the mean is at most each of the points: (E, width), (M,) -> (E, M)."""
        states, place = np.unique(stats, axis=0, return_inverse=True)
        grid, kept = points.tobytes(), self._kept
        keys = [(grid, state.tobytes()) for state in states]
        new = [i for i, key in enumerate(keys) if key not in kept]
        if new:
            if (len(kept) + len(new)) * points.size > KEPT:
                kept = self._kept = {}
                new = list(range(len(keys)))
            for i, row in zip(new, self.kind.cdf(states[new][:, None, :], points), strict=True):
                kept[keys[i]] = row
        rows = np.stack([kept[key] for key in keys])
        return np.asarray(rows[place.reshape(-1)])


@lru_cache(maxsize=8)
def law_rows(kind: Kind) -> LawRows:
    """The rows of a kind, for all who ask."""
    return LawRows(kind)
