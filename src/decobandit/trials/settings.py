"""The settings of a trial: problem, policy by name, and the prices where the dual was solved.

The prices are part of the record. Decisions are recomputed from them, so that a later version of
the solver, which may find other prices that are as good, does not change a trial under way.

A policy that is made without prices starts at once: the dual is solved for the sake of the bound
only where that is quick, or asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..arm import OneArmValues
from ..bounds import MEANINGS, BestBound, best_bound
from ..policies import (
    DEFAULT_POLICY,
    Context,
    Policy,
    RuledPolicy,
    check_policies,
    make_policies,
)
from ..prices import DualSolution, SolutionRecord, dual_value
from ..problem import (
    DEFAULT_TIES,
    Problem,
    Rules,
    TieRule,
    problem_from_dict,
    problem_to_dict,
    tie_rule,
)
from ..support import Floats, Once
from .errors import TrialError
from .events import canonical, digest

BOUND_TOLERANCE = 1e-9  # relative, of a bound that is computed again
MAX_ARMS = 1000  # every decision is stored with the numbers of every arm
NO_BOUND = "no bound: the dual was not solved for this trial"


@dataclass(frozen=True, eq=False)
class TrialSettings:
    """Everything that decisions depend on, but for the outcomes."""

    solution: DualSolution | None  # None: the policy needs no prices, and no bound was wanted
    policy: str
    ties: TieRule
    seed: int
    parameters: Mapping[str, float] | None = None  # that a tuned policy was tuned to
    problem: Problem = None  # type: ignore[assignment]  # that of the solution, where there is one
    rules: Rules | None = None  # obeyed by the trial
    best_bound: BestBound | None = None  # the smallest that was known when the trial was made
    _multipliers_hash: Once[str] = field(init=False, repr=False)
    _tables_hash: Once[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        solution, everything = self.solution, self.to_dict
        if solution is not None:
            object.__setattr__(self, "problem", solution.problem)
            prices = solution.prices
            made = Once(lambda: digest(canonical({"prices": prices.tolist()})))
            object.__setattr__(self, "_multipliers_hash", made)
        made = Once(lambda: digest(canonical(everything() | {"seed": None})))
        object.__setattr__(self, "_tables_hash", made)

    def __reduce__(self) -> tuple[type[TrialSettings], tuple[object, ...]]:
        parameters = None if self.parameters is None else dict(self.parameters)
        fixed = (self.solution, self.policy, self.ties, self.seed, parameters, self.problem)
        return TrialSettings, (*fixed, self.rules, self.best_bound)

    @property
    def prices(self) -> Floats | None:
        """Of every stage, (stages,); None where the dual was not solved."""
        return None if self.solution is None else self.solution.prices

    @property
    def upper_bound(self) -> float | None:
        """On the expected total reward of any policy; None where the dual was not solved."""
        return None if self.solution is None else self.solution.upper_bound

    @property
    def best_bound_fields(self) -> dict[str, Any]:
        """As status and JSON have it: `best_bound`, `best_bound_is`."""
        none = {"best_bound": None, "best_bound_is": None}
        return none if self.best_bound is None else self.best_bound.to_dict()

    @property
    def plain_rules(self) -> dict[str, Any] | None:
        """The rules as a table of a file; None where there are none."""
        rules = self.rules
        return None if rules is None else rules.model_dump(mode="json", exclude_none=True)

    @property
    def multipliers_hash(self) -> str | None:
        """Of the price of every stage, the deployment's included; None without prices."""
        return None if self.solution is None else self._multipliers_hash()

    @property
    def tables_hash(self) -> str:
        """Of everything but the seed: settings with the same one share their tables."""
        return self._tables_hash()

    def to_dict(self) -> dict[str, Any]:
        solution = self.solution
        if solution is None:
            fixed: dict[str, Any] = {"problem": problem_to_dict(self.problem), "multipliers": None}
        else:
            fixed = SolutionRecord.of(solution).to_dict(search=False)
        return {
            **fixed,
            "policy": self.policy,
            "ties": self.ties,
            "seed": self.seed,
            "path": None if self.parameters is None else dict(self.parameters),
            "rules": self.plain_rules,
            **self.best_bound_fields,
        }

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> TrialSettings:
        """Read what `to_dict` wrote."""
        # the log calls the settings "plan"
        ties, seed = tie_rule(tree["ties"]), int(tree["seed"])
        fixed = (tree["policy"], ties, seed, tree["path"])
        rules = None if tree["rules"] is None else Rules(**tree["rules"])
        if tree["multipliers"] is None:
            problem = problem_from_dict(tree["problem"], source="plan: problem")
            return cls(None, *fixed, problem, rules)
        solution = SolutionRecord.from_dict(tree).solution("plan")
        return cls(solution, *fixed, rules=rules, best_bound=_best_bound_from(tree, solution))

    def make_policy(self) -> Policy:
        """The policy, at the prices of the settings; `TrialError` if it needs some, without any.

        The name may come from a file: code of another module is not imported unless it is allowed.
        """
        try:
            check_policies([self.policy], places=False)
        except ValueError as error:
            raise TrialError(f"the trial cannot be used: {error}") from None
        (policy,) = make_policies(self._context(), [self.policy], places=False)
        return policy

    def _context(self) -> Context:
        settings: dict[str, Any] = {"ties": self.ties, "parameters": self.parameters}
        if self.solution is None:
            return Context(self.problem, solver=_no_prices, **settings)
        settings |= {"tol": self.solution.tol, "given": self.solution, "play_given": True}
        return Context(self.problem, **settings)


def _best_bound_from(tree: dict[str, Any], solution: DualSolution) -> BestBound | None:
    """The best bound of a log; `TrialError` where it cannot be one."""
    value, kind = tree["best_bound"], tree["best_bound_is"]
    if value is None:
        return None
    numbers = isinstance(value, float | int) and not isinstance(value, bool)
    most = solution.upper_bound + BOUND_TOLERANCE * max(1.0, abs(solution.upper_bound))
    if kind not in MEANINGS or not numbers or not value <= most:
        raise TrialError("plan: the best bound is none, or larger than that of the prices")
    return BestBound(float(value), kind)


def _no_prices(problem: Problem, tol: float) -> DualSolution:
    raise TrialError("the policy asks for prices, and the trial has none on record")


def make_settings(
    problem: Problem,
    *,
    policy: str = DEFAULT_POLICY,
    ties: str = DEFAULT_TIES,
    seed: int = 0,
    tol: float = 1e-4,
    solution: DualSolution | None = None,
    bound: bool | None = None,
    rules: Rules | None = None,
) -> TrialSettings:
    """Make the policy, and solve the dual where it has to be solved.

    bound: whether to solve it for the bound alone; None: where that is quick.
    """
    if solution is not None and solution.problem != problem:
        raise TrialError("the solution is of another problem")
    context = Context(problem, tol=tol, ties=tie_rule(ties), given=solution)
    return settings_from(context, policy=policy, seed=seed, bound=bound, rules=rules)


def settings_from(
    context: Context,
    *,
    policy: str,
    seed: int = 0,
    bound: bool | None = None,
    rules: Rules | None = None,
) -> TrialSettings:
    """The same, from a context that solves the dual in its own way."""
    problem = context.problem
    if problem.n_arms > MAX_ARMS:
        raise TrialError(
            f"{problem.n_arms} arms; a trial has at most {MAX_ARMS}, "
            "because every decision is stored with the numbers of every arm"
        )
    check_policies([policy])
    if context.given is not None:
        check_bound(context.given)
    context = replace(
        context, solver=partial(_to_the_end, context.solver), under_rules=rules is not None
    )
    # a policy that does not serve this problem says so now, and one that is made from prices has
    # them solved
    (made,) = make_policies(context, [policy])
    made.refuse_large()
    if rules is not None:
        _check_rules(rules, made)
    solution = context.solution_for(bound)
    best = None if solution is None else best_bound(problem, solution=solution)
    if made.at_fixed_prices:
        solution = context.played
    name = made.name if policy == DEFAULT_POLICY else policy  # the log names what was picked
    fixed = (solution, name, context.ties, seed, made.record(), problem, rules)
    return TrialSettings(*fixed, best_bound=best)


def _check_rules(rules: Rules, policy: Policy) -> None:
    """`TrialError` where a trial could not obey them."""
    try:
        rules.check(policy.problem)
        ruled = RuledPolicy(policy, rules)
        if rules.stop.any:
            ruled.posteriors  # noqa: B018  # refuses priors that it cannot compare
    except ValueError as error:
        raise TrialError(" ".join(str(error).split())) from None


def _to_the_end(
    solver: Callable[[Problem, float], DualSolution], problem: Problem, tol: float
) -> DualSolution:
    solution = solver(problem, tol)
    if solution.interrupted:
        raise TrialError("the search for prices was interrupted: no trial was made")
    return solution


def check_bound(solution: DualSolution) -> None:
    """`TrialError` unless the prices of a solution prove the bound that it claims."""
    problem, prices = solution.problem, solution.prices
    if problem.repeat and problem.is_binary:  # on the states that it was solved with
        bound = OneArmValues(problem, prices, grid=solution.grid).value()
    else:
        bound = dual_value(problem, prices, grid=solution.grid or None).value
    if abs(bound - solution.upper_bound) > BOUND_TOLERANCE * max(1.0, abs(bound)):
        raise TrialError(
            f"the solution claims the bound {solution.upper_bound}, its prices prove {bound}"
        )


# -- limits of a trial: how many allocations may be pending, cancelled, and unmasked by on----------


LEAST_OPEN, LEAST_CANCELLED = 50, 20  # defaults of a short trial
UNMASKED_A_DAY = 5  # allocations that one person may unmask within 24 hours
MAX_LIMIT = 10**9


@dataclass(frozen=True)
class TrialLimits:
    """How many allocations of a trial may be pending, cancelled, and unmasked by one person.

    Attributes
    ----------
    open : int | None
        Pending at the same time; null: no limit.
    cancelled : int | None
        Cancelled in all; null: no limit.
    unmasked : int
        Unmasked by one person within 24 hours.

    Examples
    --------
    >>> trial.status().limits
    TrialLimits(open=50, cancelled=20, unmasked=5)
    """

    open: int | None = None
    cancelled: int | None = None
    unmasked: int = UNMASKED_A_DAY

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)


def limits_of(tree: dict[str, Any]) -> TrialLimits:
    """Read the limits of an event."""
    unmasked = _count(tree["unmasked"])
    if unmasked is None:
        raise ValueError("the limit on unmasking is a whole number")
    return TrialLimits(_count(tree["open"]), _count(tree["cancelled"]), unmasked)


def _count(value: object) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_LIMIT):
        raise ValueError("a limit is a whole number, or null")
    return value


def default_limits(problem: Problem) -> TrialLimits:
    """Half the slots each; more in a short trial: two batches pending, and one cancelled."""
    pulls = problem.pulls_per_stage
    half = problem.horizon * pulls // 2
    return TrialLimits(max(LEAST_OPEN, half, 2 * pulls), max(LEAST_CANCELLED, half, pulls))


def chosen_limits(
    before: TrialLimits,
    max_open: int | None,
    max_cancelled: int | None,
    max_unmasked: int | None = None,
) -> TrialLimits:
    """The limits that are given, and those before where none is."""
    for name, value, least in (
        ("max_open", max_open, 1),
        ("max_cancelled", max_cancelled, 0),
        ("max_unmasked", max_unmasked, 0),
    ):
        if value is not None and not least <= value <= MAX_LIMIT:
            raise TrialError(f"{name}: {value} is not allowed; must be {least} to {MAX_LIMIT}")
    return TrialLimits(
        before.open if max_open is None else max_open,
        before.cancelled if max_cancelled is None else max_cancelled,
        before.unmasked if max_unmasked is None else max_unmasked,
    )


# -- codes of arms: what blinded people see instead of names ---------------------------------------


def letters(number: int) -> str:
    """0 is A, 25 is Z, 26 is AA, as in spreadsheets."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def drawn_codes(arms: int) -> list[str]:
    """A code for every arm, in an order that nobody can predict."""
    codes = [letters(k) for k in range(arms)]
    secrets.SystemRandom().shuffle(codes)
    return codes


def codes_of(recorded: Sequence[str], arms: int) -> list[str]:
    """Check the codes on record; a ValueError unless every arm has its own."""
    if sorted(recorded) != sorted(letters(k) for k in range(arms)):
        raise ValueError("the codes are not those of its arms")
    return list(recorded)


def in_order(code: str) -> tuple[int, str]:
    """By which codes are sorted: Z comes before AA."""
    return len(code), code
