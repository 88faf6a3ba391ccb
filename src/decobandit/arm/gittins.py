"""Gittins indices: by knots at long horizons, discounted for ever, of normal arms.

`calibrated` picks the indices of a price path.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..problem import Problem, normal_excess
from ..problem.kernels.layout import slab_size
from ..support import Floats, Ints, Once, pool, worker_count
from .calibration import (
    FLAT_STAGES,
    Calibration,
    PricePath,
    TickCalibration,
    is_steady,
    reward_scale,
)
from .kernels.gittins import discounted_indices, knot_excess, knot_indices, knot_slab

KNOTS_PER_OCTAVE = 2  # for each doubling of a, b or the pulls left
MAX_DENSE_LEFT = 16  # up to here every number of pulls left is a knot
KNOT_ACCURACY = 1e-9  # of an index at a knot: far less than the error of cubics between knots
NEGLIGIBLE_DISCOUNT = 2e-3  # of the pulls beyond those that are followed
CHARGES = 4000  # grid of discounted indices: errors of 1e-6 mostly, 5e-5 at worst (d = 0.99)
MOST_PULLS = 3000  # of discounted indices: seconds
POINTS = 1201  # means of normal arms: v is 0.2% too large at 70 pulls, less before
MAX_Z = 6.0  # standard deviations 1 / sqrt(n) that these means span
NODES = 16  # of a quadrature over the next outcome, where it moves the mean by little
MIN_QUADRATURE_PULLS = 24.0


def calibrated(
    problem: Problem,
    path: PricePath,
    prices: Floats | None = None,
    *,
    start: int = 0,
    sweeps: int | None = None,
    knots_beyond: int = FLAT_STAGES,
) -> Calibration:
    """Return the indices under a price path; `prices`, `start` as in `PricePath.prices`.

    Beyond `knots_beyond` stages, those of a flat path come from knots if rewards are steady.
    """
    if path.flat and problem.stages > knots_beyond and is_steady(problem):
        return KnotCalibration(problem)
    base = path.prices(problem, prices, start=start)
    if path.tick:
        return TickCalibration(problem, base, tick=path.tick * reward_scale(problem))
    return Calibration(problem, base, sweeps=sweeps)


class KnotCalibration(Calibration):
    """Indices under a flat price and steady rewards, interpolated between knots.

    The knots are solved once and serve all stages and arms of a problem. One state and the table of
    a stage give the same number.
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
            [
                _stencil(prior + counts, first)
                for prior, first in zip(pair, self._first, strict=True)
            ]
            for pair in priors
        ]
        self._excess = Once(self._solved)

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """Return the index of one state, by interpolation; `crossings` has the exact one."""
        return float(self.indices(stage, group, np.array([(good, bad)]))[0])

    def indices(self, stage: int, group: int, counts: Ints) -> Floats:
        """Return the index of several states, (J, 2) good and bad outcomes -> (J,)."""
        first, second = counts.T[::-1] if self._swapped[group] else counts.T
        index = np.empty(len(counts))
        knot_indices(*self._arguments(stage, group), first, second, index)
        return self._in_rewards(group, index)

    def stage_index(self, stage: int) -> Floats:
        """Return the index of every state at a stage, (groups, slab)."""
        table = np.empty((len(self.problem.groups), slab_size(stage)))
        for k, index in enumerate(table):
            knot_slab(*self._arguments(stage, k), stage, index)
            for n in range(1, stage + 1) if self._swapped[k] else ():
                row = index[slab_size(n - 1) : slab_size(n)]
                row[:] = row[::-1].copy()
            index[:] = self._in_rewards(k, index)
        return table

    def _arguments(self, stage: int, group: int) -> tuple[Any, ...]:
        """Return prior, stencils and knots of a group, as the kernels take them."""
        (start_a, weight_a), (start_b, weight_b) = self._stencils[group]
        a, b = self._priors[group]
        return a, b, start_a, weight_a, start_b, weight_b, self._layer(stage)

    def _in_rewards(self, group: int, index: Floats) -> Floats:
        """Convert indices of the better outcome to the unit of the rewards."""
        arm = self.problem.groups[group]
        low, high = sorted((float(arm.reward_good[0]), float(arm.reward_bad[0])))
        return np.asarray(low + (high - low) * index)

    def refuse_large(self) -> None:
        """Accept every horizon: knots are few."""

    def is_made(self, stage: int) -> bool:
        """Whether the knots are solved: they serve all stages."""
        return self._excess.made

    def _layer(self, stage: int) -> Floats:
        """Return Z at the pulls left at a stage, (I, J)."""
        excess, left = self._excess(), self.problem.stages - stage
        k = int(np.searchsorted(self._left, left))
        if self._left[k] == left:
            return np.asarray(excess[k])
        k = min(max(k - 2, 0), self._left.size - 4)
        weight = _lagrange(np.log(self._left[k : k + 4]), np.log([float(left)]))[0]
        return np.asarray(np.tensordot(weight, excess[k : k + 4], axes=1))

    def _solved(self) -> Floats:
        """Solve Z at all knots, (pulls left, I, J)."""
        stages, most = self.problem.stages, self._priors.max(axis=0)
        last = _position(most + stages).astype(int) + 2
        a, b = (
            2.0 ** (np.arange(first, end + 1) / KNOTS_PER_OCTAVE)
            for first, end in zip(self._first, last, strict=True)
        )
        excess = np.zeros((self._left.size, a.size, b.size))
        # a + b grows from the prior by one a pull; stencils reach two knots beyond, in both
        # directions: to larger parameters, and to fewer pulls left
        later = np.maximum(np.arange(self._left.size) - 3, 0)
        pulls = stages - self._left[later] + 1.0
        reach = 2.0 ** (2.0 / KNOTS_PER_OCTAVE) * (float(most.sum()) + pulls)

        def solve(i: int) -> None:
            knot_excess(float(a[i]), b, self._left, reach, KNOT_ACCURACY, excess[:, i])

        with pool(worker_count(self._workers)) as threads:
            threads.map_told("knots of indices", solve, range(a.size))
        return excess


def _position(parameter: Floats) -> Floats:
    """Return the position of posterior parameters among the knots."""
    return np.asarray(np.floor(KNOTS_PER_OCTAVE * np.log2(parameter)))


def _stencil(parameter: Floats, first: int) -> tuple[Ints, Floats]:
    """Return the first of the four knots around posterior parameters, and their weights."""
    begin = _position(parameter) - 1.0
    offsets = KNOTS_PER_OCTAVE * np.log2(parameter) - begin
    return begin.astype(np.int64) - first, _lagrange(np.arange(4.0), offsets)


def _lagrange(knots: Floats, x: Floats) -> Floats:
    """Return the weights of four knots in cubics at x, (points, 4)."""
    weights = np.ones((x.size, 4))
    for i in range(4):
        for j in range(4):
            if i != j:
                weights[:, i] *= (x - knots[j]) / (knots[i] - knots[j])
    return weights


def _left_knots(stages: int) -> Ints:
    """Return the numbers of pulls left that are knots, rising; the last is all stages."""
    steps = np.arange(KNOTS_PER_OCTAVE * 64) / KNOTS_PER_OCTAVE
    spread = np.round(MAX_DENSE_LEFT * 2.0**steps)
    return np.unique([*range(1, MAX_DENSE_LEFT + 1), *spread[spread < stages], stages]).astype(
        np.int64
    )


def discounted_table(
    *, alpha: float, beta: float, reward_good: float, reward_bad: float, discount: float, pulls: int
) -> Floats:
    """Return discounted Gittins indices up to `pulls` pulls; (n, g) is at n (n + 1) / 2 + g."""
    swapped = reward_good < reward_bad
    a, b = (beta, alpha) if swapped else (alpha, beta)
    depth = int(np.ceil(np.log(NEGLIGIBLE_DISCOUNT) / np.log(discount)))
    table = np.zeros((pulls + 1) * (pulls + 2) // 2)
    # closer towards the ends, as posterior standard deviations are smaller there
    charges = np.sin(np.linspace(0.0, np.pi / 2.0, CHARGES + 1)) ** 2
    discounted_indices(a, b, discount, pulls, depth, charges, table)
    if swapped:  # back to good and bad outcomes
        rows = [table[n * (n + 1) // 2 : (n + 1) * (n + 2) // 2][::-1] for n in range(pulls + 1)]
        table = np.concatenate(rows)
    return np.asarray(min(reward_good, reward_bad) + abs(reward_good - reward_bad) * table)


@lru_cache(maxsize=64)
def normal_indices(prior_pulls: float, pulls: int, discount: float) -> Floats:
    """Return discounted index less mean of a normal arm after 0 .. `pulls` pulls, in noise sds.

    The index after n pulls, those that the prior is worth included, is the mean plus noise_sd v(n):
    a shift of all outcomes shifts it. With noise of standard deviation 1 and a charge of 0, an arm
    of mean m is worth

        V_n(m) = max(0, m + discount E V_{n+1}(m + Z / sqrt(n (n + 1)))),    Z standard normal

    and v(n) is minus the mean at which a pull becomes worth nothing.
    """
    depth = int(np.ceil(np.log(NEGLIGIBLE_DISCOUNT) / np.log(discount)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    scores = np.linspace(-MAX_Z, MAX_Z, POINTS)
    later, worth = np.zeros(POINTS), np.zeros(POINTS)
    excess = np.empty(pulls + 1)
    for k in range(pulls + depth, -1, -1):
        n = prior_pulls + k
        mean, spread = scores / np.sqrt(n), 1.0 / np.sqrt(n * (n + 1.0))
        if k == pulls + depth:
            worth = np.maximum(mean, 0.0) / (1.0 - discount)
        else:
            if n < MIN_QUADRATURE_PULLS:  # V is a sum of (m - c)^+: each exactly
                bends = np.diff(worth, prepend=0.0) / np.diff(later, prepend=later[0] - 1.0)
                bends = np.diff(bends[1:], prepend=0.0, append=1.0 / (1.0 - discount))
                expected = (normal_excess(later - mean[:, None], spread) * bends).sum(axis=1)
            else:
                at = mean[:, None] + spread * nodes
                there = np.interp(at, later, worth)
                there = np.where(at > later[-1], at / (1.0 - discount), there)
                expected = (there * weights).sum(axis=1)
            gain = mean + discount * expected
            if k <= pulls:
                excess[k] = -np.interp(0.0, gain, mean)
            worth = np.maximum(gain, 0.0)
        later = mean
    excess.setflags(write=False)
    return excess
