"""Calibrated indices of arms with states in rows; finite-horizon Gittins indices at a flat price.

The index of a state is the largest surcharge at which a pull is as good as none. Advantages of all
states are computed at one surcharge after another, falling, and closer together where bounds on
largest zeros are not close enough (`kernels/row_indices.py`). A deployment costs the surcharge as
often as it is worth pulls.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..problem import Problem
from ..support import Floats, Ints, legs
from .arm_states import Grid, Rewards, arm_graph
from .kernels.row_indices import advantages, narrow

ACCURACY = 1e-12  # of an index, in units of the range of rewards
FEWEST_SURCHARGES, MOST_SURCHARGES = 128, 2000  # of a table, evenly over the range of rewards
TABLE_STEPS = 100_000_000.0  # products that a table of more than the fewest surcharges may take
MOST_TIMES = 8.0  # as many surcharges, where indices are far below all rewards or cross often
PENDING_BYTES = 2**28  # of advantages at surcharges that come later
COARSER = -1  # grids of half the usual points: indices differ by less than between two prices


Priced = tuple[
    float, Floats
]  # a surcharge, and advantages there: `out` of `kernels/row_indices.py`


class RowGittins:
    """Indices of one group of arms: of one state, or of all states, computed at the first request.

    base (stages,): price path to which the surcharge is added, at every stage times the probability
    that the stage is played; flat by default.
    """

    def __init__(
        self, problem: Problem, group: int, *, refine: int = COARSER, base: Floats | None = None
    ) -> None:
        self.problem, self._group = problem, problem.groups[group]
        self.graph = arm_graph(problem, self._group, Grid(refine=refine))
        self._rewards = Rewards(problem, self._group, self.graph)
        self._path = np.zeros(problem.stages) if base is None else base
        self._weight = problem.survival[: problem.horizon]
        self._scale_rewards()

    def _scale_rewards(self) -> None:
        """Measure rewards from `_shift` in units of `_scale`, and means from 0 to 1."""
        rows, rewards, T = self.graph, self._rewards, self.problem.horizon
        base, factor, deploy = rewards.base - self._path[:T], rewards.factor, rewards.deploy
        last, height = rewards.last, float(np.ptp(rewards.last))
        bottom = float(rows.mean.min())
        span = float(rows.mean.max()) - bottom
        weight = self._weight[:, None]
        ends = base[:, None] + factor[:, None] * np.array([bottom, bottom + span])
        shift, top = float((ends / weight).min()), float((ends / weight).max()) + height
        room, offsets = float(np.ptp(ends, axis=1).sum()) + height, ends[:, 0]
        deployed = np.zeros(0)
        if deploy:
            offsets = np.append(offsets, bottom - self._path[T] / deploy)
            top = max(top, float(offsets[-1]) + span + height)
            room += deploy * span
        scale = top - shift
        if scale < np.finfo(float).tiny:  # the same reward whatever happens
            scale, factor = 1.0, np.zeros(T)
            ends = shift * np.repeat(weight, 2, axis=1)
        if deploy:
            deployed = (offsets[-1] - shift + (rows.mean - bottom)) / scale
        off = float(np.abs(offsets).max()) * (1.0 + deploy) if np.ptp(offsets) else 0.0
        rise, fall = (np.append(x[:-1] - x[1:], x[-1]) for x in (rewards.rise, rewards.fall))
        noise = (T + 8.0) * (1.0 + deploy + height / scale) + off / scale
        self._shift, self._scale = shift, scale
        self._mean = (rows.mean - bottom) / (span or 1.0)
        self._base = (ends[:, 0] - shift * self._weight) / scale
        self._factor = factor * span / scale
        self._rise, self._fall = rise / scale, fall / scale
        self._deployed = deployed  # reward of a deployment per pull that it is worth, (states,)
        self._last = last / scale
        # a surcharge below all indices; an advantage that rounding may leave
        self._low = 0.0 if self._is_steady else -room / scale / float(self._weight.min())
        self._noise = 0.0 if self._is_steady else float(np.finfo(float).eps * noise)

    @cached_property
    def _is_steady(self) -> bool:
        """Whether rewards and prices are the same at all stages, and there are no last rewards.

        Then waiting is worth nothing at the index, the zero of the value of a pull, which falls.
        """
        T, rewards = self.problem.horizon, self._rewards
        steady = [rewards.base - self._path[:T], rewards.factor]
        constant = all(bool(np.all(x == x[0])) for x in (*steady, self._weight))
        return constant and not rewards.deploy and self._group.terminal is None

    def _priced(self, surcharge: float, place: Ints, first: int, lowest: int) -> Priced:
        """Advantages at a surcharge, of the stages that have a place, from `first` on."""
        graph, T, deploy = self.graph, self.problem.horizon, self._rewards.deploy
        final = np.zeros((2, graph.size))
        final[0] = self._last
        if deploy:
            worth = self._deployed - surcharge
            final[0] += deploy * np.maximum(worth, 0.0)
            final[1] = np.where(worth > 0.0, -deploy, 0.0)
        out = np.empty((2 if self._is_steady else 4, self._size(place)))
        D, V, dV = np.empty((3, graph.size))
        for above, below in legs(T, first, float(graph.arrays.weights.size)):
            charged = self._base - surcharge * self._weight
            earned = (self._mean, charged, self._factor, final, self._rise, self._fall)
            span = (self._weight, above, below, lowest, place)
            advantages(graph.arrays, *earned, *span, D, V, dV, out)
        return surcharge, out

    def _size(self, place: Ints) -> int:
        """States of the stages that have a place."""
        return int(self.graph.start[1:][: place.size][place >= 0].sum())

    def _solve(
        self, index: Floats, place: Ints, *, first: int, lowest: int, most: float, extra: float
    ) -> None:
        """Fill `index` where it is nan. place, lowest: as in `advantages`.

        To ACCURACY as long as no larger part of `most` surcharges is used than of the states is
        done, and `extra` ones; then to about 2 / most^2.
        """
        wanted = int(np.isnan(index).sum())
        passes, halved, step = 0, 0, 1.0 / 32.0

        def priced(surcharge: float) -> Priced:
            nonlocal passes
            passes += 1
            return self._priced(surcharge, place, first, lowest)

        (b, at_b), pending = priced(1.0), list[Priced]()
        index[np.isnan(index) & (at_b[0] >= -self._noise)] = 1.0
        keep = max(2, PENDING_BYTES // max(at_b.nbytes, 1))
        while (left := int(np.isnan(index).sum())) and b > self._low:
            if not pending:
                pending.append(priced(max(b - step, self._low)))
            a, at_a = pending[-1]
            middle = 0.5 * (a + b)
            close = passes < most * (1.0 - left / wanted) + extra
            last = not a < middle < b or b - a <= (ACCURACY if close else 0.5 / most)
            last = last or passes > MOST_TIMES * most
            guess = 0.0 if close else 2.0 * most**-2.0
            unsure, at = narrow(a, b, at_a, at_b, self._noise, ACCURACY, guess, last, index)
            if unsure and not last:
                halved += 1
                near = close and a < at < b and halved % 2 == 1
                pending.append(priced(at if near else middle))
                del pending[:-keep]
            else:
                step = 2.0 * (b - a)
                b, at_b = pending.pop()
        index[np.isnan(index)] = self._low
        index *= self._scale
        index += self._shift

    @cached_property
    def _index(self) -> list[Floats]:
        """Return the indices of all states at stages before any deployment."""
        T, start = self.problem.horizon, self.graph.start
        place = np.concatenate([[0], np.cumsum(start[1:T])]).astype(np.int64)
        index = np.full(self._size(place), np.nan)
        steps = TABLE_STEPS if self.graph.exact else 0.0
        products = 2.0 * float(start[1 : T + 1].sum())
        products *= self.graph.arrays.weights.size / self.graph.size  # successors of a state
        most = float(np.clip(steps / products, FEWEST_SURCHARGES, MOST_SURCHARGES))
        extra = FEWEST_SURCHARGES if most > FEWEST_SURCHARGES else -np.inf
        self._solve(index, place, first=0, lowest=0, most=most, extra=extra)
        return [index[place[t] : place[t] + start[t + 1]] for t in range(T)]

    def root(self, stage: int, stats: Floats) -> float:
        """Index of one arm, (width,): as in the table, solved to rounding."""
        rows = self.graph
        row, number = rows.locate(stats)
        n, at = int(row), float(number)
        low, high = int(rows.start[n]), int(rows.start[n + 1]) - 1
        near = np.clip(low + np.array([np.floor(at), np.ceil(at)]), low, high).astype(np.int64)
        place = np.full(self.problem.horizon, -1, dtype=np.int64)
        place[stage] = 0
        index = np.zeros(int(rows.start[stage + 1]))
        index[near] = np.nan
        self._solve(
            index, place, first=stage, lowest=n, most=MOST_SURCHARGES, extra=MOST_SURCHARGES
        )
        return float(self._at(stage, index, stats[None])[0])

    def index(self, stage: int, stats: Floats) -> Floats:
        """Index of arms with these statistics, (..., width) -> (...)."""
        return self._at(stage, self.table(stage), stats)

    def _at(self, stage: int, table: Floats, stats: Floats) -> Floats:
        """Beyond the ends of a grid indices change as the reward of a pull does."""
        index, beyond = self.graph.read(table[:, None], stats)
        if not beyond:
            return index[..., 0]
        nearest = self.graph.read(self.graph.mean[:, None], stats)[0][..., 0]
        factor = float(self._rewards.factor[stage])
        return np.asarray(index[..., 0] + factor * (self._group.model.mean(stats) - nearest))

    def table(self, stage: int) -> Floats:
        """Index of the states at a stage before any deployment."""
        return self._index[stage]
