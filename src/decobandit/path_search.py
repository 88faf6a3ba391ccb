"""Which price path to calibrate against: the one that earns most.

Small problems: by exact evaluation, so that the choice is never worse than FH-Gittins, whose flat
path is among the candidates; gains are in `docs/reproduction/table1.md`. Larger ones: premiums
c sqrt((T-s)/T) / sqrt(T) are compared by simulation on common draws. The best c hardly depends on
the horizon, so that beyond SIMULATED_STAGES it is looked for at that many stages. Where that cannot
be done, c is DEFAULT_PREMIUM. `docs/decisions/0004-default-path.md` has the measurements.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .calibration import PricePath
from .evaluation import TooManyStates, evaluate
from .policies.base import DEFAULT_TIES, TieRule
from .policies.calibrated import CalibratedPolicy
from .problem import Problem
from .simulation import simulate
from .worlds import true_problem

Floats = npt.NDArray[np.float64]
DEFAULT_PREMIUM = 0.8
PREMIUMS = (0.0, 0.4, 0.8, 1.2)
SIMULATED_STAGES = 150
SIMULATED_GROUPS = 5  # kinds of arms: each has a table of its own
DRAWS, PER_DRAW = 4000, 2
COARSE = 512  # sweeps of a table that is only compared with others
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


@dataclass(frozen=True)
class ChosenPath:
    """A path, how it was chosen, and its exact value where that is known."""

    path: PricePath
    value: float | None
    evaluations: int
    method: str  # exact, simulated or default


def premium_path(premium: float, horizon: int) -> PricePath:
    """The premium that fades over `horizon` stages."""
    return PricePath(kappa=round(premium / math.sqrt(horizon), 6))


def choose_path(
    problem: Problem,
    prices: Floats,
    *,
    ties: TieRule = DEFAULT_TIES,
    limit_states: int = MOST_STATES,
) -> ChosenPath:
    """The best path of the family for this problem; exactly up to `limit_states` per candidate."""
    if problem.stages > MOST_STAGES:
        return _simulated(problem, ties)
    search = _PathSearch(problem, prices, ties, limit_states)
    try:
        for path in CANDIDATES:
            search.value(path)
    except TooManyStates:
        return _simulated(problem, ties)
    with suppress(TooManyStates):  # what has been found until then stands
        for parameter in ("theta", "kappa", "theta"):  # around the best so far, one at a time
            search.refine(parameter)
    best = search.best
    return ChosenPath(best, search.found[best], len(search.found), "exact")


def _simulated(problem: Problem, ties: TieRule) -> ChosenPath:
    """The premium that earns most on common draws."""
    horizon = min(problem.horizon, SIMULATED_STAGES)
    default = ChosenPath(premium_path(DEFAULT_PREMIUM, problem.horizon), None, 0, "default")
    if len(problem.groups) > SIMULATED_GROUPS:
        return default
    try:
        short = true_problem(problem, None, horizon)
        policies = [
            CalibratedPolicy(short, premium_path(c, horizon), name=str(c), sweeps=COARSE, ties=ties)
            for c in PREMIUMS
        ]
        found = simulate(short, policies, draws=DRAWS, per_draw=PER_DRAW)
    except ValueError:  # rewards that do not say how a shorter problem looks, or have no tables
        return default
    if found.interrupted:
        raise KeyboardInterrupt
    gains = {c: found.difference(str(c), str(PREMIUMS[0])).value for c in PREMIUMS}
    best = max(PREMIUMS, key=lambda c: gains[c])
    return ChosenPath(premium_path(best, problem.horizon), None, len(PREMIUMS), "simulated")


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
            result = evaluate(policy, limit_states=self.limit)
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
