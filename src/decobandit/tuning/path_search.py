"""The price path to calibrate against: the one whose policy has the largest value.

Small problems: by exact evaluation, so that the choice is never worse than FH-Gittins, whose flat
path is among the candidates; gains are in `docs/reproduction/table1.md`. Larger ones: premiums
c sqrt((T-s)/T) / sqrt(T) are compared by simulation on common draws. The best c hardly depends on
the horizon, so beyond SIMULATED_STAGES it is chosen at that many stages. If that is not possible,
c is DEFAULT_PREMIUM. `docs/decisions/0004-default-path.md` has the measurements.

Where an arm is deployed at the end, what is learned in the trial is worth more than what is earned
in it, and the knowledge gradient may earn more than every path. It is compared in the same way,
and `ChosenPath.gradient` says so.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arm import PricePath, price_array
from ..evaluation import TooManyStates, evaluate
from ..policies import CalibratedPolicy, KnowledgeGradientPolicy, Policy
from ..prices import DualSolution, check_solution, solve
from ..problem import DEFAULT_TIES, Problem, TieRule, check_problem, true_problem
from ..simulation import simulate
from ..support import former_spellings, obeys_workers

Floats = npt.NDArray[np.float64]
DEFAULT_PREMIUM = 0.8
PREMIUMS = (0.0, 0.4, 0.8, 1.2)
SIMULATED_STAGES = 150
SIMULATED_GROUPS = 5  # kinds of arms: each has a table of its own
DRAWS, PER_DRAW = 4000, 2
COMPARED_SWEEPS = 512  # of a table that is only used to compare candidates
CANDIDATES = (
    PricePath(),
    *(PricePath(theta=theta) for theta in (0.2, 0.4, 0.6, 0.8)),
    *(PricePath(kappa=kappa) for kappa in (0.1, 0.2, 0.3)),
)
STEP = {"theta": 0.2, "kappa": 0.1}
REFINEMENTS = 8  # evaluations for each refinement of a parameter, if the budget allows
MOST_STAGES = 48  # beyond this tables are not exact and evaluations are long
MOST_STATES = 2_000_000  # reached by one candidate
MOST_STATES_IN_ALL = 16_000_000
ASKED_STATES = 20_000  # of a policy without a table, which is asked in each


@dataclass(frozen=True)
class ChosenPath:
    """A price path, and how it was chosen.

    Attributes
    ----------
    path : PricePath
        The one that earns most.
    value : float or None
        What its policy earns, where that is known exactly.
    evaluations : int
        Paths that were compared.
    method : str
        "exact", "simulated" or "default".
    gradient : bool
        Whether the knowledge gradient earns more than this path; it is only tried where there is a
        deployment.

    Examples
    --------
    >>> from decobandit import Problem, choose_path
    >>> chosen = choose_path(Problem.uniform(arms=2, horizon=4))
    >>> chosen.method, round(chosen.value, 6)
    ('exact', 2.277778)
    """

    path: PricePath
    value: float | None
    evaluations: int
    method: str
    gradient: bool = False


def premium_path(premium: float, horizon: int) -> PricePath:
    """The premium that fades over `horizon` stages."""
    return PricePath(kappa=round(premium / math.sqrt(horizon), 6))


@former_spellings("prices")
@obeys_workers
def choose_path(
    problem: Problem,
    *,
    solution: DualSolution | None = None,
    prices: npt.ArrayLike | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    limit_states: int = MOST_STATES,
    workers: int | None = None,
) -> ChosenPath:
    """The price path whose calibrated index earns most on a problem.

    Parameters
    ----------
    problem : Problem
        What the index is for.
    solution : DualSolution, optional
        Whose prices paths are built from; the dual is solved here by default, to `tol`, where they
        are needed.
    prices : array_like, optional
        Prices in place of those of a solution, (stages,).
    tol : float
        Relative gap of the prices, where the dual is solved here.
    ties : TieRule
        How the policies break ties.
    limit_states : int
        States that a policy may reach for paths to be compared exactly; beyond, by simulation.
    workers : int, optional
        Threads that share the work; all processors by default.

    Returns
    -------
    ChosenPath

    Raises
    ------
    ValueError
        If the prices are not one finite number per stage, or the solution is of another problem.

    Examples
    --------
    >>> from decobandit import CalibratedPolicy, Problem, choose_path, solve
    >>> problem = Problem.uniform(arms=2, horizon=4)
    >>> solution = solve(problem)
    >>> chosen = choose_path(problem, solution=solution)
    >>> policy = CalibratedPolicy(problem, chosen.path, solution.prices)
    """
    check_problem(problem)
    if solution is not None:
        prices = check_solution(solution, problem).prices
    if problem.stages > MOST_STAGES:
        return _simulated(problem, ties)
    at = solve(problem, tol=tol).prices if prices is None else price_array(prices, problem)
    search = _PathSearch(problem, at, ties, limit_states)
    try:
        for path in CANDIDATES:
            search.value(path)
    except TooManyStates:
        return _simulated(problem, ties)
    with suppress(TooManyStates):  # what has been found until then stands
        for parameter in ("theta", "kappa", "theta"):  # around the best so far, one at a time
            search.refine(parameter)
    best = search.best
    value, gradient = search.found[best], False
    if rival := _gradient(problem, ties):
        try:
            gradient = evaluate(problem, rival, limit_states=ASKED_STATES).value > value
        except TooManyStates:
            gradient = _earns_more(rival, CalibratedPolicy(problem, best, at, ties=ties))
    return ChosenPath(best, value, len(search.found), "exact", gradient)


def _gradient(problem: Problem, ties: TieRule) -> KnowledgeGradientPolicy | None:
    """The knowledge gradient, where it is a rival; None without a deployment."""
    if problem.terminal is None:
        return None
    try:
        return KnowledgeGradientPolicy(problem, ties=ties)
    except ValueError:  # rewards that change, several pulls per stage
        return None


def _earns_more(rival: Policy, policy: Policy) -> bool:
    """Whether it does, on common draws."""
    found = simulate(policy.problem, [policy, rival], draws=DRAWS, per_draw=PER_DRAW)
    if found.interrupted:
        raise KeyboardInterrupt
    return found.difference(rival.name, policy.name).value > 0.0


def _simulated(problem: Problem, ties: TieRule) -> ChosenPath:
    """The premium that earns most on common draws."""
    horizon = min(problem.horizon, SIMULATED_STAGES)
    default = ChosenPath(premium_path(DEFAULT_PREMIUM, problem.horizon), None, 0, "default")
    if len(problem.groups) > SIMULATED_GROUPS:
        return default
    try:
        short = true_problem(problem, None, horizon)
        policies = [
            CalibratedPolicy(
                short, premium_path(c, horizon), name=str(c), sweeps=COMPARED_SWEEPS, ties=ties
            )
            for c in PREMIUMS
        ]
        rival = _gradient(short, ties)
        rivals = [] if rival is None else [rival]
        found = simulate(short, [*policies, *rivals], draws=DRAWS, per_draw=PER_DRAW)
    except ValueError:  # rewards that do not define a shorter problem, or have no tables
        return default
    if found.interrupted:
        raise KeyboardInterrupt
    gains = {c: found.difference(str(c), str(PREMIUMS[0])).value for c in PREMIUMS}
    best = max(PREMIUMS, key=lambda c: gains[c])
    gradient = any(found.difference(each.name, str(best)).value > 0.0 for each in rivals)
    path = premium_path(best, problem.horizon)
    return ChosenPath(path, None, len(PREMIUMS), "simulated", gradient)


class _PathSearch:
    """Exact values of the paths tried so far."""

    def __init__(self, problem: Problem, prices: Floats, ties: TieRule, limit: int) -> None:
        self.problem = problem
        self.limit = limit
        self.prices = prices
        self.ties: TieRule = ties
        self.found: dict[PricePath, float] = {}
        self.states = 0  # of all evaluations so far

    def value(self, path: PricePath) -> float:
        if path not in self.found:
            policy = CalibratedPolicy(self.problem, path, self.prices, ties=self.ties)
            result = evaluate(self.problem, policy, limit_states=self.limit)
            self.found[path] = result.value
            self.states += result.states
        return self.found[path]

    @property
    def best(self) -> PricePath:
        return max(self.found, key=lambda path: (self.found[path], path.flat))

    def refine(self, parameter: str) -> None:
        """Vary one parameter of the best path within one step of the candidates' grid."""
        best, step = self.best, STEP[parameter]
        at = getattr(best, parameter)
        affordable = (MOST_STATES_IN_ALL - self.states) * len(self.found) // max(self.states, 1)
        if affordable < 1:
            return
        from scipy.optimize import minimize_scalar  # half a second that only this needs

        minimize_scalar(
            lambda x: -self.value(replace(best, **{parameter: round(float(x), 4)})),
            bounds=(max(at - step, 0.0), at + step),
            method="bounded",
            options={"maxiter": min(REFINEMENTS, affordable)},
        )
