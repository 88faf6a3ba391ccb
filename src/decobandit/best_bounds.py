"""The best upper bound that is known for a problem, and how far from it a policy can be.

Of the bound from prices, what the best arms would earn if they were known, and the information
bound, the smallest; the last one, which is estimated, counts with three standard errors on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .best_arm import best_mean_reward
from .dual import DualSolution
from .information_bounds import information_bound

ERRORS = 3.0  # standard errors on top of what is estimated
DRAWS = 200
LEAST_DRAWS = 50  # below which three errors promise too much
MOST_WORK = 400  # arms times stages up to which scenarios take a second or so


@dataclass(frozen=True)
class BestBound:
    """A number that no policy's value passes."""

    value: float
    kind: str  # lagrangian, trivial or information

    def gap_percent(self, value: float) -> float | None:
        """How far a value is below the bound, in percent of the bound."""
        return 100.0 * (self.value - value) / abs(self.value) if self.value else None

    def to_dict(self) -> dict[str, Any]:
        return {"best_bound": self.value, "best_bound_is": self.kind}


def check_bound_draws(draws: int | None) -> None:
    """Refuse scenarios too few for an error that can be relied on."""
    if draws is not None and 0 != draws < LEAST_DRAWS:
        raise ValueError(
            f"bound draws: {draws} is not allowed; must be 0, or {LEAST_DRAWS} or more"
        )


def best_bound(solution: DualSolution, *, draws: int | None = None) -> BestBound:
    """The smallest bound; scenarios are drawn where `draws` says so, or the problem is small."""
    check_bound_draws(draws)
    problem = solution.problem
    bounds = {"lagrangian": solution.upper_bound}
    trivial = best_mean_reward(problem)
    if trivial is not None:
        bounds["trivial"] = trivial
    if draws is None:
        draws = DRAWS if problem.number_of_arms * problem.stages <= MOST_WORK else 0
    if draws:
        found = information_bound(problem, solution, draws=draws)
        bounds["information"] = found.information + ERRORS * found.information_se
    kind = min(bounds, key=lambda name: bounds[name])
    return BestBound(bounds[kind], kind)
