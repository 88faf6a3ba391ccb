"""States of one arm by number of pulls, and their transitions, for models with few states.

Layer n lists the statistics that n pulls may lead to, in lexical order. With v the sum of what the
outcomes of some pulls count, the ways from a layer to a later one are three matrices:

    P = P(s -> s')      A = P E[v | s -> s']      B = P E[v^2 | s -> s']

Ways of more pulls are products of ways of fewer:  P = P1 P2,  A = A1 P2 + P1 A2,
B = B1 P2 + 2 A1 A2 + P1 B2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..problem import Group, Problem, Stats
from ..support import Cache, Floats, Ints, InvalidArgument, Unsupported

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_CACHE_BYTES = 256 << 20  # of matrices of one group
LARGEST_KEY = 2**62


class Ways(NamedTuple):
    """Transition matrices (before, after) of some pulls; the last two are None without moments."""

    chance: csr_array
    first: csr_array | None = None
    second: csr_array | None = None

    def then(self, later: Ways) -> Ways:
        """Return the pulls of both."""
        chance = self.chance @ later.chance
        if self.first is None or self.second is None:
            return Ways(chance)
        assert later.first is not None
        assert later.second is not None
        return Ways(
            chance,
            self.first @ later.chance + self.chance @ later.first,
            self.second @ later.chance
            + 2.0 * (self.first @ later.first)
            + self.chance @ later.second,
        )


class ArmStates:
    """Layers of states of one arm, computed on first use.

    Parameters
    ----------
    group : Group
        Whose outcome model has finitely many states.
    unit : int
        Pulls that are made together: ways are built from those of units.
    truth : tuple, optional
        True parameters of the arm; ways are those of the prior by default.
    moments : bool
        Whether ways have moments: of the values of their outcomes less `center` for each.
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
        self._cache = Cache[tuple[int, int], Ways](MAX_CACHE_BYTES, size=_bytes_of)

    def layer(self, pulls: int) -> Floats:
        """Return the statistics of the states after this number of pulls, (states, width)."""
        while len(self._layers) <= pulls:
            self._extend()
        return self._layers[pulls]

    def size(self, pulls: int) -> int:
        """Return the number of states after this number of pulls."""
        return len(self.layer(pulls))

    def start(self, pulls: int) -> int:
        """Return the number of the layer's first state, among the states of all layers."""
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

    # -- all layers together: a state is its code, its number in the order of all layers ----------

    def layer_of(self, codes: int | Ints) -> Ints:
        """Return the pulls of codes."""
        while self._starts[-1] <= np.max(codes):
            self.start(len(self._starts))
        return np.searchsorted(self._starts, codes, side="right") - 1

    def all_stats(self, code: int) -> Floats:
        """Return the statistics of all codes up to the end of this code's layer, (codes, width)."""
        return np.concatenate([self.layer(n) for n in range(int(self.layer_of(code)) + 1)])

    def all_expected(self, code: int, pulls: int, unit: int) -> Floats:
        """Return `expected` of all codes in layers of whole units up to this one, (codes,)."""
        layers = range(int(self.layer_of(code)) + 1)
        return np.concatenate(
            [self.expected(n, pulls) if n % unit == 0 else np.zeros(self.size(n)) for n in layers]
        )

    def all_ways(self, codes: Ints, pulls: int) -> Ways:
        """Return `ways` between codes, from the layers of these codes."""
        from scipy.sparse import coo_array

        layers = np.unique(self.layer_of(codes)).tolist()
        shape = self.start(layers[-1] + 1), self.start(layers[-1] + pulls + 1)
        blocks = [(n, self.ways(n, pulls)) for n in layers]

        def joined(part: int) -> csr_array | None:
            entries = [
                (n, matrix.tocoo()) for n, block in blocks if (matrix := block[part]) is not None
            ]
            if not entries:
                return None
            row = np.concatenate([block.row + self.start(n) for n, block in entries])
            column = np.concatenate([block.col + self.start(n + pulls) for n, block in entries])
            data = np.concatenate([block.data for _, block in entries])
            return coo_array((data, (row, column)), shape=shape).tocsr()

        chance = joined(0)
        assert chance is not None
        return Ways(chance, joined(1), joined(2))

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
        chances, after = self._transitions(stats)
        before, outcome = np.nonzero(after[..., 0] >= 0.0)
        values = np.broadcast_to(
            self.model.value(stats[:, None, :], np.arange(chances.shape[1], dtype=float)),
            chances.shape,
        )[before, outcome]
        following, chance = after[before, outcome], chances[before, outcome]
        first, place = distinct_rows(following)
        shape = (len(stats), len(first))
        self._steps.append(self._ways((before, place), shape, chance, values - self.center))
        self._values.append(np.bincount(before, chance * values, len(stats)).astype(float))
        self._layers.append(following[first])

    def _ways(
        self, places: tuple[Ints, Ints], shape: tuple[int, int], chance: Floats, values: Floats
    ) -> Ways:
        """Return transitions between these places, without those that cannot occur."""
        from scipy.sparse import csr_array  # late: most commands do not need scipy

        parts = [chance, chance * values, chance * values**2] if self._moments else [chance]
        matrices = [csr_array((part, places), shape=shape) for part in parts]
        for matrix in matrices:
            matrix.eliminate_zeros()
        return Ways(*matrices)

    def _transitions(self, stats: Floats) -> tuple[Floats, Floats]:
        """Return probabilities of outcomes, (states, J); statistics after them, (states, J, width).

        States with fewer outcomes than others are filled up with statistics of -1.
        """
        chances, after = self.model.transitions(stats, self._truth or None)
        if self.model.ordered:
            after = np.where(chances[..., None] > 0.0, after, -1.0)
        return chances, after


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
        places = before, self.number(had, after[before, way])
        return self._ways(places, (len(stats), len(stats)), chances[before, way], values)

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
        parameter = None if truth is None else truth[arm]
        parameter = (parameter,) if isinstance(parameter, float) else parameter
        if (k, parameter) not in shared and problem.is_restless:
            shared[k, parameter] = RestlessStates(
                problem.groups[k], problem.horizon, moments=moments
            )
        elif (k, parameter) not in shared:
            shared[k, parameter] = ArmStates(
                problem.groups[k], problem.unit, truth=parameter, moments=moments
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


def _bytes_of(ways: Ways) -> int:
    return sum(m.data.nbytes + m.indices.nbytes for m in ways if m is not None)
