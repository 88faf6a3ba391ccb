"""What bounds on means need of outcomes of each kind: averages, Hoeffding's range, divergences."""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from ...problem import ArmModel, Binary, Classes, Counted, Measured
from ...support import Floats
from ..kernels.kl_bound import kl_upper_bounds
from ..names import own_state_policies

STEPS = 60  # of bisection


def _refused(kind: ArmModel, what: str) -> ValueError:
    return ValueError(f"{kind.word} arms: {what}")


@singledispatch
def averages(kind: ArmModel, stats: Floats) -> tuple[Floats, Floats | None]:
    """Mean of the outcomes so far and their variance (None: not kept), of arms with pulls."""
    what = "outcomes are states, which have no average to be bounded"
    raise _refused(kind, f"{what}; use {own_state_policies()}")


@averages.register
def _(kind: Binary, stats: Floats) -> tuple[Floats, Floats | None]:
    mean = stats[..., 0] / kind.pulls(stats)
    return mean, mean * (1.0 - mean)


@averages.register
def _(kind: Classes, stats: Floats) -> tuple[Floats, Floats | None]:
    shares, values = stats / kind.pulls(stats)[..., None], np.array(kind.values)
    mean = shares @ values
    return mean, np.maximum(shares @ values**2 - mean**2, 0.0)


@averages.register(Measured)
@averages.register(Counted)
def _(kind: Measured | Counted, stats: Floats) -> tuple[Floats, Floats | None]:
    return stats[..., 1] / stats[..., 0], None


def ends(kind: ArmModel) -> tuple[float, float]:
    """The smallest and the largest value of an outcome."""
    low, high = kind.mean_range
    if not math.isfinite(high - low):
        raise _refused(kind, "outcomes are not bounded")
    return low, high


@singledispatch
def hoeffding_range(kind: ArmModel) -> float:
    """r such that the mean of n outcomes is c too large with chance at most exp(-2 n c^2 / r^2).

    Of bounded outcomes the distance of the ends, of normal ones twice the noise.
    """
    low, high = ends(kind)
    return high - low


@hoeffding_range.register
def _(kind: Measured) -> float:
    return 2.0 * kind.noise_sd


@singledispatch
def divergence_bound(kind: ArmModel, n: Floats, mean: Floats, level: float) -> Floats:
    """The largest q with n KL(mean, q) <= level.

    Of bounded outcomes the divergence of good and bad outcomes, scaled to the ends: that of other
    outcomes with these means is larger.
    """
    low, high = ends(kind)
    if high == low:
        return mean
    found = np.empty((mean.size, 3))
    kl_upper_bounds(np.ravel(n), np.ravel(n * (mean - low) / (high - low)), level, found)
    return np.asarray(low + (high - low) * found[:, 0].reshape(mean.shape))


@divergence_bound.register
def _(kind: Measured, n: Floats, mean: Floats, level: float) -> Floats:
    return np.asarray(mean + kind.noise_sd * np.sqrt(2.0 * level / n))


@divergence_bound.register
def _(kind: Counted, n: Floats, mean: Floats, level: float) -> Floats:
    """KL(p, q) = q - p + p log(p / q) of Poisson counts, by bisection."""
    budget = level / n
    # above p it grows faster than (q - p)^2 / 2q, so that this q is too large
    low, high = mean, mean + budget + np.sqrt(budget * budget + 2.0 * budget * mean) + 1e-300
    for _ in range(STEPS):
        q = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            spent = q - mean + np.where(mean > 0.0, mean * np.log(mean / q), 0.0)
        low, high = np.where(spent <= budget, q, low), np.where(spent <= budget, high, q)
    return np.asarray(low)
