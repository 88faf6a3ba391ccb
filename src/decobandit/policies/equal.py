"""Equal allocation: pull the arm with the fewest pulls, in turn, whatever has been observed.

    -n

What a classical trial of fixed allocation does. At a deployment, the largest expected reward.
Serves any problem.
"""

from __future__ import annotations

from ..problem import Group
from .table import Floats, TablePolicy


class EqualPolicy(TablePolicy):
    """Round robin."""

    name = "equal"

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        # in units of the rewards: ties are judged in them, and one pull must not pass for none
        return -n * self.scale
