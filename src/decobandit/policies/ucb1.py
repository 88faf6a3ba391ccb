"""UCB1: the observed mean plus a bonus from Hoeffding's inequality.

    g/n + sqrt(2 log t / n)        t pulls so far; arms never pulled first

Auer, Cesa-Bianchi and Fischer, Finite-time analysis of the multiarmed bandit problem, Machine
Learning 47, 2002, figure 1. With several pulls per stage, t counts stages, in batches pulls.
"""

from __future__ import annotations

import math

import numpy as np

from ..support import Floats
from .bonus import BonusPolicy


class Ucb1Policy(BonusPolicy):
    """Pulls the largest Hoeffding bound."""

    name = "ucb1"
    kind_place = "decobandit.policies.kinds.bounds:KindUcb1Policy"

    def level(self, stage: int) -> float:
        return math.sqrt(2.0 * self.log_clock(stage))

    def width(self, n: Floats) -> Floats:
        return np.asarray(1.0 / np.sqrt(n), dtype=np.float64)
