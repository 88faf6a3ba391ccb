"""The states of one arm as arrays: rows by steps taken, and what one step does to them.

A step is a unit of pulls where that is again one outcome of the model: good outcomes of a unit are
beta-binomial, sums of measurements normal, sums of counts counts. Of classes and of states of one's
own a unit is so many steps of one pull each. `arm_states.py` makes the graph of an arm; here are
those that have every state. On grids (`grids.py`) V is an upper bound of V, on their contraction
`lower` a lower bound, and so is the reward of any flow there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import comb

import numpy as np

from ..problem import ArmModel, BernoulliModel, CategoricalModel, MarkovModel
from ..support import Floats, Ints, InvalidArgument, limit_bytes, refuse_over
from ..support.records import doc, record_class
from .kernels.graph import BAND, LINKS, Graph, look_up
from .kernels.transitions import band_weights

BYTES_OF_STATE = 40.0  # and 16 per successor
NONE, NOWHERE = np.empty(0, dtype=np.int64), np.empty(0)


@record_class(eq=False)
class ArmGraph:
    """The states of an arm, and the successors of a step."""

    arrays: Graph = doc("What kernels take.")
    model: ArmModel = doc("Whose statistics the states stand for.")
    pulls: int = doc("Pulls of a step.")
    steps: int = doc("Steps of a unit.")
    exact: bool = doc("Whether every state is there.")
    place: Callable[[Ints, Floats], Floats] = doc(
        "Rows and statistics (...), (..., width) -> number in the row, (...)."
    )
    contract: Callable[[], ArmGraph] | None = doc("Of a grid: makes its contraction.", default=None)
    good: Floats | None = doc(
        "Good outcomes of every state, where outcomes are good or bad.", default=None
    )

    @cached_property
    def lower(self) -> ArmGraph | None:
        """Graph whose values are lower bounds: this one if it is exact; None if there is none."""
        if self.exact:
            return self
        return None if self.contract is None else self.contract()

    @property
    def start(self) -> Ints:
        """Starts of the rows, (rows + 2,)."""
        return self.arrays.start

    @property
    def mean(self) -> Floats:
        """Expected value of the next outcome, (states,)."""
        return self.arrays.mean

    @property
    def rows(self) -> int:
        """Steps that the arm may take."""
        return self.start.size - 2

    @property
    def size(self) -> int:
        """Number of states over all rows."""
        return int(self.start[-1])

    @cached_property
    def widest(self) -> int:
        """States of the largest row."""
        return int(np.diff(self.start).max())

    def locate(self, stats: Floats) -> tuple[Ints, Floats]:
        """Row of these statistics and the number in it, (..., width) -> (...), (...)."""
        taken = np.asarray(self.model.pulls(stats))
        rows = np.rint(taken / self.pulls).astype(np.int64)
        if np.any(rows * self.pulls != taken):
            raise InvalidArgument(f"pulls of an arm: must be units of {self.pulls}", field="stats")
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) <= self.rows:
            raise InvalidArgument(
                f"{taken.max():g} pulls of an arm: must be 0 to {self.rows * self.pulls}",
                field="stats",
            )
        return rows, self.place(rows, stats)

    def read(self, table: Floats, stats: Floats) -> tuple[Floats, bool]:
        """Read a table over states, (states, columns), at statistics (..., width): (..., columns).

        On chords between two states. And whether some are beyond the ends of their rows.
        """
        rows, place = self.locate(stats)
        if rows.size and self.start[int(rows.max()) + 1] > len(table):
            raise InvalidArgument(
                f"{int(rows.max()) * self.pulls} pulls of an arm: too many before this stage",
                field="stats",
            )
        out = np.empty((place.size, table.shape[1]))
        beyond = look_up(table, self.start, rows.ravel(), place.ravel(), out)
        if beyond and self.exact:
            raise InvalidArgument(
                "statistics of an arm: not possible after this number of pulls", field="stats"
            )
        return out.reshape(*place.shape, table.shape[1]), bool(beyond)


def starts(sizes: Ints) -> Ints:
    """Return the starts of rows of these sizes, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def good_graph(model: BernoulliModel, unit: int, rows: int) -> ArmGraph:
    """Row i: all numbers of good outcomes of i units."""
    sizes = np.arange(rows + 1) * unit + 1
    start = starts(sizes)
    refuse_over(
        8.0 * (unit + 4.0) * float(start[-1]),
        f"{rows} units of {unit} pulls: {start[-1]:.2g} states",
        "use larger units or fewer stages",
    )
    at = np.append(starts((unit + 1) * sizes[:-1]), 0)
    at[-1] = at[-2]
    good = np.concatenate([np.arange(float(size)) for size in sizes])
    pulls = np.repeat(np.arange(rows + 1.0) * unit, sizes)
    weights = np.empty(at[-1])
    band_weights(model.good, model.bad, unit, rows, at, weights)
    mean = model.mean(np.stack([good, pulls - good], axis=-1))
    return ArmGraph(
        arrays=Graph(BAND, start, mean, at, weights, NONE, NOWHERE, NOWHERE, False),
        model=model,
        pulls=unit,
        steps=1,
        exact=True,
        place=lambda row, stats: stats[..., 0],
        good=good,
    )


class Compositions:
    """Ways to share n pulls among L classes, numbered in lexicographic order."""

    def __init__(self, classes: int, most: int) -> None:
        self.classes = classes
        # below[q][r]: in how many ways q + 1 classes share at most .. r pulls: C(r + q, q)
        self._ways = np.array(
            [[comb(r + q, q) for r in range(most + 2)] for q in range(classes)], dtype=np.int64
        )

    def rank(self, counts: Ints) -> Ints:
        """Rank compositions (..., L) among those of equally many pulls."""
        left = np.asarray(sum(counts[..., i] for i in range(self.classes)))
        number = np.zeros(counts.shape[:-1], dtype=np.int64)
        for i in range(self.classes - 1):
            ways = self._ways[self.classes - 1 - i]
            # those with a smaller count here: counts 0 .. c - 1, the rest shared by later classes
            number += ways[left] - ways[left - counts[..., i]]
            left = left - counts[..., i]
        return number

    def all(self, pulls: int) -> Ints:
        """All of them in order, (number, L)."""
        counts = np.zeros((1, 0), dtype=np.int64)
        left = np.array([pulls])
        for _ in range(self.classes - 1):
            picks = left + 1
            which = np.repeat(np.arange(left.size), picks)
            count = np.arange(which.size) - np.repeat(np.cumsum(picks) - picks, picks)
            counts = np.column_stack([counts[which], count])
            left = left[which] - count
        return np.column_stack([counts, left])


def class_graph(model: CategoricalModel, unit: int, rows: int) -> ArmGraph:
    """Row n: all counts of L classes that sum to n."""
    L = model.width
    total, fits = comb(rows + L, L), rows
    while fits > 1 and _class_bytes(L, fits) > limit_bytes():
        fits = fits * 9 // 10
    refuse_over(
        _class_bytes(L, rows),
        f"{rows} pulls of an arm with {L} classes: {total:.2g} states",
        f"use fewer classes, or at most {fits} stages",
    )
    ways = Compositions(L, rows + 1)
    counts = [ways.all(n) for n in range(rows + 1)]
    start = starts(np.array([len(row) for row in counts]))
    probabilities = model.probabilities(np.concatenate(counts).astype(float))
    one = np.eye(L, dtype=np.int64)
    links = [ways.rank(row[:, None, :] + one).ravel() for row in counts[:-1]]
    links.append(np.zeros(len(counts[-1]) * L, dtype=np.int64))
    return _linked(
        model,
        unit,
        start,
        mean=probabilities @ np.array(model.values),
        widths=np.full(total, L),
        weights=probabilities.ravel(),
        links=np.concatenate(links),
        place=lambda row, stats: ways.rank(stats.astype(np.int64)).astype(float),
    )


def _class_bytes(L: int, rows: int) -> float:
    """Return the bytes of states, values, worth and masses at all stages: every use needs them."""
    return comb(rows + L, L) * (BYTES_OF_STATE + 16.0 * L) + 24.0 * comb(rows + L + 1, L + 1)


def own_graph(model: MarkovModel, unit: int, rows: int) -> ArmGraph:
    """Row n: the states that n pulls may lead to."""
    reached = [[int(model.initial()[1])]]
    number_of_states = len(model.arrays.names)
    links = [model.links(state) for state in range(number_of_states)]
    for _ in range(rows):
        reached.append(sorted({to for state in reached[-1] for _, to in links[state]}))
    number = np.full((rows + 2, number_of_states), -1, dtype=np.int64)
    for n, row in enumerate(reached):
        number[n, row] = np.arange(len(row))
    pairs = [pair for row in reached for state in row for pair in links[state]]
    after = np.repeat(
        np.arange(1, rows + 2), [sum(len(links[state]) for state in row) for row in reached]
    )
    states = np.concatenate([np.array(row) for row in reached])
    return _linked(
        model,
        unit,
        starts(np.array([len(row) for row in reached])),
        mean=model.arrays.reward[states],
        widths=np.array([len(links[state]) for state in states]),
        weights=np.array([probability for probability, _ in pairs]),
        links=np.maximum(number[after, [to for _, to in pairs]], 0),
        place=lambda row, stats: number[row, stats[..., 1].astype(np.int64)].astype(float),
    )


def _linked(
    model: ArmModel,
    unit: int,
    start: Ints,
    *,
    mean: Floats,
    widths: Ints,
    weights: Floats,
    links: Ints,
    place: Callable[[Ints, Floats], Floats],
) -> ArmGraph:
    """Make a graph of links; a unit has one step per pull."""
    at = starts(widths)
    arrays = Graph(LINKS, start, mean, at, weights, links, NOWHERE, NOWHERE, False)
    return ArmGraph(arrays, model, 1, unit, True, place)
