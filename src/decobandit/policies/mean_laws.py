"""The law of an arm's mean at many points, in many states: by formula, or by tables that are kept.

Of the mean of classes each point of the law is an integral. A table of a state has POINTS of them,
evenly between the ends of the law; in between, cubic interpolation.

Notations
    E, J, M   states, outcomes of a pull, points
    stats     (E, ..., width), as the kind has them
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np

from ..problem import ArmModel
from ..support import Floats, Ints

POINTS = 129  # of a table
WIDE = 9.0  # deviations on either side that a table holds
KEPT = 20_000  # tables, at most


class MeanLaw(Protocol):
    """What is known of the mean of arms of one kind."""

    def points(self, stats: Floats, z: Floats) -> Floats:
        """Where a normal law would be z (L,) deviations from its mean: (E, width) -> (E, L)."""

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        """Chance that the mean is at most x (E, M): (E, width) -> (E, M)."""

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        """The same after each outcome of a pull: (E, J, width) -> (E, J, M)."""


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


class Tables(NamedTuple):
    """Of N states: the first point, the distance of two points, the law at all of them."""

    low: Floats  # (N,)
    step: Floats  # (N,)
    law: Floats  # (N, POINTS)


class TableLaw:
    """Tables of the states that were asked for; threads may ask at the same time."""

    def __init__(self, kind: ArmModel) -> None:
        self._kind, self._lock = kind, Lock()
        self._number: dict[bytes, int] = {}
        self._tables = Tables(np.empty(0), np.empty(0), np.empty((0, POINTS)))

    def points(self, stats: Floats, z: Floats) -> Floats:
        kind = self._kind
        return np.clip(kind.mean(stats)[:, None] + kind.sd(stats)[:, None] * z, *kind.mean_range)

    def cdf(self, stats: Floats, x: Floats) -> Floats:
        return self.cdf_ahead(stats[:, None, :], x)[:, 0]

    def cdf_ahead(self, after: Floats, x: Floats) -> Floats:
        flat, tables = self._found(after.reshape(-1, after.shape[-1]))
        number = flat.reshape(after.shape[:-1])
        place = (x[:, None, :] - tables.low[number, None]) / tables.step[number, None]
        place = np.clip(place, 0.0, POINTS - 1.0)
        k = np.minimum(place.astype(np.int64), POINTS - 2)
        before, here, there, beyond = (
            tables.law[number[..., None], np.clip(k + j, 0, POINTS - 1)] for j in (-1, 0, 1, 2)
        )
        return np.clip(_cubic(place - k, before, here, there, beyond), 0.0, 1.0)

    def _found(self, stats: Floats) -> tuple[Ints, Tables]:
        """Numbers of these states, (E, width) -> (E,), in the tables that come with them."""
        unique, place = np.unique(stats, axis=0, return_inverse=True)
        keys = [row.tobytes() for row in unique]
        with self._lock:
            if len(self._number) + len(unique) > KEPT:
                self._number = {}
                self._tables = Tables(*(part[:0] for part in self._tables))
            new = [i for i, key in enumerate(keys) if key not in self._number]
            if new:
                first = len(self._number)
                self._number |= {keys[i]: first + j for j, i in enumerate(new)}
                parts = zip(self._tables, self._made(unique[new]), strict=True)
                self._tables = Tables(*map(np.concatenate, parts))
            number = np.array([self._number[key] for key in keys])
            return number[place.reshape(-1)], self._tables

    def _made(self, stats: Floats) -> Tables:
        least, most = self._kind.mean_range
        mean, away = self._kind.mean(stats), WIDE * self._kind.sd(stats)
        low, high = np.maximum(mean - away, least), np.minimum(mean + away, most)
        step = np.maximum(high - low, np.finfo(float).tiny) / (POINTS - 1.0)
        x = low[:, None] + step[:, None] * np.arange(POINTS)
        return Tables(low, step, self._kind.cdf(stats[:, None, :], x))


def _cubic(s: Floats, before: Floats, here: Floats, there: Floats, beyond: Floats) -> Floats:
    """Between two of four points one apart, slopes by differences of their neighbours; 0<=s<=1."""
    rise, fall = 0.5 * (there - before), 0.5 * (beyond - here)
    step = there - here
    u = 1.0 - s
    return np.asarray(here + step * s + s * u * (u * (rise - step) - s * (fall - step)))
