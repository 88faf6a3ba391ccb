"""All bounds of a problem that were computed together, as `deco bound` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..problem import Problem
from .bound_kinds import BoundKind, best_of


@dataclass(frozen=True, eq=False)
class InformationBound:
    """Upper bounds on what any policy earns.

    Attributes
    ----------
    problem : Problem
        What is bounded.
    lagrangian : float
        The bound from the prices; exact.
    information, information_se : float
        The information-relaxation bound, estimated, and its standard error.
    weight : float
        Of the penalty, 0 to 1.
    trivial : float or None
        What the best arms earn if they are known; None where that is not defined. Exact.
    scenarios : int
        That were drawn.
    seed : int
        That they were drawn from.
    stopped_early : float
        Share of the scenarios with a bound on the maximum instead of it.
    seconds : float
        That the computation took.
    joint : float or None
        The joint bound, exact over the first `exact_stages` and from prices after them; None where
        it was not computed. With all stages it is the optimum.
    exact_stages : int
        That it follows.

    Examples
    --------
    >>> from decobandit import Problem, information_bound
    >>> found = information_bound(Problem.uniform(arms=2, horizon=4), draws=50, rng=1)
    >>> found.information < found.lagrangian
    True
    """

    problem: Problem
    lagrangian: float
    information: float
    information_se: float
    weight: float
    trivial: float | None
    scenarios: int
    seed: int
    stopped_early: float
    seconds: float
    joint: float | None = None
    exact_stages: int = 0

    @property
    def joint_is(self) -> BoundKind:
        """ "optimum" where the joint bound follows all stages, else "joint"."""
        return "optimum" if self.exact_stages == self.problem.stages else "joint"

    @property
    def best_is(self) -> BoundKind:
        """The kind of the smallest bound; the estimate counts with three standard errors."""
        return self._best[1]

    @property
    def best(self) -> float:
        """The smallest bound; three standard errors are added to the estimate."""
        return self._best[0]

    @property
    def _best(self) -> tuple[float, BoundKind]:
        return best_of(
            self.lagrangian,
            self.trivial,
            self.information,
            self.information_se,
            self.joint,
            joint_is=self.joint_is,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco bound --json` prints them."""
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "lagrangian": self.lagrangian,
            "information": self.information,
            "information_se": self.information_se,
            "trivial": self.trivial,
            "joint": self.joint,
            "exact_stages": self.exact_stages,
            "best": self.best,
            "best_is": self.best_is,
            "weight": self.weight,
            "draws": self.scenarios,
            "seed": self.seed,
            "stopped_early": self.stopped_early,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return (
            f"InformationBound(lagrangian {self.lagrangian:.4f}, information "
            f"{self.information:.4f} ± {self.information_se:.4f} at weight {self.weight:g})"
        )
