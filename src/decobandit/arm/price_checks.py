"""Prices that fit a problem."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..problem import Problem
from ..support import Floats, shown


def price_array(prices: npt.ArrayLike, problem: Problem, *, name: str = "prices") -> Floats:
    """The prices as an array of their own, (stages,), checked."""
    try:
        found = np.array(prices, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}: {shown(prices)} is not allowed; must be {problem.stages} numbers, "
            "one per stage"
        ) from None
    check_prices(found, problem, name=name)
    return found


def check_prices(prices: Floats, problem: Problem, *, name: str = "prices") -> None:
    """Refuse what is not one finite number per stage."""
    if prices.shape != (problem.stages,):
        raise ValueError(f"{name}: {prices.size} given, the problem has {problem.stages} stages")
    if not np.all(np.isfinite(prices)):
        raise ValueError(f"{name}: all must be finite")
