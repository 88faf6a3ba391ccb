"""Price paths, which calibrated indices are calibrated against: the family to choose from.

    flat            0                                  the finite-horizon Gittins index
    theta           theta * mu[s]                      around DeCo's own prices
    best            best * m[s]                        around what the best arm earns, m[s] its
                                                       mean reward at stage s, expected
    root            kappa * scale * sqrt((T - s) / T)  a premium that fades with the time left

The surcharge c, the same at every stage that is played (and `deploy` times as large for the
deployment, which is worth that many pulls), is added to them. It may come in steps, one `tick`
apart: `kernels.calibrated`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Group, Problem, best_mean_per_pull
from ..support import Floats, InvalidArgument
from ..support.records import doc, record_class
from .one_arm_values import check_prices


@record_class()
class PricePath:
    """A price path: a premium that fades, and multiples of DeCo's prices or of the best mean.

    And the steps in which surcharges are added to it, where there are any.

    Examples
    --------
    >>> from decobandit.arm import PricePath
    >>> str(PricePath(kappa=0.1))
    '0.1 sqrt((T-s)/T)'
    >>> str(PricePath(kappa=0.1, tick=0.02))
    '0.1 sqrt((T-s)/T) in ticks of 0.02'
    """

    theta: float = doc("Weight of the prices of the solved dual.", default=0.0)
    kappa: float = doc(
        "Size of the premium at the first stage, in units of the largest reward difference.",
        default=0.0,
    )
    tick: float = doc(
        "Distance of two surcharges, in the same units: between them the advantage of a pull is "
        "interpolated. 0: surcharges are any numbers.",
        default=0.0,
    )
    best: float = doc(
        "Weight of the expected mean reward of the best arm at each stage.", default=0.0
    )

    @property
    def flat(self) -> bool:
        """Whether it is that of FH-Gittins."""
        return self == PricePath()

    def prices(self, problem: Problem, solved: Floats | None, *, start: int = 0) -> Floats:
        """Return the path over all stages, without the surcharge; `solved`: prices of the dual.

        The premium fades from stage `start` on, where a plan is made that late.
        """
        base = np.zeros(problem.stages)
        if self.theta:
            if solved is None:
                raise InvalidArgument(
                    "theta: a path around DeCo's prices needs a solved dual", field="theta"
                )
            check_prices(solved, problem)
            base += self.theta * solved
        if self.best:
            base += self.best * best_mean_per_pull(problem)
        if self.kappa:
            left = np.maximum(problem.horizon - np.arange(problem.stages), 0)
            left = np.minimum(left / (problem.horizon - start), 1.0)
            base += self.kappa * reward_scale(problem) * np.sqrt(left) * problem.survival
        return base

    def to_dict(self) -> dict[str, Any]:
        """Plain values; without those that came later where they are 0, as before they came."""
        later = {"tick": self.tick, "best": self.best}
        parameters = {"theta": self.theta, "kappa": self.kappa}
        return parameters | {name: value for name, value in later.items() if value}

    def __str__(self) -> str:
        parts = [f"{self.theta:g} mu"] * bool(self.theta)
        parts += [f"{self.best:g} best"] * bool(self.best)
        parts += [f"{self.kappa:g} sqrt((T-s)/T)"] * bool(self.kappa)
        return (" + ".join(parts) or "flat") + f" in ticks of {self.tick:g}" * bool(self.tick)


def is_steady(problem: Problem, group: Group | None = None) -> bool:
    """Whether all stages are alike, rewards of arms, or of a group, and the end included."""
    return problem.terminal is None and all(
        one.terminal is None
        and bool(np.all(one.reward_good == one.reward_good[0]))
        and bool(np.all(one.reward_bad == one.reward_bad[0]))
        for one in ([group] if group else problem.groups)
    )


def reward_scale(problem: Problem) -> float:
    """Return the largest difference that one outcome makes before any deployment."""
    spread = max(
        float(np.abs(group.reward_good - group.reward_bad)[: problem.horizon].max())
        for group in problem.groups
    )
    return spread or 1.0
