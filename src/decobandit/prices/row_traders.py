"""Arms of any kind in a market: the passes over their states in rows."""

from __future__ import annotations

import numpy as np

from ..arm import ArmRows, RowRewards, arm_rows
from ..arm.kernels.batches import offers, raise_values
from ..arm.kernels.rows import follow_stage, settle_rows, stage_worth, stage_worths
from ..problem import Group, Problem
from ..support import Floats, refuse_over
from .batch_market import BatchMarket

FAINT = 1e-11  # of the largest reward and the stages: values this small are left out, and added up


class RowTrader:
    """Equal arms of any kind: values, what units are worth, and masses by stage.

    Values that are `faint` above zero, or above those of an arm that is always pulled, are not
    followed; `left_out` bounds what that can change in all stages.
    """

    def __init__(self, problem: Problem, group: Group, rows: ArmRows) -> None:
        self.problem, self.group, self.rows = problem, group, rows
        self.rewards = RowRewards(problem, group)
        A, per_stage = self.rewards.units, self.rewards.per_stage
        sizes = [int(rows.start[per_stage * t + 1]) for t in range(problem.horizon + 1)]
        self.values = [np.zeros(size) for size in sizes]
        self.worth = [np.zeros((size, A)) for size in sizes[:-1]]  # Q(s; a), a = 1 .. A
        self.shares = [np.zeros(size) for size in sizes]
        self._last = self.rewards.last(rows)
        if problem.terminal is not None:
            deployed = self._last + problem.terminal.deploy * rows.mean
            self.worth.append(deployed[:, None])
        for share in self.shares:
            share[0] = group.count
        self._single = per_stage == 1
        grid = self._single and not rows.exact
        self.faint = FAINT * self.largest * problem.horizon if grid else 0.0
        self._low, self._high = np.zeros(rows.rows + 2, np.int64), np.zeros(rows.rows + 2, np.int64)
        self._ground = self._slope = 0.0
        self._under_way = np.zeros((per_stage + 1, sizes[-1]))
        self.mass = np.zeros(sizes[-1])

    @property
    def left_out(self) -> float:
        return 2.0 * self.faint * self.problem.stages * self.group.count

    @property
    def largest(self) -> float:
        return self.rewards.largest(self.rows)

    def begin(self) -> None:
        self.values[-1][:] = self._last
        sizes = np.diff(self.rows.start)
        plain = self.group.terminal is None
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
                self._low, self._high, part, parts, after, worth,
            )  # fmt: skip
        else:
            stage_worths(
                *rows.arrays, rows.up, rows.down, self.rewards.units, self.problem.unit, stage,
                *rewards, rows.widest, part, parts, after, worth,
            )  # fmt: skip

    def _later(self, stage: int) -> Floats:
        """Values after a stage; a deployment changes no state."""
        return self._last if stage == self.problem.horizon else self.values[stage + 1]

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

    def offer(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        size, units = self.worth[stage].shape
        present = int(np.count_nonzero(mass[:size] > 0.0))
        key, weight = np.empty(present * units), np.empty(present * units)
        offers(self._later(stage), self.worth[stage], mass[:size], key, weight)
        return key, weight

    def reset(self) -> None:
        self.mass[:] = 0.0
        self.mass[0] = self.group.count

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        if stage < self.problem.horizon:
            base, factor, _, _ = self.rewards.of_stage(stage)
            spent, reward = follow_stage(
                *self.rows.arrays, self.rewards.units, self.problem.unit, stage, base, factor,
                self.values[stage + 1], self.worth[stage], price, slack, part, self.mass,
                self._under_way,
            )  # fmt: skip
            return float(spent), float(reward)
        worth = self.worth[stage][:, 0] - self._last
        taken = self.mass * np.where(worth > price + slack, 1.0, part * (worth >= price - slack))
        return float(taken.sum()), float((taken * worth).sum())

    def finish(self) -> float:
        return float((self.mass * self._last).sum())


def row_market(
    problem: Problem, *, refine: int = 0, below: bool = False, workers: int = 2
) -> BatchMarket:
    """The market of a problem with arms of any kind; `below`: on contractions, where there are."""
    rows = {
        group.kind: arm_rows(group.kind, problem.most_pulls, refine) for group in problem.groups
    }
    if below:
        rows = {kind: each.lower or each for kind, each in rows.items()}
    per_stage = problem.most_pulls // problem.horizon
    last = problem.horizon * per_stage + 2
    states = sum(float(rows[g.kind].start[1:last:per_stage].sum()) for g in problem.groups)
    refuse_over(
        8.0 * states * (per_stage // problem.unit + 2),
        f"solving {len(problem.groups)} kinds of arms, {states:.2g} states in all stages,",
        "use fewer stages, fewer classes or a coarser grid",
    )
    return BatchMarket(
        problem, lambda group: RowTrader(problem, group, rows[group.kind]), workers=workers
    )
