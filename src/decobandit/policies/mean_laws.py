"""Laws of the mean of an arm, as tables that are kept by state or by formula.

Knots are added between two knots until the cubic between them is right in their middle, and no two
hold much probability, or are neighbouring numbers. Near the ends of the means and the values of
classes, where laws of small weights are steep, knots are spaced by powers.

`mean_cdf`, for information-directed sampling: the law at many points after every outcome of a pull,
by formula where there is one, else by tables.

Notations
    N, P      states, knots of all of them
    E, J, M   states, outcomes of a pull, points
    stats     (N, width) or (E, ..., width), as the outcome model has them
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..problem import ArmModel
from ..support import Floats, Ints
from .kernels.comparison import table_values

FIRST_SCORES = np.linspace(-8.0, 8.0, 33)  # knots, before more are added
POWERS = 10.0 ** -np.array([1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0])
TOLERANCE = 1e-6  # of a distribution function between two knots
MAX_MASS = 1.0 / 32.0  # between two knots
TAIL = 1e-10  # probability beyond the last knot of an unbounded law
MAX_ROUNDS = 60
MAX_KNOTS = 2_000_000  # of all tables of a model, 48 MB; beyond, tables are computed again


Table = tuple[Floats, Floats, Floats]  # knots, values and slopes of a distribution function
Tables = tuple[Floats, Floats, Floats, Ints]  # x, f, m and start of `kernels.comparison`


def joined(parts: list[Table]) -> Tables:
    """Join tables, table after table; there may be none."""
    start = np.cumsum([0, *(part[0].size for part in parts)])
    x, f, m = (np.concatenate([np.empty(0), *(part[i] for part in parts)]) for i in range(3))
    return x, f, m, start


class LawTables:
    """Tables of the law of the mean of one outcome model, kept by state."""

    def __init__(self, model: ArmModel) -> None:
        self.model = model
        least, most = model.mean_range
        corners = {*getattr(model, "values", ()), least, most}
        self._corners = np.array(sorted(c for c in corners if np.isfinite(c)))
        self._kept: dict[bytes, Table] = {}
        self._knots = 0

    def of(self, stats: Floats) -> list[Table]:
        """Knots, values and slopes in each state."""
        if (tables := self.model.law_knots(stats)) is not None:
            return tables
        cache, keys = self._kept, [state.tobytes() for state in stats]
        new = [i for i, key in enumerate(keys) if key not in cache]
        if new:
            if self._knots > MAX_KNOTS:
                cache, new, self._knots = {}, list(range(len(keys))), 0
            tables = self._compute(stats[new])
            cache = cache | {keys[i]: table for i, table in zip(new, tables, strict=True)}
            self._knots += sum(table[0].size for table in tables)
            self._kept = cache
        return [cache[key] for key in keys]

    def _compute(self, stats: Floats) -> list[Table]:
        least, most = self.model.mean_range
        if least == most:  # a step, as steep as numbers allow
            step = np.array([np.nextafter(least, -np.inf), least])
            return [(step, np.array([0.0, 1.0]), np.zeros(2))] * len(stats)
        row, x = self._first_knots(stats)
        f = self._below(stats, row, x)
        check = np.append(row[1:] == row[:-1], False)  # the interval after a knot
        for _ in range(MAX_ROUNDS):
            i = np.flatnonzero(check)
            mass = f[i + 1] - f[i]
            i = i[mass > TOLERANCE]
            middle = self._middles(x[i], x[i + 1])
            inside = (middle > x[i]) & (middle < x[i + 1])
            i, middle = i[inside], middle[inside]
            if not i.size:
                break
            below = self._below(stats, row[i], middle)
            off = np.abs(below - _cubic(x, f, slopes(row, x, f), i, middle)) > TOLERANCE
            again = off | (f[i + 1] - f[i] > MAX_MASS)
            check[:] = False
            check[i] = again
            row, x, f, check = (
                np.insert(old, i + 1, more)
                for old, more in ((row, row[i]), (x, middle), (f, below), (check, again))
            )
        f = np.maximum.accumulate(f + row) - row  # rounding must not let it fall
        parts, cuts = (x, f, slopes(row, x, f)), np.flatnonzero(np.diff(row)) + 1
        return list(zip(*(np.split(part, cuts) for part in parts), strict=True))

    def _below(self, stats: Floats, row: Ints, x: Floats) -> Floats:
        """Return the distribution function: 0 at the smallest mean, 1 at the largest."""
        below = self.model.cdf(stats[row], x)
        return np.asarray(np.where(x <= self.model.mean_range[0], 0.0, below))

    def _first_knots(self, stats: Floats) -> tuple[Ints, Floats]:
        """Rows and knots, sorted and different."""
        model, (least, most) = self.model, self.model.mean_range
        mean, sd = model.mean(stats), model.sd(stats)
        far = mean + FIRST_SCORES[-1] * sd
        while most == np.inf and (short := 1.0 - model.cdf(stats, far) > TAIL).any():
            far = np.where(short, mean + 2.0 * (far - mean), far)
        scores = mean[:, None] + sd[:, None] * FIRST_SCORES
        scale = np.ptp(self._corners) if np.isfinite(most) else np.abs(mean) + sd
        away = np.broadcast_to(scale, mean.shape)[:, None] * POWERS
        parts = [scores, far[:, None]]
        for corner in self._corners:
            parts += [np.full((len(mean), 1), corner), corner + away, corner - away]
        x = np.sort(np.clip(np.concatenate(parts, axis=1), least, most), axis=1)
        new = np.diff(x, axis=1, prepend=-np.inf) > 0.0
        row = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
        return row[new], x[new]

    def _middles(self, low: Floats, high: Floats) -> Floats:
        """Points between; geometric means of the distances from a corner that is near."""
        middle, corners = 0.5 * (low + high), self._corners
        if corners.size:
            place = np.searchsorted(corners, low, side="right") - 1
            base = corners[np.maximum(place, 0)]
            one, two = low - base, high - base
            near = (place >= 0) & (one > 0.0) & (two > 4.0 * one)
            root = np.sqrt(np.maximum(one, 0.0)) * np.sqrt(np.maximum(two, 0.0))
            middle = np.where(near, base + root, middle)
            place = np.searchsorted(corners, high, side="left")
            base = corners[np.minimum(place, corners.size - 1)]
            one, two = base - high, base - low
            near = ~near & (place < corners.size) & (one > 0.0) & (two > 4.0 * one)
            root = np.sqrt(np.maximum(one, 0.0)) * np.sqrt(np.maximum(two, 0.0))
            middle = np.where(near, base - root, middle)
        return middle


def slopes(row: Ints, x: Floats, f: Floats) -> Floats:
    """Slopes at knots of several tables: of parabolas through neighbours, never falling, (P,)."""
    same = row[1:] == row[:-1]
    h = np.where(same, np.diff(x), 1.0)
    rise = np.where(same, np.diff(f) / h, 0.0)
    m = np.zeros(x.size)
    m[:-1] += np.where(same, rise, 0.0)  # at the ends that of the chord
    ends = np.append(False, same) & ~np.append(same, False)
    m[ends] = rise[np.flatnonzero(ends) - 1]
    inner = np.flatnonzero(np.append(False, same) & np.append(same, False))
    before, after = rise[inner - 1], rise[inner]
    share = h[inner] / (h[inner - 1] + h[inner])
    parabola = before * share + after * (1.0 - share)
    m[inner] = np.clip(parabola, 0.0, 3.0 * np.minimum(before, after))
    return m


def _cubic(x: Floats, f: Floats, m: Floats, i: Ints, y: Floats) -> Floats:
    """Between the knots i and i + 1, at y."""
    h, rise = x[i + 1] - x[i], f[i + 1] - f[i]
    s = (y - x[i]) / h
    return np.asarray(
        f[i] + s * rise + s * (1 - s) * ((1 - s) * (m[i] * h - rise) - s * (m[i + 1] * h - rise))
    )


@lru_cache(maxsize=32)
def law_tables(model: ArmModel) -> LawTables:
    """Return the shared tables of an outcome model."""
    return LawTables(model)


# -- laws at many points ------------------------------------------------------------------------


def _is_tabulated(model: ArmModel) -> bool:
    """Whether each value of the distribution function is an integral."""
    least, most = model.mean_range
    return model.quantiles_searched and least < most


def mean_points(model: ArmModel, stats: Floats, z: Floats) -> Floats:
    """Return about the quantiles of the mean at z (L,) of a standard normal law, (E, L)."""
    if _is_tabulated(model):
        points = model.mean(stats)[:, None] + model.sd(stats)[:, None] * z
        return np.clip(points, *model.mean_range)
    from scipy.special import ndtr  # late: scipy takes half a second to load

    return model.quantile(stats[:, None, :], ndtr(z))


def mean_cdf(model: ArmModel, stats: Floats, x: Floats) -> Floats:
    """Return P(mean <= x) in states (E, J, width) at points (E, M), (E, J, M)."""
    if not _is_tabulated(model):
        return model.cdf_ahead(stats, x[:, None, :])
    states, place = np.unique(stats.reshape(-1, stats.shape[-1]), axis=0, return_inverse=True)
    tables = joined(law_tables(model).of(states))
    below = np.empty((*stats.shape[:2], x.shape[1]))
    table_values(*tables, place.reshape(stats.shape[:2]), np.ascontiguousarray(x), below)
    return below
