"""Arms of any kind in a market: the passes over their states in rows."""

from __future__ import annotations

import numpy as np

from ..arm import ArmRows, RowRewards, arm_rows
from ..arm.kernels.batches import raise_values
from ..arm.kernels.rows import advance, follow_stage, settle_rows, stage_worth, stage_worths
from ..problem import Group, Problem
from ..support import refuse_over
from .batch_market import BatchMarket
from .stage_tables import StageTables

FAINT = 1e-11  # of the largest reward and the stages: values this small are left out, and added up


class RowTrader(StageTables):
    """Equal arms of any kind: values, what units are worth, and masses by stage.

    Values that are `faint` above zero, or above those of an arm that is always pulled, are not
    followed; `left_out` bounds what that can change in all stages.
    """

    def __init__(self, problem: Problem, group: Group, rows: ArmRows) -> None:
        self.rows, self.rewards = rows, RowRewards(problem, group)
        A, per_stage = self.rewards.units, self.rewards.per_stage
        sizes = [int(rows.start[per_stage * t + 1]) for t in range(problem.horizon + 1)]
        last = self.rewards.last(rows)
        super().__init__(problem, group, sizes, A, per_stage, last, rows.mean)
        self._single = per_stage == 1
        grid = self._single and not rows.exact
        self.faint = FAINT * self.largest * problem.horizon if grid else 0.0
        self._low, self._high = np.zeros(rows.rows + 2, np.int64), np.zeros(rows.rows + 2, np.int64)
        self._ground = self._slope = 0.0

    @property
    def left_out(self) -> float:
        return 2.0 * self.faint * self.problem.stages * self.group.count

    @property
    def largest(self) -> float:
        return self.rewards.largest(self.rows)

    def begin(self, softly: bool = False) -> None:
        self.values[-1][:] = self._last
        sizes = np.diff(self.rows.start)
        plain = self.group.terminal is None and not softly
        self._low[: sizes.size] = sizes if plain else 0
        self._high[: sizes.size] = -1 if plain else sizes
        self._ground = self._slope = 0.0

    def price(self, stage: int, part: int, parts: int) -> None:
        if stage == self.problem.horizon:
            return
        rows, rewards = self.rows, self.rewards.of_stage(stage)
        after, worth = self.values[stage + 1], self.worth[stage]
        if self._single:
            stage_worth(
                *rows.arrays, rows.up, rows.down, stage, *rewards, self._slope, self.faint,
                self._low, self._high, part, parts, after, worth.reshape(-1),
            )  # fmt: skip
        else:
            stage_worths(
                *rows.arrays, rows.up, rows.down, self.rewards.units, self.problem.unit, stage,
                *rewards, rows.widest, part, parts, after, worth,
            )  # fmt: skip

    def settle(self, stage: int, price: float) -> None:
        now, worth, T = self.values[stage], self.worth[stage], self.problem.horizon
        later = self._later(stage)
        if not self._single:
            raise_values(worth, price, later, now)
            return
        base, factor = (0.0, self.rewards.deploy)
        if stage < T:
            base, factor = self.rewards.of_stage(stage)[:2]
        self._ground += base - price
        self._slope += factor
        settle_rows(
            self.rows.start, self.rows.mean, stage, price, self._ground, self._slope, self.faint,
            worth, later, now, self._low, self._high,
        )  # fmt: skip

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        if stage == self.problem.horizon:
            return self._deploy(price, slack, part)
        base, factor, _, _ = self.rewards.of_stage(stage)
        spent, reward = follow_stage(
            *self.rows.arrays, self.rewards.units, self.problem.unit, stage, base, factor,
            self.values[stage + 1], self.worth[stage], price, slack, part, self.mass,
            self._under_way,
        )  # fmt: skip
        return float(spent), float(reward)

    def advance(self, stage: int) -> None:
        base, factor, _, _ = self.rewards.of_stage(stage)
        most = len(self._under_way) - 1
        advance(*self.rows.arrays, most, stage, base, factor, self.mass, self._under_way)


def row_market(
    problem: Problem, *, refine: int = 0, below: bool = False, workers: int = 2
) -> BatchMarket:
    """The market of a problem with arms of any kind; `below`: on contractions, where there are."""
    rows = {
        group.model: arm_rows(group.model, problem.most_pulls, refine) for group in problem.groups
    }
    if below:
        rows = {kind: each.lower or each for kind, each in rows.items()}
    per_stage = problem.most_pulls // problem.horizon
    last = problem.horizon * per_stage + 2
    states = sum(float(rows[g.model].start[1:last:per_stage].sum()) for g in problem.groups)
    under_way = sum(float(rows[g.model].size) for g in problem.groups) * (per_stage + 1)
    refuse_over(
        8.0 * (states * (per_stage // problem.unit + 2) + under_way),
        f"solving {len(problem.groups)} kinds of arms, {states:.2g} states in all stages,",
        "use fewer stages, smaller batches, fewer classes or a coarser grid",
    )
    return BatchMarket(
        problem, lambda group: RowTrader(problem, group, rows[group.model]), workers=workers
    )
