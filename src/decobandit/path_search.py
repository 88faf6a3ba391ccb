"""Which price path to calibrate against: the one that earns most, found by exact evaluation.

Gains are in `docs/reproduction/table1.md`. The flat path is always among the candidates: a choice
made by exact values is never worse than FH-Gittins. Problems too large for that get DEFAULT_PATH;
`docs/decisions/0004-default-path.md` says why.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from .calibration import PricePath
from .evaluation import TooManyStates, evaluate
from .policies.base import DEFAULT_TIES, TieRule
from .policies.calibrated import CalibratedPolicy
from .problem import Problem

Floats = npt.NDArray[np.float64]
DEFAULT_PATH = PricePath(kappa=0.1)
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
    """A path, and what is known about it: its exact value, or None for the default."""

    path: PricePath
    value: float | None
    evaluations: int


def choose_path(problem: Problem, prices: Floats, *, ties: TieRule = DEFAULT_TIES) -> ChosenPath:
    """The best path of the family for this problem."""
    if problem.stages > MOST_STAGES:
        return ChosenPath(DEFAULT_PATH, None, 0)
    search = _PathSearch(problem, prices, ties)
    try:
        for path in CANDIDATES:
            search.value(path)
    except TooManyStates:
        return ChosenPath(DEFAULT_PATH, None, len(search.found))
    with suppress(TooManyStates):  # what has been found until then stands
        for parameter in ("theta", "kappa", "theta"):  # around the best so far, one at a time
            search.refine(parameter)
    best = search.best
    return ChosenPath(best, search.found[best], len(search.found))


class _PathSearch:
    """Exact values of the paths tried so far."""

    def __init__(self, problem: Problem, prices: Floats, ties: TieRule) -> None:
        self.problem = problem
        self.prices = prices
        self.ties: TieRule = ties
        self.found: dict[PricePath, float] = {}
        self.states = 0  # of all evaluations so far

    def value(self, path: PricePath) -> float:
        if path not in self.found:
            policy = CalibratedPolicy(self.problem, path, self.prices, ties=self.ties)
            result = evaluate(policy, limit_states=MOST_STATES)
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
        minimize_scalar(
            lambda x: -self.value(replace(best, **{parameter: round(float(x), 4)})),
            bounds=(max(at - step, 0.0), at + step),
            method="bounded",
            options={"maxiter": min(REFINEMENTS, affordable)},
        )
