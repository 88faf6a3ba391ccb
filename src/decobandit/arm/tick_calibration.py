"""Calibrated indices whose surcharges come in steps: `kernels.tick_index` says what that means.

Policies earn more by steps: `docs/decisions/0004-default-path.md`. Steps also make tables cheap at
any horizon, as many sweeps as there are surcharges, and one state's index what its table has.
"""

from __future__ import annotations

import numpy as np

from ..problem import Problem
from ..support import Cache, Floats
from ..support.kernels.compiled import step_by_step
from .calibration import ACCURACY, CHUNKS, FLAT_STAGES, LONG_STAGES, Calibration, Job, Key
from .gittins_knots import KnotCalibration
from .kernels.calibrated_root import advantage
from .kernels.calibrated_sweep import crossing, stage_start
from .kernels.gittins import flat_index
from .kernels.tick_index import tick_index, tick_table
from .price_paths import PricePath, is_steady, reward_scale

MOST_STAGES = 400  # of tables of arms for which all states have to be looked at
MOST_WINDOW = 64  # states that a frontier may pass at a time; of more, some are placed halfway
SHORT_STAGES = 64  # up to here, several threads are slower than one
KEPT = 10_000  # indices of single states


def calibrated(
    problem: Problem,
    path: PricePath,
    prices: Floats | None = None,
    *,
    start: int = 0,
    sweeps: int | None = None,
    knots_beyond: int = FLAT_STAGES,
) -> Calibration:
    """Indices under a price path; `prices`, `start` as in `PricePath.prices`.

    Beyond `knots_beyond` stages, those of a flat path come from knots where rewards are steady.
    """
    if path.flat and problem.stages > knots_beyond and is_steady(problem):
        return KnotCalibration(problem)
    base = path.prices(problem, prices, start=start)
    if path.tick:
        return TickCalibration(problem, base, tick=path.tick * reward_scale(problem))
    return Calibration(problem, base, sweeps=sweeps)


class TickCalibration(Calibration):
    """Calibrated indices of all groups under the prices base + c weight, c in steps of a tick.

    Parameters
    ----------
    problem, base, workers
        As in `Calibration`.
    tick : float
        Distance of two surcharges. The best reward of the problem is one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from decobandit import Problem
    >>> from decobandit.arm import TickCalibration
    >>> made = TickCalibration(Problem.uniform(arms=2, horizon=2), np.zeros(2), tick=0.1)
    >>> round(made.index(stage=0, group=0, good=0, bad=0), 6)
    0.555556
    """

    def __init__(
        self, problem: Problem, base: Floats, *, tick: float, workers: int | None = None
    ) -> None:
        super().__init__(problem, base, workers=workers)
        self.tick = tick
        self._flat = False
        self._anchor = max(
            float(np.maximum(group.reward_good, group.reward_bad)[: problem.horizon].max())
            for group in problem.groups
        )
        self._indices = Cache[tuple[int, int, int, int], float](KEPT)

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """The index of one state, without a table."""

        def make() -> float:
            state, V = self._as_fresh_arm(stage, group, good, bad)
            surcharges = self._surcharges_below(self._ceiling(stage, group, good, bad), group)
            find = tick_index if self.problem.stages <= LONG_STAGES else step_by_step(tick_index)
            return float(find(*state, surcharges, ACCURACY * self._scale, V))

        return self._indices.get_or_make((stage, group, good, bad), make)

    def crossings(self, stage: int, group: int, good: int, bad: int) -> tuple[bool, list[float]]:
        """Every surcharge at which the interpolated advantage crosses zero; the last: `index`."""
        state, V = self._as_fresh_arm(stage, group, good, bad)
        surcharges = self._surcharges_below(self._ceiling(stage, group, good, bad), group)
        tol = ACCURACY * self._scale
        gains = [float(advantage(*state, c, tol, V)) for c in surcharges]
        found = [
            float(crossing(surcharges[j], surcharges[j - 1], gains[j], gains[j - 1]))
            for j in range(len(gains) - 1, 0, -1)
            if gains[j] > 0.0 >= gains[j - 1]
        ]
        return len(found) == 1, found

    def stage_index(self, stage: int) -> Floats:
        """Index of every state at a stage, (groups, slab): the same as `index`."""
        return self._whole_stage(stage)

    def _ceiling(self, stage: int, group: int, good: int, bad: int) -> float:
        """A surcharge at which no pull is worth its price.

        Where rewards stay the same, the Gittins index less the smallest price to come: at prices
        that are nowhere below the Gittins index an arm is never pulled.
        """
        arm = self.problem.groups[group]
        if not self._steady(group):
            return self._range(stage, group)[1]
        own = flat_index(
            arm.alpha + good,
            arm.beta + bad,
            arm.reward_good[0],
            arm.reward_bad[0],
            self.problem.stages - stage,
            ACCURACY,
        )
        return float(own - self.base[stage:].min()) + 1e-6 * self._scale

    def _surcharges_below(self, ceiling: float, group: int) -> Floats:
        """All that matter for a group, falling; the first is above the ceiling."""
        low = self._range(0, group)[0]
        first = int(np.floor((self._anchor - ceiling) / self.tick))
        last = int(np.ceil((self._anchor - low) / self.tick))
        return np.asarray(self._anchor - self.tick * np.arange(first, last + 1), dtype=np.float64)

    def _is_swept(self) -> bool:
        # with a deployment, states with a positive advantage need not be an upper set either
        return self.problem.terminal is None and self._monotone()

    def _solved_table(self, group: int) -> Floats:
        stages, arm = self.problem.stages, self.problem.groups[group]
        if stages > MOST_STAGES:
            raise ValueError(
                f"calibrated indices over {stages} stages need rewards of good above those of bad "
                f"and neither terminal tables nor a deployment (limit {MOST_STAGES} stages "
                "otherwise); use DeCo, which needs none"
            )
        table = np.empty(stage_start(stages))
        tick_table(
            arm.alpha,
            arm.beta,
            arm.reward_good,
            arm.reward_bad,
            self.base,
            self.weight,
            self._terminal(group),
            self._surcharges_below(self._range(0, group)[1], group),
            ACCURACY * self._scale,
            table,
        )
        return table

    def _jobs(self, group: int) -> list[Job]:
        surcharges = self._surcharges_below(self._range(0, group)[1], group)
        chunks = 1 if self.problem.stages <= SHORT_STAGES else CHUNKS
        edges = np.linspace(0, surcharges.size - 1, chunks + 1).astype(int)
        window = self._window(group)
        return [
            Job(group, surcharges[edges[i] : edges[i + 1] + 1], window, False, self._noise, i > 0)
            for i in range(chunks)
        ]

    def _window(self, group: int) -> int:
        """States of a row that the frontier may pass in one tick, and some more."""
        arm = self.problem.groups[group]
        spread = float((arm.reward_good - arm.reward_bad).min())
        weight = arm.alpha + arm.beta + self.problem.stages
        passed = int(min(2.0 * self.tick / spread * weight, MOST_WINDOW))
        return min(4 + passed, MOST_WINDOW, self.problem.stages + 1)

    def _key(self, group: int) -> Key:
        return (self.tick, self._anchor, *super()._key(group))
