"""Equal allocation: pull the arm with the fewest pulls, independent of the outcomes.

    -n

The fixed allocation of a classical trial. At a deployment, the largest expected reward. Works for
any problem.
"""

from __future__ import annotations

import numpy as np

from ..support import Floats
from .index_policy import IndexPolicy


class EqualPolicy(IndexPolicy):
    """Round robin."""

    name = "equal"
    symmetric = True

    def is_steady(self, first: int, last: int) -> bool:
        return True

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        # in units of the rewards, as ties are: one pull more must not count as a tie
        pulls = self.problem.groups[group].model.pulls(stats)
        return np.asarray(-pulls * self.scale, dtype=np.float64)
