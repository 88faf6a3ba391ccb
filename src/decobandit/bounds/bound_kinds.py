"""The kinds of upper bounds, what they mean, and which of them is the best: one rule for all."""

from __future__ import annotations

from typing import Literal

BoundKind = Literal["lagrangian", "trivial", "information"]
STANDARD_ERRORS = 3.0  # added to an estimate before it counts as a bound
MEANINGS: dict[BoundKind, str] = {
    "lagrangian": "Lagrangian bound, from the prices",
    "trivial": "expected reward of always pulling the best arms",
    "information": "information-relaxation bound, estimate plus three standard errors",
}


def best_of(
    lagrangian: float,
    trivial: float | None = None,
    information: float | None = None,
    information_se: float = 0.0,
) -> tuple[float, BoundKind]:
    """The smallest bound and its kind; an estimate counts with its standard errors."""
    bounds: dict[BoundKind, float] = {"lagrangian": lagrangian}
    if trivial is not None:
        bounds["trivial"] = trivial
    if information is not None:
        bounds["information"] = information + STANDARD_ERRORS * information_se
    kind = min(bounds, key=lambda name: bounds[name])
    return bounds[kind], kind
