"""UCB-tuned: UCB1 with a bonus that knows the observed variance.

    g/n + sqrt(log t / n * min(1/4, v))
    v = g/n (1 - g/n) + sqrt(2 log t / n)        t pulls so far; arms never pulled first

Auer, Cesa-Bianchi and Fischer, Finite-time analysis of the multiarmed bandit problem, Machine
Learning 47, 2002, section 4. With several pulls per stage, t counts stages, in
batches pulls.
"""

from __future__ import annotations

import numpy as np

from .base import Policy
from .context import Context
from .table import BoundPolicy, Floats


class UcbTunedPolicy(BoundPolicy):
    """Pulls the largest bound with estimated variance."""

    name = "ucb-tuned"

    @classmethod
    def for_kinds(cls, context: Context) -> Policy:
        from .kinds.bounds import KindUcbTunedPolicy

        return KindUcbTunedPolicy.make(context)

    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        mean, log_t = g / n, self.log_clock(stage)
        variance = mean * (1.0 - mean) + np.sqrt(2.0 * log_t / n)
        return np.asarray(mean + np.sqrt(log_t / n * np.minimum(0.25, variance)), dtype=np.float64)
