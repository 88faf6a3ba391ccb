"""The settings of a trial: problem, policy by name, and the prices of the solved problem.

The prices are part of the record. Decisions are recomputed from them, so that a later version of
the solver, which may find other prices that are as good, does not change a trial under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..policies import DEFAULT_POLICY, Context, Policy, check_policies, make_policies
from ..prices import DualSolution, SolutionRecord, dual_value
from ..problem import DEFAULT_TIES, Problem, TieRule, refuse_batches, tie_rule
from ..support import Once
from .errors import TrialError
from .events import canonical, digest

BOUND_TOLERANCE = 1e-9  # relative, of a bound that is computed again
MAX_ARMS = 1000  # every decision is stored with the numbers of every arm


@dataclass(frozen=True, eq=False)
class TrialSettings:
    """Everything that decisions depend on, but for the outcomes."""

    solution: DualSolution
    policy: str
    ties: TieRule
    seed: int
    parameters: Mapping[str, float] | None = None  # that a tuned policy was tuned to
    _multipliers_hash: Once[str] = field(init=False, repr=False)
    _tables_hash: Once[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        prices, everything = self.solution.prices, self.to_dict
        made = Once(lambda: digest(canonical({"prices": prices.tolist()})))
        object.__setattr__(self, "_multipliers_hash", made)
        made = Once(lambda: digest(canonical(everything() | {"seed": None})))
        object.__setattr__(self, "_tables_hash", made)

    def __reduce__(self) -> tuple[type[TrialSettings], tuple[object, ...]]:
        parameters = None if self.parameters is None else dict(self.parameters)
        return TrialSettings, (self.solution, self.policy, self.ties, self.seed, parameters)

    @property
    def problem(self) -> Problem:
        return self.solution.problem

    @property
    def multipliers_hash(self) -> str:
        """Of the price of every stage, the deployment's included."""
        return self._multipliers_hash()

    @property
    def tables_hash(self) -> str:
        """Of everything but the seed: settings with the same one share their tables."""
        return self._tables_hash()

    def to_dict(self) -> dict[str, Any]:
        return {
            **SolutionRecord.of(self.solution).to_dict(search=False),
            "policy": self.policy,
            "ties": self.ties,
            "seed": self.seed,
            "path": None if self.parameters is None else dict(self.parameters),
        }

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> TrialSettings:
        """Read what `to_dict` wrote."""
        # the log calls the settings "plan"
        solution = SolutionRecord.from_dict(tree).solution("plan")
        ties, seed = tie_rule(tree["ties"]), int(tree["seed"])
        return cls(solution, tree["policy"], ties, seed, tree["path"])

    def make_policy(self) -> Policy:
        """The policy, at the prices of the settings."""
        (policy,) = make_policies(self._context(), [self.policy])
        return policy

    def _context(self) -> Context:
        return Context(
            self.problem,
            tol=self.solution.tol,
            ties=self.ties,
            parameters=self.parameters,
            given=self.solution,
        )


def make_settings(
    problem: Problem,
    *,
    policy: str = DEFAULT_POLICY,
    ties: str = DEFAULT_TIES,
    seed: int = 0,
    tol: float = 1e-4,
    solution: DualSolution | None = None,
) -> TrialSettings:
    """Solve the problem, unless a solution is handed in, and choose the policy's price path."""
    if problem.number_of_arms > MAX_ARMS:
        raise TrialError(
            f"{problem.number_of_arms} arms; a trial has at most {MAX_ARMS}, "
            "because every decision is stored with the numbers of every arm"
        )
    check_policies([policy])
    refuse_batches(problem, "trials")
    rule = tie_rule(ties)
    if solution is not None:
        # a given solution is checked
        if solution.problem != problem:
            raise TrialError("the solution is of another problem")
        check_bound(solution)
    context = Context(problem, tol=tol, ties=rule, given=solution)
    if context.solution.interrupted:
        raise TrialError("the search for prices was interrupted: no trial was made")
    # a policy that does not serve this problem says so now
    (made,) = make_policies(context, [policy])
    made.refuse_large()
    return TrialSettings(context.solution, policy, rule, seed, made.record())


def check_bound(solution: DualSolution) -> None:
    """`TrialError` unless the prices of a solution prove the bound that it claims."""
    bound = dual_value(solution.problem, solution.prices).value
    if abs(bound - solution.upper_bound) > BOUND_TOLERANCE * max(1.0, abs(bound)):
        raise TrialError(
            f"the solution claims the bound {solution.upper_bound}, its prices prove {bound}"
        )
