"""What traders of any kind of arm keep by stage: values, what units are worth, and masses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arm.kernels.batches import offers
from ..problem import Group, Problem
from ..support import Floats


class StageTables:
    """The tables of equal arms in a market, and what is read from them in the same way.

    Parameters
    ----------
    problem, group
        What the arms are.
    sizes : sequence of int
        States that an arm can be in at every stage, and after the last.
    units : int
        That an arm may take at a stage.
    per_stage : int
        Rows of states that an arm goes through at a stage, at most.
    last, mean : array
        Last rewards and expected outcomes, by state.
    """

    def __init__(
        self, problem: Problem, group: Group, sizes: Sequence[int], units: int, per_stage: int,
        last: Floats, mean: Floats,
    ) -> None:  # fmt: skip
        self.problem, self.group = problem, group
        self.values = [np.zeros(size) for size in sizes]
        self.worth = [np.zeros((size, units)) for size in sizes[:-1]]  # Q(s; a), a = 1 .. units
        self.shares = [np.zeros(size) for size in sizes]  # masses, averaged over rounds
        self._last = last
        if problem.terminal is not None:
            self.worth.append((last + problem.terminal.deploy * mean)[:, None])
        for share in self.shares:
            share[0] = group.count
        self._under_way = np.zeros((per_stage + 1, sizes[-1]))
        self.mass = np.zeros(sizes[-1])

    def _later(self, stage: int) -> Floats:
        """Values after a stage; a deployment changes no state."""
        return self._last if stage == self.problem.horizon else self.values[stage + 1]

    def offer(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        size, units = self.worth[stage].shape
        present = int(np.count_nonzero(mass[:size] > 0.0))
        key, weight = np.empty(present * units), np.empty(present * units)
        offers(self._later(stage), self.worth[stage], mass[:size], key, weight)
        return key, weight

    def slopes(self, stage: int) -> Floats:
        """Index of every unit in every state of a stage, (states, units)."""
        size, units = self.worth[stage].shape
        key, weight = np.empty(size * units), np.empty(size * units)
        offers(self._later(stage), self.worth[stage], np.ones(size), key, weight)
        return key.reshape(size, units)

    def settle_softly(self, stage: int, price: float, width: float) -> None:
        """Values at a stage where taking a part x of a unit is charged width / 2 x^2."""
        over = self.slopes(stage) - price
        part = np.clip(over, 0.0, width)
        gain = (part * (over - 0.5 * part)).sum(axis=1) / width
        self.values[stage][:] = self._later(stage)[: gain.size] + gain

    def take(self, stage: int, part: Floats) -> float:
        """Take these parts of every unit, (states, units); units taken."""
        mass = self.mass[: len(part)]
        taken = float((mass * part.sum(axis=1)).sum())
        if stage < self.problem.horizon:
            units = part.shape[1]
            every = (len(self._under_way) - 1) // units
            under_way = self._under_way[::every, : len(part)]
            under_way[0] = mass * (1.0 - part[:, 0])
            under_way[1:units] = mass * (part[:, :-1] - part[:, 1:]).T
            under_way[units] = mass * part[:, -1]
            self.advance(stage)
        return taken

    def advance(self, stage: int) -> None:
        """Move the masses under way over a stage."""
        raise NotImplementedError

    def reset(self) -> None:
        self.mass[:] = 0.0
        self.mass[0] = self.group.count

    def _deploy(self, price: float, slack: float, part: float) -> tuple[float, float]:
        """What is deployed at a price, and its reward."""
        worth = self.worth[-1][:, 0] - self._last
        taken = self.mass * np.where(worth > price + slack, 1.0, part * (worth >= price - slack))
        return float(taken.sum()), float((taken * worth).sum())  # no BLAS: it starts threads

    def finish(self) -> float:
        return 0.0 if self.group.terminal is None else float((self.mass * self._last).sum())
