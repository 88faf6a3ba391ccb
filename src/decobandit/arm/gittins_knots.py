"""Finite-horizon Gittins indices at long horizons, by interpolation between knots.

`kernels/gittins_knots.py` says what is interpolated. The knots are solved once; they
serve all stages and all arms of a problem. One state and the table of a stage are the same number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..problem import Problem
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, Once, pool, worker_count
from .calibration import Calibration
from .kernels.gittins_knots import knot_excess, knot_indices, knot_slab

PER_OCTAVE = 2  # knots for each doubling of a, b or the pulls left
EACH_LEFT = 16  # up to here every number of pulls left is a knot
KNOT_ACCURACY = 1e-9  # of an index at a knot: far less than cubics between knots err
MAX_LAYERS = 64  # stages whose layer is remembered

Counts = npt.NDArray[np.int64]


class KnotCalibration(Calibration):
    """Indices under a flat price, for rewards that are the same at every stage.

    Parameters
    ----------
    problem : Problem
        Whose arms have the indices.
    workers : int, optional
        Threads that solve the knots; all processors by default.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.arm import Calibration, KnotCalibration
    >>> import numpy as np
    >>> problem = Problem.uniform(arms=2, horizon=300)
    >>> exact = Calibration(problem, np.zeros(300)).index(stage=100, group=0, good=20, bad=10)
    >>> abs(KnotCalibration(problem).index(stage=100, group=0, good=20, bad=10) - exact) < 1e-4
    True
    """

    def __init__(self, problem: Problem, *, workers: int | None = None) -> None:
        super().__init__(problem, np.zeros(problem.stages), workers=workers)
        # priors of the outcome that earns more, and of the other one
        self._swapped = [bool(arm.reward_good[0] < arm.reward_bad[0]) for arm in problem.groups]
        priors = np.array([(arm.alpha, arm.beta) for arm in problem.groups])
        priors[self._swapped] = priors[self._swapped, ::-1]
        self._priors = priors
        self._first = _position(priors.min(axis=0)).astype(int) - 1  # knots of a, and of b
        self._left = _left_knots(problem.stages)
        counts = np.arange(problem.stages + 1.0)
        self._stencils = [
            [_stencil(prior + counts, first) for prior, first in zip(own, self._first, strict=True)]
            for own in priors
        ]
        self._excess = Once(self._solved)
        self._layers = Cache[int, Floats](MAX_LAYERS)

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """The index of one state, by interpolation; `crossings` has the exact one."""
        return float(self.indices(stage, group, np.array([(good, bad)]))[0])

    def indices(self, stage: int, group: int, counts: Counts) -> Floats:
        """The same for several states, (J, 2) good and bad outcomes -> (J,)."""
        first, second = counts.T[::-1] if self._swapped[group] else counts.T
        found = np.empty(len(counts))
        knot_indices(*self._arguments(stage, group), first, second, found)
        return self._in_rewards(group, found)

    def stage_index(self, stage: int) -> Floats:
        """Index of every state at a stage, (groups, slab): the same as `index`."""
        table = np.empty((len(self.problem.groups), slab_size(stage)))
        for k, own in enumerate(table):
            knot_slab(*self._arguments(stage, k), stage, own)
            for n in range(1, stage + 1) if self._swapped[k] else ():
                row = own[slab_size(n - 1) : slab_size(n)]
                row[:] = row[::-1].copy()
            own[:] = self._in_rewards(k, own)
        return table

    def _arguments(self, stage: int, group: int) -> tuple[Any, ...]:
        """What the kernels take for a group: prior, stencils, knots."""
        (start_a, weight_a), (start_b, weight_b) = self._stencils[group]
        a, b = self._priors[group]
        return a, b, start_a, weight_a, start_b, weight_b, self._layer(stage)

    def _in_rewards(self, group: int, index: Floats) -> Floats:
        """Indices of the outcome that earns more, in the unit of the rewards."""
        arm = self.problem.groups[group]
        low, high = sorted((float(arm.reward_good[0]), float(arm.reward_bad[0])))
        return np.asarray(low + (high - low) * index)

    def refuse_large(self) -> None:
        """Knots are few at every horizon."""

    def is_made(self, stage: int) -> bool:
        """Whether the knots are solved: they serve all stages."""
        return self._excess.made

    def _layer(self, stage: int) -> Floats:
        """Z at the pulls left at a stage, (I, J)."""
        left = self.problem.stages - stage

        def make() -> Floats:
            excess = self._excess()
            k = int(np.searchsorted(self._left, left))
            if self._left[k] == left:
                return np.asarray(excess[k])
            k = min(max(k - 2, 0), self._left.size - 4)
            weight = _lagrange(np.log(self._left[k : k + 4]), np.log([float(left)]))[0]
            return np.asarray(np.tensordot(weight, excess[k : k + 4], axes=1))

        return self._layers.get_or_make(left, make)

    def _solved(self) -> Floats:
        """Z at all knots, (pulls left, I, J)."""
        stages, most = self.problem.stages, self._priors.max(axis=0)
        last = _position(most + stages).astype(int) + 2
        a, b = (
            2.0 ** (np.arange(first, end + 1) / PER_OCTAVE)
            for first, end in zip(self._first, last, strict=True)
        )
        excess = np.zeros((self._left.size, a.size, b.size))
        # a + b grows from the prior by one a pull; stencils reach two knots beyond, in both
        # directions: to larger parameters, and to fewer pulls left
        later = np.maximum(np.arange(self._left.size) - 3, 0)
        pulls = stages - self._left[later] + 1.0
        reach = 2.0 ** (2.0 / PER_OCTAVE) * (float(most.sum()) + pulls)

        def solve(i: int) -> None:
            knot_excess(float(a[i]), b, self._left, reach, KNOT_ACCURACY, excess[:, i])

        with pool(worker_count(self._workers)) as threads:
            threads.map_told("knots of indices", solve, range(a.size))
        return excess


def _position(parameter: Floats) -> Floats:
    """Of parameters of posteriors among the knots."""
    return np.asarray(np.floor(PER_OCTAVE * np.log2(parameter)))


def _stencil(parameter: Floats, first: int) -> tuple[Counts, Floats]:
    """First of the four knots around parameters of posteriors, and the weights of all four."""
    begin = _position(parameter) - 1.0
    offsets = PER_OCTAVE * np.log2(parameter) - begin
    return begin.astype(np.int64) - first, _lagrange(np.arange(4.0), offsets)


def _lagrange(knots: Floats, x: Floats) -> Floats:
    """Weights of four knots in cubics at x, (points, 4)."""
    weights = np.ones((x.size, 4))
    for i in range(4):
        for j in range(4):
            if i != j:
                weights[:, i] *= (x - knots[j]) / (knots[i] - knots[j])
    return weights


def _left_knots(stages: int) -> Counts:
    """Numbers of pulls left that are knots, rising; the last is all stages."""
    steps = np.arange(PER_OCTAVE * 64) / PER_OCTAVE
    spread = np.round(EACH_LEFT * 2.0**steps)
    return np.unique([*range(1, EACH_LEFT + 1), *spread[spread < stages], stages]).astype(np.int64)
