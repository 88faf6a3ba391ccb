"""The settings of a trial: problem, policy by name, and the prices if the dual was solved.

The prices are part of the record: later versions of the solver do not change a trial under way.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arm import OneArmValues
from ..bounds import MEANINGS, BoundValue, certificate
from ..bounds import bound as upper_bounds
from ..policies import (
    DEFAULT_POLICY,
    Context,
    IndexPolicy,
    Policy,
    RuledPolicy,
    check_policies,
    make_policies,
    picked_name,
    policy_class,
)
from ..prices import DualSolution, SolutionRecord, dual_value, proved_above
from ..problem import (
    DEFAULT_TIES,
    Arm,
    ArmEntry,
    Problem,
    ProblemError,
    Rules,
    State,
    TieRule,
    model_of,
    problem_from_dict,
    problem_to_dict,
    refuse_features,
    remaining_problem,
    tie_rule,
)
from ..support import Floats, InvalidArgument, Unsupported
from ..support.records import doc, record_class
from .errors import Conflict, NotFound, TrialError
from .events import canonical, digest

BOUND_TOLERANCE = 1e-9  # relative, of a bound that is computed again
MAX_BLOCK_SEED = 1_000_000
MAX_ARMS = 1000  # every decision is stored with the numbers of every arm
NO_BOUND = "no bound: the dual was not solved for this trial"


@dataclass(frozen=True, eq=False)
class TrialSettings:
    """Everything that decisions depend on, except the outcomes."""

    solution: DualSolution | None  # None: the policy needs no prices, and no bound was requested
    policy: str
    ties: TieRule
    seed: int
    parameters: dict[str, float] | None = None  # of a tuned policy
    problem: Problem = None  # type: ignore[assignment]  # that of the solution, where there is one
    rules: Rules | None = None  # obeyed by the trial
    best_bound: BoundValue | None = None  # the smallest at the creation of the trial
    # by name, each on its own clock; decisions depend on these alone where there are some
    segments: Mapping[str, TrialSettings] = field(default_factory=dict)
    decider: Any = field(default=None, init=False, repr=False)  # once `decider_of` has made it

    def __post_init__(self) -> None:
        if self.solution is not None:
            object.__setattr__(self, "problem", self.solution.problem)

    @property
    def prices(self) -> Floats | None:
        """Prices of the stages, (stages,); None if the dual was not solved."""
        return None if self.solution is None else self.solution.prices

    @property
    def upper_bound(self) -> float | None:
        """Bound on the expected total reward of any policy; None if the dual was not solved."""
        return None if self.solution is None else self.solution.upper_bound

    @property
    def best_bound_fields(self) -> dict[str, Any]:
        """Fields `best_bound` and `best_bound_is` of status and JSON."""
        none = {"best_bound": None, "best_bound_is": None}
        return none if self.best_bound is None else self.best_bound.to_dict()

    @property
    def plain_rules(self) -> dict[str, Any] | None:
        """Rules in the form of a file; None without rules."""
        rules = self.rules
        return None if rules is None else rules.model_dump(mode="json", exclude_none=True)

    @property
    def has_prices(self) -> bool:
        """Whether the dual was solved, for every segment where there are some."""
        if self.segments:
            return all(part.has_prices for part in self.segments.values())
        return self.solution is not None

    @cached_property
    def multipliers_hash(self) -> str | None:
        """Hash of the prices, that of the deployment included; None without prices."""
        if not self.has_prices:
            return None
        priced: dict[str, Any] = {}
        if self.solution is not None:
            priced["prices"] = self.solution.prices.tolist()
            if self.solution.budget_price is not None:
                priced["money"] = [self.solution.budget_price]
        priced |= {name: part.multipliers_hash for name, part in self.segments.items()}
        return digest(canonical(priced))

    @cached_property
    def tables_hash(self) -> str:
        """Hash of everything but the seed: equal settings share their tables."""
        return digest(canonical(self.to_dict() | {"seed": None}))

    def to_dict(self) -> dict[str, Any]:
        solution = self.solution
        if solution is None:
            fixed: dict[str, Any] = {"problem": problem_to_dict(self.problem), "multipliers": None}
        else:
            fixed = SolutionRecord.of(solution).to_dict(search=False)
        if self.segments:
            fixed["segments"] = {name: part.to_dict() for name, part in self.segments.items()}
        return {
            **fixed,
            "policy": self.policy,
            "ties": self.ties,
            "seed": self.seed,
            "path": self.parameters,
            "rules": self.plain_rules,
            **self.best_bound_fields,
        }

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> TrialSettings:
        """Read the settings of a log, which calls them "plan"."""
        ties, seed = tie_rule(tree["ties"]), int(tree["seed"])
        fixed = (tree["policy"], ties, seed, tree["path"])
        rules = None if tree["rules"] is None else Rules(**tree["rules"])
        if tree["multipliers"] is None:
            problem = problem_from_dict(tree["problem"], source="plan: problem")
            names = [segment.name for segment in problem.segments]
            parts = {name: cls.from_dict(tree["segments"][name]) for name in names}
            settings = cls(None, *fixed, problem, rules, segments=parts)
            settings._check_segments()
            return settings
        solution, value, kind = (
            SolutionRecord.from_dict(tree).solution("plan"),
            tree["best_bound"],
            tree["best_bound_is"],
        )
        if value is None:
            return cls(solution, *fixed, rules=rules)
        numbers = isinstance(value, float | int) and not isinstance(value, bool)
        most = solution.upper_bound + BOUND_TOLERANCE * max(1.0, abs(solution.upper_bound))
        if kind not in MEANINGS or not numbers or not value <= most:
            raise TrialError("plan: the best bound is none, or larger than that of the prices")
        return cls(solution, *fixed, rules=rules, best_bound=BoundValue(float(value), kind))

    def _check_segments(self) -> None:
        """Refuse settings of segments that do not fit the problem."""
        for k, (name, part) in enumerate(self.segments.items()):
            expected = self.problem.segment(name)
            fixed = (part.ties, part.seed, part.rules, part.problem.arms)
            if fixed != (self.ties, self.seed + k, self.rules, expected.arms):
                raise InvalidArgument(f"the settings of segment {name} do not fit the trial")
            # another machine may round the law of the horizon in another way
            known = min(part.problem.horizon, expected.horizon)
            laws = (part.problem.survival[:known], expected.survival[:known])
            if abs(part.problem.horizon - expected.horizon) > 1 or not np.allclose(*laws):
                raise InvalidArgument(f"the visitors of segment {name} are not those of its share")

    def make_policy(self) -> Policy:
        """Make the policy at the prices of the settings; `TrialError` if it lacks prices.

        The name may be that of a file: code of other modules is imported only if that is allowed.
        """
        try:
            check_policies([self.policy], places=False)
        except ValueError as error:
            raise TrialError(f"the trial cannot be used: {error}") from None

        def no_prices(problem: Problem, tol: float) -> DualSolution:
            raise TrialError("the policy needs prices, and the log of the trial has none")

        prices: dict[str, Any] = {"solver": no_prices}
        if self.solution is not None:
            prices = {"fixed_solution": self.solution, "play_fixed": True}
            prices["tol"] = self.solution.tol
        context = Context(self.problem, ties=self.ties, parameters=self.parameters, **prices)
        (policy,) = make_policies(context, [self.policy], places=False)
        return policy


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
    """Make the settings of a trial; solve the dual if that is needed, or quick (`bound`: None)."""
    if solution is not None and solution.problem != problem:
        raise TrialError("the solution is of another problem", field="solution")
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    return settings_from(context, policy=policy, seed=seed, bound=bound, rules=rules)


def settings_from(
    context: Context,
    *,
    policy: str,
    seed: int = 0,
    bound: bool | None = None,
    rules: Rules | None = None,
) -> TrialSettings:
    """Make the settings of a trial from a context with its own solver."""
    problem = context.problem
    if rules is not None and len(rules.block_sizes()) > 1 and rules.block_seed is None:
        rules = rules.model_copy(update={"block_seed": seed % MAX_BLOCK_SEED})
    if problem.segments:
        refuse_features(problem, "a trial with segments", "budget")
        return _segmented(context, policy, seed, bound, rules)
    refuse_features(problem, "a trial", "resources")
    if problem.is_restless:
        _check_restless(problem, rules)
    if problem.n_arms > MAX_ARMS:
        reason = "every decision is stored with the numbers of every arm"
        text = f"{problem.n_arms} arms; a trial has at most {MAX_ARMS}, because {reason}"
        raise TrialError(text, field="arms")
    check_policies([policy])
    if context.fixed_solution is not None:
        check_bound(context.fixed_solution)

    def to_the_end(problem: Problem, tol: float, solve: Any = context.solver) -> DualSolution:
        solution: DualSolution = solve(problem, tol)
        if solution.interrupted:
            raise TrialError("the search for prices was interrupted: no trial was made")
        return solution

    context = replace(context, solver=to_the_end, under_rules=rules is not None)
    # refuses a policy that does not serve this problem; solves the prices of one that needs them
    (instance,) = make_policies(context, [policy])
    if problem.budget is not None and not isinstance(instance, IndexPolicy):
        raise Unsupported(
            f"policy {instance.name!r} has no index of an arm, which trials within a budget "
            "compare by cost; use 'deco' or 'greedy'",
            field="policy",
        )
    instance.refuse_large()
    if rules is not None:
        refuse_features(problem, "a trial by the rules of a design", "budget")
        rules = rules.of_policy(instance.name)
        check_rules(rules, instance)
    solution = context.solution_for(bound)
    best = None if solution is None else upper_bounds(problem, solution=solution)[0]
    if instance.at_fixed_prices:
        solution = context.played
    name = instance.name if policy == DEFAULT_POLICY else policy  # the log has the real name
    record = instance.record()
    parameters = None if record is None else dict(record)
    fixed = (solution, name, context.ties, seed, parameters, problem, rules)
    return TrialSettings(*fixed, best_bound=best)


def _segmented(
    context: Context, policy: str, seed: int, bound: bool | None, rules: Rules | None
) -> TrialSettings:
    """Make the settings of every segment, each with a seed of its own."""
    problem = context.problem
    refuse_features(
        problem.segment(problem.segments[0].name), "trials with segments", "is_restless"
    )
    if context.fixed_solution is not None:
        rule = "a trial with segments solves the prices of each; leave the solution out"
        raise TrialError(rule, field="solution")
    settings = {
        segment.name: settings_from(
            replace(context, problem=problem.segment(segment.name)),
            policy=policy,
            seed=seed + k,
            bound=bound,
            rules=rules,
        )
        for k, segment in enumerate(problem.segments)
    }
    names = ", ".join(dict.fromkeys(part.policy for part in settings.values()))
    return TrialSettings(None, names, context.ties, seed, None, problem, rules, segments=settings)


def _check_restless(problem: Problem, rules: Rules | None) -> None:
    """Refuse rules for arms that move at rest, and first states that are drawn."""
    if rules is not None:
        rule = "not for arms that move at rest; leave the design out"
        raise Unsupported(f"rules of a design: {rule}", field="design")
    for group in problem.groups:
        if len(group.model.first_states()[0]) > 1:
            name = problem.arms[group.members[0]].name
            rule = f"give the state of arm {name!r} as first, not probabilities"
            raise Unsupported(f"a trial begins in known states: {rule}", field="arms")


def check_rules(rules: Rules, policy: Policy) -> None:
    """Refuse rules that a trial cannot obey."""
    try:
        rules.check(policy.problem)
        ruled = RuledPolicy(policy, rules)
        if rules.stop.any:
            ruled.posteriors  # noqa: B018  # refuses priors that it cannot compare
    except ValueError as error:
        raise TrialError(" ".join(str(error).split()), field="design") from None


def proved_bound(
    problem: Problem, prices: Floats, grid: int, money_price: float | None = None
) -> float:
    """Return the bound that prices prove, on the states that they were solved with."""
    if problem.repeat and problem.is_binary:
        value = OneArmValues(problem.charged(money_price or 0.0), prices, grid=grid).value()
    else:
        money = money_price or 0.0
        value = dual_value(problem, prices, budget_price=money, grid=grid or None).value
    return proved_above(problem, prices, value, money_price or 0.0)


def check_bound(solution: DualSolution) -> None:
    """Refuse a solution whose prices do not prove the bound that it claims."""
    at = (solution.prices, solution.grid, solution.budget_price)
    bound = proved_bound(solution.problem, *at)
    if abs(bound - solution.upper_bound) > BOUND_TOLERANCE * max(1.0, abs(bound)):
        claim = f"the solution claims the bound {solution.upper_bound}"
        raise TrialError(f"{claim}, its prices prove {bound}", field="solution")


# -- arms that join or leave a running trial: its problem and its settings from that stage on -----
# The prices of the stages left are those of the remaining problem at the posterior of now.

ARM_KINDS = ("arm_added", "arm_closed")


@record_class()
class ArmChange:
    """An arm that joined a running trial, or left it."""

    kind: str = doc("arm_added or arm_closed.")
    arm: str = doc("Name of the arm.")
    stage: int = doc("First stage of the change, from 0.")
    by: str = doc("Sender of the request.")
    at: str = doc("ISO 8601, UTC.")
    reason: str = doc("Why.")
    bound_from_here: float | None = doc("Bound on the reward of the stages left; null if unsolved.")
    policy: str | None = doc("Policy from here on, where it changed; else null.", default=None)


def arm_of(table: Arm | Mapping[str, Any]) -> Arm:
    """Return an arm from its table in a problem file."""
    if isinstance(table, Arm) and not isinstance(table, ArmEntry):
        return table
    try:
        (arm,) = ArmEntry.from_tree(table).expand()
    except ProblemError as error:
        raise TrialError(f"arm: {error}", field="arm") from None
    except ValueError:
        raise TrialError("arm: must be one arm, without count", field="arm") from None
    return arm


def with_arm(problem: Problem, arm: Arm, stage: int) -> Problem:
    """Return the problem with one more arm from a stage on."""
    joined = _within(arm, stage, problem.horizon, problem.horizon)
    if joined.available == ():
        raise TrialError("arm: its windows are over; leave available out", field="arm")
    try:
        return problem.model_copy(update={"arms": (*problem.arms, joined)})
    except ProblemError as error:
        raise TrialError(f"arm: {error}", field="arm") from None


def without_arm(problem: Problem, name: str, stage: int, dropped: tuple[str, ...] = ()) -> Problem:
    """Return the problem without pulls of an arm from a stage on; `dropped` arms have none, too."""
    names = [arm.name for arm in problem.arms]
    if name not in names:
        raise NotFound(f"no arm is called {name!r}", field="arm")
    left = problem.available[stage : problem.horizon].copy()
    position = names.index(name)
    if not left[:, position].any():
        raise Conflict(f"{name} is closed already", field="arm")
    left[:, [position, *map(names.index, dropped)]] = False
    if np.any(left.sum(axis=1) * problem.most_per_stage < problem.pulls_per_stage):
        rule = "too few arms would be left to pull; add one first, or close the trial"
        raise Conflict(f"{name} cannot be closed: {rule}", field="arm")
    arms = list(problem.arms)
    arms[position] = _within(arms[position], 0, stage, problem.horizon)
    return problem.model_copy(update={"arms": tuple(arms)})


def _within(arm: Arm, first: int, end: int, horizon: int) -> Arm:
    """Return the arm with the part of its windows inside first..end-1."""
    windows = ((0, horizon),) if arm.available is None else arm.available
    parts = [(max(start, first), min(stop, end)) for start, stop in windows]
    clipped = tuple((start, stop) for start, stop in parts if start < stop)
    always = clipped == ((0, horizon),)
    return arm.model_copy(update={"available": None if always else clipped})


def settings_after(
    settings: TrialSettings,
    problem: Problem,
    stage: int,
    known: State,
    money: float | None = None,
    policy: str | None = None,
) -> TrialSettings:
    """Return the settings for a changed problem, solved again for the stages left.

    `known`: recorded outcomes of the arms of that problem. `money`: left of a budget. `policy`:
    another one from here on.
    """
    name, before = policy_after(settings.policy, problem, policy), settings.solution
    tol = 1e-4 if before is None else before.tol
    if name == DEFAULT_POLICY:  # for all stages: those before have other arms
        name = picked_name(Context(problem, tol=tol, ties=settings.ties), name)
    if (reason := policy_class(name, places=False).refusal(problem)) is not None:
        raise Unsupported(reason, field="policy")
    try:
        left = remaining_problem(problem, stage, known, money)
    except ValueError as error:
        raise Unsupported(f"arms cannot join or leave this trial: {error}") from None
    rest = settings_from(
        Context(left, tol=tol, ties=settings.ties), policy=name, bound=before is not None or None
    )
    fixed = (rest.policy, settings.ties, settings.seed, rest.parameters, problem, settings.rules)
    if rest.solution is None:
        after = TrialSettings(None, *fixed)
    else:
        played, money_price = float(problem.survival[stage]), rest.solution.budget_price
        later = played * rest.solution.prices
        money_price = None if money_price is None else played * money_price
        earlier = np.full(stage, later[0]) if before is None else before.prices[:stage]
        prices = np.append(earlier, later)
        grid = (0 if before is None else before.grid) or rest.solution.grid
        solution = replace(
            rest.solution,
            problem=problem,
            multipliers=prices[: problem.horizon],
            deployment_price=float(prices[-1]) if problem.stages > problem.horizon else None,
            budget_price=money_price,
            upper_bound=proved_bound(problem, prices, grid, money_price),
            lower_bound=None,
            grid=grid,
            search_gap=None,
            history=(),
        )
        best = BoundValue(solution.upper_bound, "lagrangian")
        after = TrialSettings(solution, *fixed, best_bound=best)
    if after.rules is not None:
        check_rules(after.rules, after.make_policy())
    return after


def policy_after(before: str, problem: Problem, wanted: str | None = None) -> str:
    """Return the policy for a changed problem: that of before, if it serves arms with windows."""
    refusal = policy_class(before, places=False).refusal
    always = [arm.model_copy(update={"available": None}) for arm in problem.arms]
    by_windows = refusal(problem) and not refusal(problem.model_copy(update={"arms": always}))
    return wanted or (DEFAULT_POLICY if by_windows else before)


def known_with(problem: Problem, known: State) -> State:
    """Return a state of the first arms of a problem with none of the outcomes of later ones."""
    later = (model_of(arm).initial() for arm in problem.arms[len(known.rows) :])
    return State.of_stats(problem, [*known.rows, *later])


def origin_of(design: Rules | None, report: str | None = None) -> dict[str, Any]:
    """Return the design as plain values and the hash of its operating characteristics."""
    if report is not None and not re.fullmatch("[0-9a-f]{64}", report):
        rule = "must be a SHA-256, 64 hexadecimal digits"
        raise TrialError(f"design_report: {rule}", field="design_report")
    tree = None if design is None else design.model_dump(mode="json", exclude_defaults=True)
    return {"design": tree, "design_report": report}


def certificate_of(solution: DualSolution | None) -> dict[str, Any] | None:
    """Return the certificate of the bound; None where the checker does not follow the problem."""
    try:
        return None if solution is None else certificate(solution)
    except InvalidArgument:
        return None


MIN_OPEN, MIN_CANCELLED = 50, 20  # defaults of a short trial
UNMASKED_PER_DAY = 5  # allocations that one person may unmask within 24 hours
MAX_LIMIT = 10**9
ANY_ROLE = "any"
UNMASK_ROLES = ("admin", "operator")  # that may unmask on a server


@record_class()
class TrialLimits:
    """Limits on pending, cancelled and unmasked allocations of a trial."""

    open: int | None = doc("Maximum pending at the same time; null: no limit.", default=None)
    cancelled: int | None = doc("Maximum cancelled in total; null: no limit.", default=None)
    unmasked: int = doc("Maximum unmasked by one person within 24 hours.", default=UNMASKED_PER_DAY)
    unmask_role: str | None = doc("The only role that may unmask; null: every role.", default=None)

    def __post_init__(self) -> None:
        for name, value, least in (
            ("max_open", 1 if self.open is None else self.open, 1),
            ("max_cancelled", 0 if self.cancelled is None else self.cancelled, 0),
            ("max_unmasked", self.unmasked, 0),
        ):
            if type(value) is not int or not least <= value <= MAX_LIMIT:
                rule = f"must be {least} to {MAX_LIMIT}"
                raise TrialError(f"{name}: {value} is not allowed; {rule}", field=name)
        if self.unmask_role not in (None, *UNMASK_ROLES):
            roles = ", ".join((*UNMASK_ROLES, ANY_ROLE))
            raise TrialError(f"unmask_role: must be one of {roles}", field="unmask_role")

    def changed(
        self,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        unmask_role: str | None = None,
    ) -> TrialLimits:
        """Return the limits with those that are not None replaced; role "any": all roles."""
        return TrialLimits(
            self.open if max_open is None else max_open,
            self.cancelled if max_cancelled is None else max_cancelled,
            self.unmasked if max_unmasked is None else max_unmasked,
            {None: self.unmask_role, ANY_ROLE: None}.get(unmask_role, unmask_role),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as JSON values."""
        return dict(self.__dict__)

    @classmethod
    def of(cls, tree: dict[str, Any]) -> TrialLimits:
        """Read the limits of an event."""
        return cls(*(tree[name] for name in ("open", "cancelled", "unmasked", "unmask_role")))

    @classmethod
    def default(cls, problem: Problem) -> TrialLimits:
        """Return half the slots each; more in a short trial: two batches pending, one cancelled."""
        pulls = problem.pulls_per_stage
        half = problem.horizon * pulls // 2
        return cls(max(MIN_OPEN, half, 2 * pulls), max(MIN_CANCELLED, half, pulls))


def letters(number: int) -> str:
    """Return the column name of a spreadsheet: A for 0, Z for 25, AA for 26."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def drawn_codes(arms: int) -> list[str]:
    """Draw a code for every arm, in an unpredictable order."""
    codes = [letters(k) for k in range(arms)]
    secrets.SystemRandom().shuffle(codes)
    return codes


def codes_of(recorded: Sequence[str], arms: int) -> list[str]:
    """Check the recorded codes: one for every arm."""
    if sorted(recorded) != sorted(letters(k) for k in range(arms)):
        raise InvalidArgument("the codes are not those of its arms")
    return list(recorded)


def in_order(code: str) -> tuple[int, str]:
    """Return the sort key of a code: Z is before AA."""
    return len(code), code
