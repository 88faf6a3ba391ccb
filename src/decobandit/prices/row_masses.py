"""Masses of the arms of a group over their states in rows, moved forward stage by stage."""

from __future__ import annotations

import numpy as np

from ..arm import RowRelaxation
from ..arm.kernels.rows import row_ahead
from ..support import Floats


class RowMasses:
    """How many arms of a group are expected in each state, from fresh arms on."""

    def __init__(self, tables: RowRelaxation, group: int) -> None:
        self._rows, self._group = tables.rows[group], tables.problem.groups[group]
        self.mass = np.zeros(self._rows.size)
        self.mass[0] = self._group.count

    def pull(self, stage: int, part: Floats, observed: bool) -> tuple[float, float]:
        """Pull a part of the mass of the first states: pulls spent, and what they earn.

        observed: whether outcomes move the masses; those of a deployment do not.
        """
        rows, own = self._rows, self._group
        moved = part * self.mass[: part.size]
        earned = own.reward_base[stage] + own.reward_factor[stage] * rows.mean[: part.size]
        if observed:
            start, _, *laid_out = rows.arrays
            for n in range(stage, -1, -1):  # what comes to a row is not moved on
                here, after = slice(rows.start[n], rows.start[n + 1]), rows.start[n + 1 : n + 3]
                row_ahead(n, start, *laid_out, moved[here], self.mass[slice(*after)])
            self.mass[: part.size] -= moved
        return float(moved.sum()), float(moved @ earned)

    def last_rewards(self) -> float:
        """Of tables of last rewards, at the end."""
        terminal = self._group.terminal
        return 0.0 if terminal is None else float(self.mass @ terminal)
