"""States of one arm by number of pulls, and their transitions, for models with few states.

Layer n lists the statistics that n pulls may lead to, in lexical order. With v the sum of what the
outcomes of some pulls count, the ways from a layer to a later one are three matrices:

    P = P(s -> s')      A = P E[v | s -> s']      B = P E[v^2 | s -> s']

Ways of more pulls are products of ways of fewer (`kernels/ways.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..problem import Group, Problem, Stats
from ..support import Cache, Floats, Ints, InvalidArgument, Unsupported
from .kernels.ways import product

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_CACHE_BYTES = 256 << 20  # of matrices of one group
LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Ways:
    """Sparse matrices (before, after) of some pulls, with one pattern: P, or P, A and B."""

    at: Ints  # (before + 1,) first entry of every row
    to: Ints  # (N,)
    weight: Floats  # (1 or 3, N)
    after: int

    def then(self, later: Ways) -> Ways:
        """Return the pulls of both."""
        parts = self.at, self.to, self.weight, later.at, later.to, later.weight
        at, to, weight = product(*parts, later.after)
        return Ways(at, to, weight, later.after)

    @cached_property
    def chance(self) -> csr_array:
        """P as a matrix of scipy."""
        from scipy.sparse import csr_array  # late: most commands do not need scipy

        shape = (self.at.size - 1, self.after)
        return csr_array((self.weight[0], self.to, self.at), shape=shape)


class ArmStates:
    """Layers of states of one arm, computed on first use.

    A state's code is its number in the order of all layers. Ways of several units are built from
    those of a unit; they are those of the prior or at the true parameters. Moments are of the
    values of outcomes less `center` for each.
    """

    def __init__(
        self, group: Group, unit: int = 1, *, truth: Stats | None = None, moments: bool = False
    ) -> None:
        self.group, self.model, self.unit = group, group.model, unit
        self._truth, self._moments = truth, moments
        first = np.array([self.model.initial()], dtype=float)
        self.center = float(self.model.mean(first)[0])  # that moments are taken around
        self._layers: list[Floats] = [first]
        self._starts = [0]
        self._steps: list[Ways] = []
        self._values: list[Floats] = []  # expected value of one pull, by layer
        self._cache = Cache[tuple[int, int], Ways](
            MAX_CACHE_BYTES, size=lambda ways: ways.to.nbytes + ways.weight.nbytes
        )

    def layer(self, pulls: int) -> Floats:
        """Return the statistics of the states after this number of pulls, (states, width)."""
        while len(self._layers) <= pulls:
            self._extend()
        return self._layers[pulls]

    def size(self, pulls: int) -> int:
        """Return the number of states after this number of pulls."""
        return len(self.layer(pulls))

    def start(self, pulls: int) -> int:
        """Return the code of the layer's first state."""
        while len(self._starts) <= pulls:
            self._starts.append(self._starts[-1] + self.size(len(self._starts) - 1))
        return self._starts[pulls]

    def number(self, pulls: int, stats: Floats) -> Ints:
        """Return the numbers of these statistics in a layer, (..., width) -> (...)."""
        layer, wanted = self.layer(pulls), stats.reshape(-1, stats.shape[-1])
        first, place = distinct_rows(np.concatenate([layer, wanted]))
        if len(first) > len(layer):
            raise InvalidArgument(
                f"state of an arm after {pulls} pulls: no pulls lead to it", field="state"
            )
        return place[len(layer) :].reshape(stats.shape[:-1])

    def layers_to(self, code: int) -> int:
        """Return the number of layers up to that of a code."""
        while self._starts[-1] <= code:
            self.start(len(self._starts))
        return int(np.searchsorted(self._starts, code, side="right"))

    def all_stats(self, code: int) -> Floats:
        """Return the statistics of all codes up to the end of this code's layer, (codes, width)."""
        return np.concatenate([self.layer(n) for n in range(self.layers_to(code))])

    def all_expected(self, code: int, pulls: int, unit: int) -> Floats:
        """Return `expected` of all codes in layers of whole units up to this one, (codes,)."""
        return np.concatenate(
            [
                self.expected(n, pulls) if n % unit == 0 else np.zeros(self.size(n))
                for n in range(self.layers_to(code))
            ]
        )

    def all_ways(self, codes: Ints, pulls: int) -> Ways:
        """Return `ways` between codes, from the layers of these codes."""
        end = self.layers_to(int(codes.max(initial=0)))
        self.start(end + pulls)
        used = np.unique(np.searchsorted(self._starts, codes, side="right") - 1).tolist()
        number = np.zeros(self._starts[end], np.int64)  # of entries of each code
        to, weight = [], []
        for n in used:
            ways = self.ways(n, pulls)
            number[self._starts[n] : self._starts[n + 1]] = ways.at[1:] - ways.at[:-1]
            to.append(ways.to + self._starts[n + pulls])
            weight.append(ways.weight)
        at, after = np.concatenate([[0], np.cumsum(number)]), self._starts[end + pulls]
        return Ways(at, np.concatenate(to), np.concatenate(weight, axis=1), after)

    def mean(self, pulls: int) -> Floats:
        """Return the expected value of the next outcome by the prior, (states,)."""
        return self.model.mean(self.layer(pulls))

    def expected(self, had: int, pulls: int) -> Floats:
        """Return the expected total of these pulls, by the prior or at the truth, (states,)."""
        self.layer(had + pulls)
        if pulls == 1:
            return self._values[had]
        half = self._split(pulls)
        later = self.expected(had + half, pulls - half)
        return np.asarray(self.expected(had, half) + self.ways(had, half).chance @ later)

    def ways(self, had: int, pulls: int) -> Ways:
        """Return the moves from the layer of `had` pulls to that after further pulls."""
        self.layer(had + pulls)
        if pulls == 1:
            return self._steps[had]
        half = self._split(pulls)
        return self._cache.get_or_make(
            (had, pulls), lambda: self.ways(had, half).then(self.ways(had + half, pulls - half))
        )

    def _split(self, pulls: int) -> int:
        """Return the pulls of the first factor: whole units where there are several."""
        units = pulls // self.unit
        return self.unit * (units // 2) if units > 1 and pulls % self.unit == 0 else pulls // 2

    def _extend(self) -> None:
        stats = self._layers[-1]
        chances, after = self.model.transitions(stats, self._truth or None)
        # outcomes that are impossible, and the statistics of -1 of states with fewer outcomes
        possible = after[..., 0] >= 0.0
        if self.model.ordered:
            possible &= chances > 0.0
        before, outcome = np.nonzero(possible)
        values = np.broadcast_to(
            self.model.value(stats[:, None, :], np.arange(chances.shape[1], dtype=float)),
            chances.shape,
        )[before, outcome]
        following, chance = after[before, outcome], chances[before, outcome]
        first, place = distinct_rows(following)
        self._steps.append(
            self._ways(len(stats), before, place, len(first), chance, values - self.center)
        )
        self._values.append(np.bincount(before, chance * values, len(stats)).astype(float))
        self._layers.append(following[first])

    def _ways(
        self, rows: int, before: Ints, to: Ints, after: int, chance: Floats, values: Floats
    ) -> Ways:
        """Return transitions between these places, `before` ascending."""
        possible = np.flatnonzero(chance > 0.0)
        at = np.searchsorted(before[possible], np.arange(rows + 1))
        parts = [chance * values**power for power in range(3 if self._moments else 1)]
        return Ways(at, to[possible], np.stack(parts)[:, possible], after)


class RestlessStates(ArmStates):
    """States of a restless arm: every layer has all of them, and a rest is a transition, too."""

    def __init__(self, group: Group, stages: int, *, moments: bool = False) -> None:
        super().__init__(group, moments=moments)
        self._states = self.model.reached(stages)
        self._layers = [np.stack([np.zeros(self._states.size), self._states], axis=-1)]

    def number(self, pulls: int, stats: Floats) -> Ints:
        # the nearest: beliefs that no stage is left for are not among them
        between = (self._states[:-1] + self._states[1:]) / 2.0
        return np.searchsorted(between, stats[..., 1])

    def expected(self, had: int, pulls: int) -> Floats:
        stats = self.layer(had)
        return self.model.mean(stats) if pulls else self.model.rest_mean(stats)

    def ways(self, had: int, pulls: int) -> Ways:
        stats, model = self.layer(had), self.model
        chances, after = (model.transitions if pulls else model.rest_transitions)(stats)
        before, way = np.nonzero(chances > 0.0)
        if pulls:
            outcomes = np.arange(chances.shape[1], dtype=float)
            values = model.value(stats[:, None, :], outcomes) - self.center
        else:
            values = model.rest_mean(stats)[:, None]
        values = np.broadcast_to(values, chances.shape)[before, way]
        to, size = self.number(had, after[before, way]), len(stats)
        return self._ways(size, before, to, size, chances[before, way], values)

    def _extend(self) -> None:
        self._layers.append(self._layers[-1] + (1.0, 0.0))


def states_of_arms(
    problem: Problem, truth: Any = None, *, moments: bool = False
) -> list[ArmStates]:
    """Return the states of every arm; arms of one group and one truth share theirs.

    Outcome models with infinitely many are refused.
    """
    refuse_infinite(problem, "exact values")
    shared: dict[object, ArmStates] = {}
    states = []
    for arm, k in enumerate(problem.group_of_arm.tolist()):
        group, parameter = problem.groups[k], None if truth is None else truth[arm]
        parameter = (parameter,) if isinstance(parameter, float) else parameter
        if (k, parameter) not in shared:
            shared[k, parameter] = (
                RestlessStates(group, problem.horizon, moments=moments)
                if problem.is_restless
                else ArmStates(group, problem.unit, truth=parameter, moments=moments)
            )
        states.append(shared[k, parameter])
    return states


def refuse_infinite(problem: Problem, what: str, advice: str = "simulate it") -> None:
    """Refuse problems with an arm that has infinitely many states."""
    for group in problem.groups:
        if not group.model.finite:
            raise Unsupported(
                f"{what}: {group.model.word} arms have infinitely many states; {advice}"
            )


def distinct_rows(rows: Floats | Ints) -> tuple[Ints, Ints]:
    """Return first places of the distinct rows of integers (S, C), in lexical order; all places."""
    columns = rows.astype(np.int64)
    columns -= columns.min(axis=0, initial=0)
    key, size = np.zeros(len(columns), np.int64), 1
    for column in columns.T:
        span = int(column.max(initial=0)) + 1
        if size * span > LARGEST_KEY:
            values, key = np.unique(key, return_inverse=True)
            size = len(values)
        key, size = key * span + column, size * span
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return first, place.reshape(-1)
