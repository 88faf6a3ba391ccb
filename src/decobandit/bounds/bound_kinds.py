"""The kinds of upper bounds, what they mean, and which of them is the best: one rule for all."""

from __future__ import annotations

from typing import Literal

BoundKind = Literal["optimum", "joint", "lagrangian", "trivial", "information"]
STANDARD_ERRORS = 3.0  # added to an estimate before it counts as a bound
MEANINGS: dict[BoundKind, str] = {
    "optimum": "the exact optimum",
    "joint": "joint bound, exact over the first stages and from prices after them",
    "lagrangian": "Lagrangian bound, from the prices",
    "trivial": "expected reward of always pulling the best arms",
    "information": "information-relaxation bound, estimate plus three standard errors",
}


def best_of(
    lagrangian: float,
    trivial: float | None = None,
    information: float | None = None,
    information_se: float = 0.0,
    joint: float | None = None,
    *,
    joint_is: BoundKind = "joint",
) -> tuple[float, BoundKind]:
    """The smallest bound and its kind; an estimate counts with its standard errors.

    joint_is: "optimum" where the joint bound follows all stages; nothing is better, and an estimate
    below it is so by chance.
    """
    if joint is not None and joint_is == "optimum":
        return joint, "optimum"
    estimated = None if information is None else information + STANDARD_ERRORS * information_se
    bounds: dict[BoundKind, float | None] = {
        "joint": joint,
        "lagrangian": lagrangian,
        "trivial": trivial,
        "information": estimated,
    }
    known = {name: value for name, value in bounds.items() if value is not None}
    kind = min(known, key=lambda name: known[name])
    return known[kind], kind
