"""The best known upper bound of a problem, and the distance of a policy from it.

One rule for commands, plans and reports: the exact optimum where it takes a second or so; else the
smallest of the joint bound, the dual upper bound, the reward of always pulling the best arms and,
where scenarios are asked for, the information-relaxation bound plus three standard errors, since it
is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..prices import DualSolution, check_solution, whole_solution
from ..problem import Problem, best_mean_bound, check_problem
from ..support import Report, Rng, obeys_workers
from .bound_kinds import BoundKind, best_of
from .bound_results import InformationBound
from .information_bounds import information_bound
from .joint_bounds import JointBound, joint_bound, known_optimum

DRAWS = 200
MOST_WORK = 400  # arms times stages up to which scenarios take a second or so
ENOUGH_STAGES = 1 / 3  # of all: a joint bound of so many is rarely above that of scenarios
LEAST_DRAWS = 50  # with fewer, the standard error is not reliable


@dataclass(frozen=True)
class BestBound:
    """The best upper bound that is known: no policy earns more.

    Attributes
    ----------
    value : float
        The bound. One that is estimated has three standard errors on top.
    kind : str
        "optimum", "joint", "lagrangian", "trivial" or "information"; see `InformationBound`.

    Examples
    --------
    >>> from decobandit import Problem, best_bound
    >>> bound = best_bound(Problem.uniform(arms=2, horizon=4))
    >>> round(bound.gap_percent(2.25), 1)
    1.2
    """

    value: float
    kind: BoundKind

    def gap_percent(self, value: float) -> float | None:
        """How far a value is below the bound, in percent of the bound."""
        return 100.0 * (self.value - value) / abs(self.value) if self.value else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as commands print them."""
        return {"best_bound": self.value, "best_bound_is": self.kind}


def check_bound_draws(draws: int | None) -> None:
    """Refuse scenarios too few for an error that can be relied on."""
    if draws is not None and 0 != draws < LEAST_DRAWS:
        raise ValueError(
            f"bound draws: {draws} is not allowed; must be 0, or {LEAST_DRAWS} or more"
        )


@obeys_workers
def best_bound(
    problem: Problem,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    draws: int | None = None,
    rng: Rng = 1,
    workers: int | None = None,
    progress: Report | None = None,
) -> BestBound:
    """The smallest of the upper bounds that are known for a problem.

    The exact optimum where it takes a second or so. Else the smallest of the dual upper bound, the
    reward of always pulling the best arms, the joint bound, which is exact over the first stages,
    and the information bound of scenarios plus three standard errors.

    Parameters
    ----------
    problem : Problem
        What is bounded.
    solution : DualSolution, optional
        Prices and their bound; the dual is solved here by default, to `tol`.
    tol : float
        Relative gap of the prices, where the dual is solved here.
    draws : int, optional
        Scenarios of the information bound; 0 for none. By default some where the problem is small
        and the joint bound follows less than a third of its stages.
    rng, workers, progress
        As in `information_bound`.

    Returns
    -------
    BestBound

    Raises
    ------
    ValueError
        If the scenarios are too few for an error that can be relied on.

    Examples
    --------
    >>> from decobandit import Problem, best_bound
    >>> best_bound(Problem.uniform(arms=2, horizon=4)).kind
    'optimum'
    >>> best_bound(Problem.uniform(arms=8, horizon=50)).kind
    'joint'
    """
    check_problem(problem)
    check_bound_draws(draws)
    if solution is not None:
        check_solution(solution, problem)
    exact = known_optimum(problem, progress=progress)
    if exact is not None:
        return BestBound(exact.value, "optimum")
    if solution is None:
        solution = whole_solution(problem, tol=tol, progress=progress)
    joint = joint_bound(problem, solution, progress=progress)
    followed = 0 if joint is None else joint.stages
    if draws is None:
        draws = _usual_draws(problem, followed)
    if draws:
        found = information_bound(
            problem, solution=solution, draws=draws, rng=rng, workers=workers, progress=progress
        )
        found = with_joint(found, joint)
        return BestBound(found.best, found.best_is)
    bounds = best_of(
        lagrangian=solution.upper_bound,
        trivial=best_mean_bound(problem),
        joint=None if joint is None else joint.value,
    )
    return BestBound(*bounds)


def with_joint(found: InformationBound, joint: JointBound | None) -> InformationBound:
    """The same bounds and a joint one."""
    if joint is None:
        return found
    return replace(found, joint=joint.value, exact_stages=joint.stages)


def _usual_draws(problem: Problem, followed: int) -> int:
    """Scenarios where nothing else was asked for; `followed`: stages of the joint bound."""
    small = problem.n_arms * problem.stages <= MOST_WORK
    served = problem.is_binary and not problem.repeat
    return DRAWS if small and served and followed < ENOUGH_STAGES * problem.stages else 0
