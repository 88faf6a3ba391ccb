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

from ..problem import ArmModel, BernoulliModel, CategoricalModel
from ..support import Floats, Ints, InvalidArgument, limit_bytes, refuse_over
from ..support.records import doc, record_class
from .kernels.graph import BAND, LINKS, Graph, look_up
from .kernels.transitions import band_weights

BYTES_OF_STATE = 40.0  # and 16 per successor
LARGEST_KEY = 2**62  # of a state
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


def state_graph(model: ArmModel, unit: int, rows: int, largest: int = 0) -> ArmGraph:
    """Row n: all statistics that n pulls may lead to, in lexical order; a unit is pulls one by one.

    A state's key is a number of its own over all rows, because statistics tell the pulls. largest:
    of all statistics, if it may be above the number of pulls.
    """
    base, width = max(rows, largest) + 2, model.width
    if base**width < LARGEST_KEY:
        factors = np.array([base**i for i in reversed(range(width))])
    else:  # equal keys of two states are as likely as any
        factors = np.random.default_rng(0).integers(1, LARGEST_KEY, width)
    stats = [np.array([model.initial()], dtype=float)]
    keys = [stats[0].astype(np.int64) @ factors]
    widths, weights, links = [], [], []
    for n in range(rows + 1):
        chances, after = model.transitions(stats[n])
        before, outcome = np.nonzero(chances > 0.0)
        widths.append(np.bincount(before, minlength=len(stats[n])))
        weights.append(chances[before, outcome])
        if n == rows:
            links.append(np.zeros(before.size, dtype=np.int64))
            continue
        following = after[before, outcome]
        key, first, to = np.unique(
            following.astype(np.int64) @ factors, return_index=True, return_inverse=True
        )
        links.append(to)
        keys.append(key)
        stats.append(following[first])
    start = starts(np.array([len(row) for row in stats]))
    every = np.concatenate(keys)
    order = np.argsort(every)
    ordered = every[order]

    def place(row: Ints, stats: Floats) -> Floats:
        key = np.asarray(stats, dtype=np.int64) @ factors
        at = np.minimum(np.searchsorted(ordered, key), ordered.size - 1)
        return np.where(ordered[at] == key, order[at] - start[row], -1).astype(float)

    mean = model.mean(np.concatenate(stats))
    at, chance, to = starts(np.concatenate(widths)), np.concatenate(weights), np.concatenate(links)
    arrays = Graph(LINKS, start, mean, at, chance, to, NOWHERE, NOWHERE, False)
    return ArmGraph(arrays, model, 1, unit, True, place)


def class_graph(model: CategoricalModel, unit: int, rows: int) -> ArmGraph:
    """Row n: all counts of L classes that sum to n."""
    L, fits = model.width, rows
    while fits > 1 and _class_bytes(L, fits) > limit_bytes():
        fits = fits * 9 // 10
    refuse_over(
        _class_bytes(L, rows),
        f"{rows} pulls of an arm with {L} classes: {comb(rows + L, L):.2g} states",
        f"use fewer classes, or at most {fits} stages",
    )
    return state_graph(model, unit, rows)


def _class_bytes(L: int, rows: int) -> float:
    """Return the bytes of states, values, worth and masses at all stages: every use needs them."""
    return comb(rows + L, L) * (BYTES_OF_STATE + 16.0 * L) + 24.0 * comb(rows + L + 1, L + 1)
