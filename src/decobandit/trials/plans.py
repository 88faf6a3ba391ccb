"""A trial's plan: the problem, the policy by name, and the prices that it was solved with.

The prices are part of the record. Decisions are recomputed from them, so that a later version of
the solver, which may find other prices that are as good, does not change a trial under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..calibration import PricePath
from ..dual import DualSolution, dual_value
from ..policies.base import DEFAULT_TIES, Policy, TieRule
from ..policies.calibrated import CalibratedPolicy
from ..problem import Problem
from ..problem_files import problem_from_dict, problem_to_dict
from ..registry import Workbench, tie_rule
from .errors import TrialError
from .events import canonical, digest

BOUND_TOLERANCE = 1e-9  # relative, of a bound that is computed again
MOST_ARMS = 1000  # every decision is stored with the numbers of every arm


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that decisions depend on, but for the outcomes."""

    solution: DualSolution
    policy: str
    ties: TieRule
    seed: int
    path: PricePath | None = None  # of the calibrated index

    @property
    def problem(self) -> Problem:
        return self.solution.problem

    @cached_property
    def multipliers_hash(self) -> str:
        """Of the price of every stage, the deployment's included."""
        return digest(canonical({"prices": self.solution.prices.tolist()}))

    @cached_property
    def tables_hash(self) -> str:
        """Plans with the same one share their tables: all but the seed is the same."""
        return digest(canonical(self.to_dict() | {"seed": None}))

    def to_dict(self) -> dict[str, Any]:
        solution = self.solution
        return {
            "problem": problem_to_dict(self.problem),
            "policy": self.policy,
            "ties": self.ties,
            "seed": self.seed,
            "tol": solution.tol,
            "multipliers": solution.multipliers.tolist(),
            "deployment_price": solution.deployment_price,
            "upper_bound": solution.upper_bound,
            "lower_bound": solution.lower_bound,
            "path": None if self.path is None else self.path.to_dict(),
        }

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Plan:
        """Read what `to_dict` wrote."""
        problem = problem_from_dict(tree["problem"], source="plan")
        multipliers = np.array(tree["multipliers"], dtype=float)
        if multipliers.shape != (problem.horizon,):
            raise ValueError("one multiplier per stage is needed")
        solution = DualSolution(
            problem=problem,
            multipliers=multipliers,
            deployment_price=tree["deployment_price"],
            upper_bound=tree["upper_bound"],
            lower_bound=tree["lower_bound"],
            tol=tree["tol"],
            oracle_calls=0,
            seconds=0.0,
            interrupted=False,
            history=(),
        )
        path = None if tree["path"] is None else PricePath(**tree["path"])
        return cls(solution, tree["policy"], tie_rule(tree["ties"]), int(tree["seed"]), path)

    def make_policy(self) -> Policy:
        """The policy, at the plan's own prices."""
        solution = self.solution
        if self.path is not None:
            return CalibratedPolicy(self.problem, self.path, solution.prices, ties=self.ties)
        bench = Workbench(self.problem, tol=solution.tol, ties=self.ties, solution=solution)
        return bench.policy(self.policy)


def make_plan(
    problem: Problem,
    *,
    policy: str = "deco",
    ties: str = DEFAULT_TIES,
    seed: int = 0,
    tol: float = 1e-4,
    solution: DualSolution | None = None,
) -> Plan:
    """Solve the problem, unless a solution is handed in, and choose the policy's price path."""
    if problem.number_of_arms > MOST_ARMS:
        raise TrialError(
            f"{problem.number_of_arms} arms; a trial has at most {MOST_ARMS}, "
            "for every decision is kept with the numbers of every arm"
        )
    bench = Workbench(problem, tol=tol, ties=tie_rule(ties), solution=solution)
    bench.check([policy])
    if solution is not None:
        # nothing is believed of a solution that was handed in
        if solution.problem != problem:
            raise TrialError("the solution is of another problem")
        check_bound(solution)
    if bench.solution.interrupted:
        raise TrialError("the search for prices was interrupted: no trial was made")
    path = bench.path.path if policy == "deco-calibrated" else None
    plan = Plan(bench.solution, policy, bench.ties, seed, path)
    plan.make_policy()  # a policy that does not serve this problem says so now
    return plan


def check_bound(solution: DualSolution) -> None:
    """`TrialError` unless the prices of a solution prove the bound that it claims."""
    bound = dual_value(solution.problem, solution.prices).value
    if abs(bound - solution.upper_bound) > BOUND_TOLERANCE * max(1.0, abs(bound)):
        raise TrialError(
            f"the solution claims the bound {solution.upper_bound}, its prices prove {bound}"
        )
