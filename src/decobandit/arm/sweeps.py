"""Sweeps of one arm over many stages, in legs."""

from __future__ import annotations

from typing import Protocol

from ..problem.kernels.layout import slab_size
from ..support import Floats, legs
from .kernels.backward import sweep


class Posterior(Protocol):
    """Prior and rewards of an arm."""

    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def reward_good(self) -> Floats: ...
    @property
    def reward_bad(self) -> Floats: ...


def sweep_back(arm: Posterior, prices: Floats, V: Floats, start: int, stop: int) -> None:
    """Turn V = V_start into V_stop, in place, as `kernels.backward.sweep`."""
    for above, below in legs(start, stop, slab_size(start)):
        sweep(
            arm.alpha, arm.beta, arm.reward_good, arm.reward_bad, prices, V, above, below
        )  # fmt: skip
