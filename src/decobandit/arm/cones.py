"""The terms of arms near the states that a trial has reached: fast `OneArmValues` for few states.

A trial needs a few states of every stage, in the order of the stages. One backward sweep over
all states keeps V at few stages, the checkpoints. Between two checkpoints, only the states that an
arm can reach before the later one matter: a small cone, swept from the values of the checkpoint.
Large cones in turn keep checkpoints and have smaller cones between them.

    stages of a cone    0..depth, its own; all are kept up to WHOLE, else one in PARTS
    states of a cone    (n, g) pulls and good outcomes since its tip, n at most the stage

The good and bad outcomes at the tip of a cone are multiples of its `grain`, so neighbouring states
share a cone. Which cone serves a state does not depend on earlier requests. Nor does any digit of
the result. A horizon of 1000 takes about 18 MB for each group: one sweep over all states, then
results from cones of about 100 and 20 stages.

Sweeps are done when they are needed: a request at a late stage does not sweep the earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from ..problem import Problem
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, InvalidArgument, pool, worker_count
from .kernels.backward import index_terms
from .one_arm_values import Terms, check_prices, sweep_back

WHOLE = 48  # stages up to which every one is kept; more than the shortest inner cone has
PARTS = 12  # stretches between checkpoints
SHORTEST = 16  # stages between checkpoints
FINEST = 4  # outcomes between tips
MOST_CONES = 64  # of a group: enough for the states of all its arms, with pending outcomes


@dataclass(frozen=True)
class _Setting:
    """The one-arm problem of a cone, from its tip on: posterior, rewards and prices (depth,)."""

    alpha: float
    beta: float
    reward_good: Floats
    reward_bad: Floats
    prices: Floats

    def later(self, stage: int, good: int, bad: int) -> _Setting:
        """Return the one-arm problem after some stages and outcomes."""
        return _Setting(
            self.alpha + good,
            self.beta + bad,
            self.reward_good[stage:],
            self.reward_bad[stage:],
            self.prices[stage:],
        )


class _Cone:
    """V of the states that can be reached from its tip, up to a stage at which V is known."""

    def __init__(self, setting: _Setting, final: Floats, depth: int, most: int) -> None:
        """Start from `final`, V at stage `depth` (slab); `most` smaller cones are cached."""
        self.setting = setting
        self._depth = self._lowest = depth
        self._kept = {depth: final}
        self._step = 1 if depth <= WHOLE else max(SHORTEST, -(-depth // PARTS))
        self._grain = max(FINEST, self._step // PARTS)
        self._cones = Cache[tuple[int, int, int], _Cone](most)

    def keeps(self, stage: int) -> bool:
        """Whether the stage is a checkpoint."""
        return stage == self._depth or stage % self._step == 0

    def after(self, stage: int) -> int:
        """Return the next checkpoint."""
        return min(self._depth, (stage // self._step + 1) * self._step)

    def values(self, checkpoint: int) -> Floats:
        """V at a checkpoint, (slab,)."""
        while self._lowest > checkpoint:
            start, stop = self._lowest, (self._lowest - 1) // self._step * self._step
            V, arm = self._kept[start].copy(), self.setting
            prior, rewards = (arm.alpha, arm.beta), (arm.reward_good, arm.reward_bad)
            sweep_back(prior, rewards, arm.prices, V, start, stop)
            self._kept[stop] = V[: slab_size(stop)].copy()
            self._lowest = stop
        return self._kept[checkpoint]

    def inner(self, stage: int, pulls: int, good: int) -> tuple[_Cone, int, int, int]:
        """Return the cone of a state up to the next checkpoint, and its tip: stage, pulls, good."""
        top = self.after(stage)
        tip_good = good - good % self._grain
        tip_bad = (pulls - good) - (pulls - good) % self._grain
        tip = tip_good + tip_bad
        # so early that the cone has all states that share this tip, at every stage of the stretch
        first = max(tip, top - self._step - 2 * (self._grain - 1))

        def make() -> _Cone:
            final = slab_part(self.values(top), tip, tip_good, top - first)
            setting = self.setting.later(first, tip_good, tip_bad)
            return _Cone(setting, final, top - first, self._cones.most)

        cone = self._cones.get_or_make((top, tip_good, tip_bad), make)
        return cone, first, tip, tip_good


def slab_part(slab: Floats, pulls: int, good: int, rows: int) -> Floats:
    """Copy the states within `rows` pulls of a state to a slab of their own."""
    starts = [slab_size(pulls + n - 1) + good for n in range(rows + 1)]
    return np.concatenate([slab[start : start + n + 1] for n, start in enumerate(starts)])


class Cones:
    """One-arm problems of all groups at fixed prices (stages,). Threads may share it."""

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, workers: int | None = None
    ) -> None:
        """workers: threads that sweep the groups; all processors by default."""
        self.problem = problem
        self._workers = workers
        self.prices = np.array(prices, dtype=float)
        check_prices(self.prices, problem)
        self._groups = problem.groups
        self._cones: list[_Cone] = []  # of all states, by group
        self._lock = Lock()

    def terms(self, stage: int, group: int, stats: Sequence[float]) -> Terms:
        """Return expected reward and value of information of a pull of one arm of a group."""
        good, bad = (int(x) for x in stats)
        arm = self._groups[group]
        cone, V, n, g = self._lookup(stage, group, good, bad, after=1)
        ell, delta = index_terms(
            cone.alpha, cone.beta, arm.reward_good[stage], arm.reward_bad[stage], n, g, V
        )
        return Terms(float(ell), float(delta))

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """Return V of several states, good and bad outcomes each, (J, 2) -> (J,)."""
        return np.array([self.value(stage, group, counts) for counts in stats])

    def value(self, stage: int, group: int, stats: Sequence[float] | Floats) -> float:
        """V_stage of one arm of a group: what it earns from here on beyond the price of its pulls.

        The sum over the arms, and the price of all pulls from here on, bound what any policy can
        still earn.
        """
        good, bad = (int(x) for x in stats)
        _, V, n, g = self._lookup(stage, group, good, bad, after=0)
        return float(V[slab_size(n - 1) + g])

    def _lookup(
        self, stage: int, group: int, good: int, bad: int, *, after: int
    ) -> tuple[_Setting, Floats, int, int]:
        """V at the stage `after` this one, the position of the state in it, and its cone."""
        last = self.problem.stages - after
        if not 0 <= stage <= last:
            raise InvalidArgument(
                f"stage: {stage} is not allowed; must be 0..{last}", field="stage"
            )
        if min(good, bad) < 0 or good + bad > stage:
            raise InvalidArgument(
                f"{good} good, {bad} bad: not possible at stage {stage}", field="stats"
            )
        pulls = good + bad
        with self._lock:
            cone = self._wholes(stage)[group]
            while not cone.keeps(stage + after):
                cone, first, tip, tip_good = cone.inner(stage + after, pulls, good)
                stage, pulls, good = stage - first, pulls - tip, good - tip_good
            return cone.setting, cone.values(stage + after), pulls, good

    def _wholes(self, stage: int) -> list[_Cone]:
        """All states, by group; the first request sweeps all groups, because all will be needed."""
        if not self._cones:
            depth, cones = self.problem.stages, list[_Cone]()
            for arm in self._groups:
                rewards = arm.reward_good, arm.reward_bad
                last = np.zeros(slab_size(depth)) if arm.terminal is None else arm.terminal
                most = min(MOST_CONES, 12 + 4 * arm.count)
                setting = _Setting(arm.alpha, arm.beta, *rewards, self.prices)
                cones.append(_Cone(setting, last, depth, most))
            with pool(worker_count(self._workers, most=len(cones))) as threads:
                threads.map(lambda cone: cone.values(cone.after(stage)), cones)
            self._cones = cones  # not before all of them are there
        return self._cones
