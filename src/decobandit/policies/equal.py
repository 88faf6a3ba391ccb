"""Equal allocation: pull the arm with the fewest pulls, independent of the outcomes.

    -n

The fixed allocation of a classical trial. At a deployment, the largest expected reward. Works for
any problem.
"""

from __future__ import annotations

from ..problem import Group
from ..support import Floats
from .table import TablePolicy


class EqualPolicy(TablePolicy):
    """Round robin."""

    name = "equal"
    kind_place = "decobandit.policies.kinds.rules:KindEqualPolicy"
    kind_batch_place = "decobandit.policies.kinds.batches:KindBatchEqualPolicy"

    def is_steady(self, first: int, last: int) -> bool:
        return True

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        # in units of the rewards, as ties are: one pull more must not count as a tie
        return -n * self.scale
