"""Rows of arms that have finitely many states: good and bad outcomes, classes, tables of states."""

from __future__ import annotations

from math import comb

import numpy as np

from ...problem import Binary, Classes, Own
from ...support import Floats, Ints, refuse_over
from .rows import NONE, ArmRows

BYTES_OF_STATE = 40.0  # and 16 per successor


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def binary_rows(kind: Binary, rows: int) -> ArmRows:
    """Row n: 0 .. n good outcomes."""
    sizes = np.arange(1, rows + 2)
    good = np.concatenate([np.arange(size, dtype=float) for size in sizes])
    pulls = np.repeat(np.arange(rows + 1.0), sizes)
    p = kind.mean(np.stack([good, pulls - good], axis=-1))
    none = np.zeros(good.size)
    return ArmRows(
        start=_starts(sizes), mean=p, width=np.full(rows + 1, 2), at=2 * _starts(sizes)[:-1],
        weights=np.stack([1.0 - p, p], axis=1).ravel(), first=good.astype(np.int64), links=NONE,
        up=none, down=none, exact=True, locate=lambda stats: stats[..., 0],
    )  # fmt: skip


class Compositions:
    """Ways to share n pulls among L classes, numbered in lexicographic order."""

    def __init__(self, classes: int, most: int) -> None:
        self.classes = classes
        # below[q][r]: in how many ways q + 1 classes share at most .. r pulls: C(r + q, q)
        self._ways = np.array(
            [[comb(r + q, q) for r in range(most + 2)] for q in range(classes)], dtype=np.int64
        )

    def number(self, pulls: int) -> int:
        """How many there are."""
        return int(self._ways[self.classes - 1, pulls])

    def rank(self, counts: Ints) -> Ints:
        """Number of each of the compositions (..., L) among those of as many pulls."""
        left = np.asarray(sum(counts[..., i] for i in range(self.classes)))
        found = np.zeros(counts.shape[:-1], dtype=np.int64)
        for i in range(self.classes - 1):
            ways = self._ways[self.classes - 1 - i]
            # those with a smaller count here: counts 0 .. c - 1, the rest shared by later classes
            found += ways[left] - ways[left - counts[..., i]]
            left = left - counts[..., i]
        return found

    def all(self, pulls: int) -> Ints:
        """All of them in order, (number, L)."""
        found = np.zeros((1, 0), dtype=np.int64)
        left = np.array([pulls])
        for _ in range(self.classes - 1):
            picks = left + 1
            which = np.repeat(np.arange(left.size), picks)
            count = np.arange(which.size) - np.repeat(np.cumsum(picks) - picks, picks)
            found = np.column_stack([found[which], count])
            left = left[which] - count
        return np.column_stack([found, left])


def class_rows(kind: Classes, rows: int) -> ArmRows:
    """Row n: all counts of L classes that sum to n."""
    L = kind.width
    total = comb(rows + L, L)
    refuse_over(
        _class_bytes(L, rows),
        f"{rows} pulls of an arm with {L} classes: {total:.2g} states",
        _what_fits(L, rows),
    )
    ways = Compositions(L, rows + 1)
    each = [ways.all(n) for n in range(rows + 1)]
    sizes = np.array([len(counts) for counts in each])
    chances = kind.chances(np.concatenate(each).astype(float))
    unit = np.eye(L, dtype=np.int64)
    links = [ways.rank(counts[:, None, :] + unit).ravel() for counts in each[:-1]]
    links.append(np.zeros(sizes[-1] * L, dtype=np.int64))
    none = np.zeros(total)
    return ArmRows(
        start=_starts(sizes), mean=chances @ np.array(kind.values), width=np.full(rows + 1, L),
        at=L * _starts(sizes)[:-1], weights=chances.ravel(), first=NONE,
        links=np.concatenate(links), up=none, down=none, exact=True,
        locate=lambda stats: ways.rank(stats.astype(np.int64)).astype(float),
    )  # fmt: skip


def _class_bytes(L: int, rows: int) -> float:
    """Of the states, and of values, worth and masses of all stages: no use of them needs less."""
    return comb(rows + L, L) * (BYTES_OF_STATE + 16.0 * L) + 24.0 * comb(rows + L + 1, L + 1)


def _what_fits(L: int, rows: int) -> str:
    from ...support import limit_bytes

    fits = rows
    while fits > 1 and _class_bytes(L, fits) > limit_bytes():
        fits = fits * 9 // 10
    return f"use fewer classes, or at most {fits} stages"


def own_rows(kind: Own, rows: int) -> ArmRows:
    """Row n: the states that n pulls may lead to."""
    reached = [[int(kind.initial()[1])]]
    links = [kind.links(state) for state in range(len(kind.names))]
    for _ in range(rows):
        reached.append(sorted({to for state in reached[-1] for _, to in links[state]}))
    sizes = np.array([len(row) for row in reached])
    width = np.array([max(len(links[state]) for state in row) for row in reached])
    weights, following = [], []
    number = np.full((rows + 2, len(kind.names)), -1, dtype=np.int64)
    for n, row in enumerate(reached):
        number[n, row] = np.arange(len(row))
    for n, row in enumerate(reached):
        for state in row:
            spare = [(0.0, -1)] * (width[n] - len(links[state]))
            for chance, to in [*links[state], *spare]:
                weights.append(chance)
                following.append(max(number[n + 1, to], 0) if to >= 0 and n < rows else 0)
    states = np.concatenate([np.array(row) for row in reached])
    none = np.zeros(states.size)

    def locate(stats: Floats) -> Floats:
        return number[stats[..., 0].astype(np.int64), stats[..., 1].astype(np.int64)].astype(float)

    return ArmRows(
        start=_starts(sizes), mean=kind.means[states], width=width, at=_starts(sizes * width)[:-1],
        weights=np.array(weights), first=NONE, links=np.array(following), up=none, down=none,
        exact=True, locate=locate,
    )  # fmt: skip
