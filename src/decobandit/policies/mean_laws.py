"""Laws of the mean of an arm, as tables that are kept by state or by formula.

`LawTables`, for comparisons of arms: knots are added between two knots until the cubic between them
is right in their middle, and no two hold much probability, or are neighbouring numbers. Near the
ends of the means and the values of classes, where laws of small weights are steep, knots are spaced
by powers.

`law_of`, for information-directed sampling: the law at many points after every outcome of a pull,
by formula where there is one. Of the mean of classes each point is an integral: POINTS of them,
evenly between the ends of the law, with cubic interpolation in between.

Notations
    N, P      states, knots of all of them
    E, J, M   states, outcomes of a pull, points
    stats     (N, width) or (E, ..., width), as the outcome model has them
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np

from ..problem import ArmModel, NormalModel
from ..support import Floats, Ints

SCORES = np.linspace(-8.0, 8.0, 97)  # knots of a normal law, in deviations
FIRST_SCORES = np.linspace(-8.0, 8.0, 33)  # of any other, before more are added
POWERS = 10.0 ** -np.array([1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0])
TOLERANCE = 1e-6  # of a distribution function between two knots
MAX_MASS = 1.0 / 32.0  # between two knots
TAIL = 1e-10  # probability beyond the last knot of an unbounded law
MAX_ROUNDS = 60
MAX_KNOTS = 2_000_000  # of all tables of a model, 48 MB; beyond, tables are computed again
POINTS = 129  # of an even table
MAX_Z = 9.0  # standard deviations on either side of an even table
MAX_TABLES = 20_000


class Tables(NamedTuple):
    """Distribution functions, table after table; see `kernels.comparison`."""

    x: Floats
    f: Floats
    m: Floats
    start: Ints

    @classmethod
    def joined(cls, parts: list[tuple[Floats, Floats, Floats]]) -> Tables:
        """Knots, values and slopes of each table; there may be none."""
        start = np.cumsum([0, *(part[0].size for part in parts)])
        x, f, m = (np.concatenate([np.empty(0), *(part[i] for part in parts)]) for i in range(3))
        return cls(x, f, m, start)


class LawTables:
    """Tables of one kind of arm."""

    def __init__(self, kind: ArmModel) -> None:
        self.kind = kind
        least, most = kind.mean_range
        corners = {*getattr(kind, "values", ()), least, most}
        self._corners = np.array(sorted(c for c in corners if np.isfinite(c)))
        self._kept: dict[bytes, tuple[Floats, Floats, Floats]] = {}
        self._knots = 0

    def of(self, stats: Floats) -> list[tuple[Floats, Floats, Floats]]:
        """Knots, values and slopes in each state."""
        if isinstance(self.kind, NormalModel):
            from scipy.special import ndtr  # late: scipy takes half a second to load

            x = self.kind.mean(stats)[:, None] + self.kind.sd(stats)[:, None] * SCORES
            f, slope = ndtr(SCORES), np.exp(-0.5 * SCORES**2) / np.sqrt(2.0 * np.pi)
            return [
                (points, f, slope / sd) for points, sd in zip(x, self.kind.sd(stats), strict=True)
            ]
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

    def _compute(self, stats: Floats) -> list[tuple[Floats, Floats, Floats]]:
        least, most = self.kind.mean_range
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
        below = self.kind.cdf(stats[row], x)
        return np.asarray(np.where(x <= self.kind.mean_range[0], 0.0, below))

    def _first_knots(self, stats: Floats) -> tuple[Ints, Floats]:
        """Rows and knots, sorted and different."""
        kind, (least, most) = self.kind, self.kind.mean_range
        mean, sd = kind.mean(stats), kind.sd(stats)
        far = mean + FIRST_SCORES[-1] * sd
        while most == np.inf and (short := 1.0 - kind.cdf(stats, far) > TAIL).any():
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


@lru_cache(maxsize=8)
def law_tables(kind: ArmModel) -> LawTables:
    """Return the shared tables of an outcome model."""
    return LawTables(kind)


# -- laws at many points ------------------------------------------------------------------------


class MeanLaw(Protocol):
    """The posterior of the mean of arms of one kind."""

    def points(self, stats: Floats, z: Floats) -> Floats:
        """Return quantiles at z (L,) standard deviations of a normal law: (E, width) -> (E, L)."""

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        """Chance that the mean is at most x (E, M): (E, width) -> (E, M)."""

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """Return the distribution function after each outcome: (E, J, width) -> (E, J, M)."""


def law_of(kind: ArmModel) -> MeanLaw:
    """By formula where there is one, or nothing is unknown of the mean."""
    least, most = kind.mean_range
    return TableLaw(kind) if kind.quantiles_searched and least < most else FormulaLaw(kind)


class FormulaLaw:
    """Quantiles and distribution function of the kind."""

    def __init__(self, kind: ArmModel) -> None:
        self._kind = kind

    def points(self, stats: Floats, z: Floats) -> Floats:
        from scipy.special import ndtr  # late: scipy takes half a second to load

        return self._kind.quantile(stats[:, None, :], ndtr(z))

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        return self._kind.cdf(stats[:, None, :], x)

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        return self._kind.cdf_ahead(after, x[:, None, :])


class PointTables(NamedTuple):
    """Of N states: the first point, the distance of two points, the law at all of them."""

    low: Floats  # (N,)
    step: Floats  # (N,)
    law: Floats  # (N, POINTS)


class TableLaw:
    """PointTables of the states that were asked for; threads may ask at the same time."""

    def __init__(self, kind: ArmModel) -> None:
        self._kind, self._lock = kind, Lock()
        self._number: dict[bytes, int] = {}
        self._tables = PointTables(np.empty(0), np.empty(0), np.empty((0, POINTS)))

    def points(self, stats: Floats, z: Floats) -> Floats:
        kind = self._kind
        return np.clip(kind.mean(stats)[:, None] + kind.sd(stats)[:, None] * z, *kind.mean_range)

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        return self.cdf_ahead(stats[:, None, :], x)[:, 0]

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        flat, tables = self._lookup(after.reshape(-1, after.shape[-1]))
        number = flat.reshape(after.shape[:-1])
        place = (x[:, None, :] - tables.low[number, None]) / tables.step[number, None]
        place = np.clip(place, 0.0, POINTS - 1.0)
        k = np.minimum(place.astype(np.int64), POINTS - 2)
        before, here, there, beyond = (
            tables.law[number[..., None], np.clip(k + j, 0, POINTS - 1)] for j in (-1, 0, 1, 2)
        )
        return np.clip(_even_cubic(place - k, before, here, there, beyond), 0.0, 1.0)

    def _lookup(self, stats: Floats) -> tuple[Ints, PointTables]:
        """Numbers of these states, (E, width) -> (E,), in the tables that come with them."""
        unique, place = np.unique(stats, axis=0, return_inverse=True)
        keys = [row.tobytes() for row in unique]
        with self._lock:
            if len(self._number) + len(unique) > MAX_TABLES:
                self._number = {}
                self._tables = PointTables(*(part[:0] for part in self._tables))
            new = [i for i, key in enumerate(keys) if key not in self._number]
            if new:
                first = len(self._number)
                self._number |= {keys[i]: first + j for j, i in enumerate(new)}
                parts = zip(self._tables, self._compute(unique[new]), strict=True)
                self._tables = PointTables(*map(np.concatenate, parts))
            number = np.array([self._number[key] for key in keys])
            return number[place.reshape(-1)], self._tables

    def _compute(self, stats: Floats) -> PointTables:
        least, most = self._kind.mean_range
        mean, away = self._kind.mean(stats), MAX_Z * self._kind.sd(stats)
        low, high = np.maximum(mean - away, least), np.minimum(mean + away, most)
        step = np.maximum(high - low, np.finfo(float).tiny) / (POINTS - 1.0)
        x = low[:, None] + step[:, None] * np.arange(POINTS)
        return PointTables(low, step, self._kind.cdf(stats[:, None, :], x))


def _even_cubic(s: Floats, before: Floats, here: Floats, there: Floats, beyond: Floats) -> Floats:
    """Between two of four points one apart, slopes by differences of their neighbours; 0<=s<=1."""
    rise, fall = 0.5 * (there - before), 0.5 * (beyond - here)
    step = there - here
    u = 1.0 - s
    return np.asarray(here + step * s + s * u * (u * (rise - step) - s * (fall - step)))
