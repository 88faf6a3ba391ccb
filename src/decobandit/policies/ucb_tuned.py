"""UCB-tuned: UCB1 with a bonus that knows the observed variance.

    g/n + sqrt(log t / n * min(1/4, v))
    v = g/n (1 - g/n) + sqrt(2 log t / n)        t pulls so far; arms never pulled first

Section 4 of the article of `ucb1`; t counts as there.
"""

from __future__ import annotations

import numpy as np

from ..support import Floats
from .table import BoundPolicy


class UcbTunedPolicy(BoundPolicy):
    """Pulls the largest bound with estimated variance."""

    name = "ucb-tuned"
    kind_place = "decobandit.policies.kinds.bounds:KindUcbTunedPolicy"

    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        mean, log_t = g / n, self.log_clock(stage)
        variance = mean * (1.0 - mean) + np.sqrt(2.0 * log_t / n)
        return np.asarray(mean + np.sqrt(log_t / n * np.minimum(0.25, variance)), dtype=np.float64)
