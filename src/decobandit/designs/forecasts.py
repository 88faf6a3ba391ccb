"""Forecast of a trial before it starts: what each policy earns, compared with equal allocation.

Values are exact where few states are reached, simulated on common draws elsewhere. Everything that
would take long is left out, and `Forecast.notes` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..bounds import BoundValue, bound
from ..evaluation import evaluate
from ..policies import BASELINE_POLICY as BASELINE
from ..policies import (
    COMPARED_POLICIES,
    Context,
    Cost,
    Policy,
    RuledPolicy,
    check_policies,
    make_policies,
    picked_name,
    policy_class,
)
from ..problem import Problem, Rules, check_problem
from ..simulation import simulate
from ..support import (
    Floats,
    InvalidArgument,
    Report,
    Rng,
    Tables,
    Tabular,
    TooLarge,
    columns_of,
    obeys_workers,
    seed_of,
    tells_progress,
)
from ..support.records import doc, record_class
from .playing import play
from .results import mean_and_error, rewards

EXACT_STATES = 100_000  # followed in a fraction of a second
STEPS = 20_000_000  # arms times stages times episodes that are simulated for each policy
MAX_DRAWS, MIN_DRAWS = 1000, 50
PER_DRAW = 2
PATH_STATES = 2000  # up to which price paths of the calibrated index are compared exactly
# tables of calibrated indices take seconds from there on: groups of arms times stages to the third
MAX_TABLES = 1_100_000
MAX_CHOSEN_TABLES = 20_000_000  # for a policy named by the user: about a minute
MAX_CHOSEN_STEPS = 100  # arms times stages up to which a chosen policy of slow decisions is played
SLOW_COSTS: tuple[Cost, ...] = ("decision", "solve")  # to simulate
FROM_PRICES: str = "lagrangian"
UNDER_RULES = "values are of trials that obey the rules of the design, early stopping included"
NO_BOUND = {"best_bound": None, "best_bound_is": None}


@record_class()
class PolicyForecast:
    """The expected reward of a policy."""

    policy: str = doc("Its name.")
    value: float = doc("Expected total reward.")
    value_se: float = doc("Its standard error; 0 where it is exact.")
    over_equal: float = doc("Expected total reward minus that of equal allocation.")
    over_equal_se: float = doc("Its standard error; 0 where it is exact.")
    gap_percent: float | None = doc(
        "To the best bound: no policy earns more than this above it; None without one."
    )
    method: str = doc("exact or simulated.")


@dataclass(frozen=True, repr=False)
class Forecast(Tabular):
    """An upper bound for any policy, and the expected total reward of some.

    Attributes
    ----------
    problem : Problem
        The problem of the trial.
    upper_bound, bound_kind : float, str or None
        Bound from the prices, which a trial reports losses against; None if the dual is slow to
        solve and no policy needs it.
    best_bound : BoundValue or None
        Smallest known bound, which gaps refer to; may be an estimate plus three standard errors.
    policies : tuple of PolicyForecast
        Values of policies; equal allocation is the last.
    notes : tuple of str
        Policies and bounds that were left out, with reasons.
    chosen : str or None
        Name of the policy that was chosen, or that `auto` picked then.

    Examples
    --------
    >>> from decobandit import Problem, forecast
    >>> round(forecast(Problem.uniform(arms=2, horizon=4)).policies[0].over_equal, 6)
    0.277778
    """

    problem: Problem
    upper_bound: float | None
    bound_kind: str | None
    best_bound: BoundValue | None
    policies: tuple[PolicyForecast, ...]
    notes: tuple[str, ...]
    chosen: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain values, for JSON."""
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "upper_bound": self.upper_bound,
            "bound_kind": self.bound_kind,
            **(NO_BOUND if self.best_bound is None else self.best_bound.to_dict()),
            "policies": [asdict(policy) for policy in self.policies],
            "notes": list(self.notes),
        }

    def tables(self) -> Tables:
        """`policies`, one row each."""
        return {"policies": lambda: columns_of(asdict(policy) for policy in self.policies)}


@obeys_workers
@tells_progress
def forecast(
    problem: Problem,
    policies: Sequence[str] = COMPARED_POLICIES,
    *,
    chosen: str | None = None,
    rules: Rules | None = None,
    draws: int | None = None,
    rng: Rng = 1,
    tol: float = 1e-4,
    workers: int | None = None,
    progress: Report | None = None,
) -> Forecast:
    """Forecast the rewards of policies on a problem, equal allocation among them.

    Policies that are slow on a problem of this size are left out; `Forecast.notes` names them.

    Parameters
    ----------
    problem : Problem
        The problem of the trial.
    policies : sequence of str
        Names of policies.
    chosen : str, optional
        Policy listed first, which may take up to a minute.
    rules : Rules, optional
        Rules of a design that the policies follow: floors, looks, early stopping and others.
    draws : int, optional
        Draws of the parameters where values are simulated; by default what takes about a second.
    rng : int or Generator
        Seed or generator of the draws.
    tol : float
        Relative gap of the prices.
    workers : int, optional
        Number of threads; all processors by default.
    progress : callable, optional
        Called with a `Progress` from time to time.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from decobandit import Problem, forecast
    >>> result = forecast(Problem.uniform(arms=2, horizon=4), ["greedy"])
    >>> [(row.policy, round(row.value, 3)) for row in result.policies]
    [('greedy', 2.278), ('equal', 2.0)]
    """
    rules = None if rules is None or rules.rules == Rules() else rules.rules
    ruled = rules is not None
    context = Context(check_problem(problem), tol=tol, path_states=PATH_STATES, under_rules=ruled)
    names_wanted = [*([] if chosen is None else [chosen]), *policies]
    check_policies(names_wanted)
    picked = [picked_name(context, name) for name in names_wanted]
    wanted = None if chosen is None else picked[0]
    names = [*dict.fromkeys(name for name in picked if name != BASELINE), BASELINE]
    players, notes = list[Policy](), list[str]()
    for name in names:
        if too_slow(context.problem, policy_class(name).cost, chosen=name == wanted):
            notes.append(f"{name} is left out: it is slow on a problem of this size")
            continue
        try:
            players.extend(make_policies(context, [name]))
        except (ValueError, MemoryError) as error:
            notes.append(f"{name} is left out: {error}")
    if draws is None:  # what takes about a second for each policy
        affordable = STEPS // (problem.n_arms * problem.stages * PER_DRAW)
        draws = max(MIN_DRAWS, min(MAX_DRAWS, affordable))
    if rules is not None:
        notes.insert(0, UNDER_RULES)
        values = list(_under_rules(players, rules, draws, rng, notes))
    else:
        values = list(_over_prior(context, players, draws, rng))
    solution = context.solution_for()
    if solution is None:
        notes.append("the bound is left out: it is slow here, and no policy needs it")
    best = None if solution is None else bound(problem, solution=solution)[0]
    if best is not None:
        values = [replace(one, gap_percent=best.gap_percent(one.value)) for one in values]
    upper, kind = (None, None) if solution is None else (solution.upper_bound, FROM_PRICES)
    return Forecast(problem, upper, kind, best, tuple(values), tuple(notes), wanted)


def too_slow(problem: Problem, cost: Cost, *, chosen: bool = False) -> bool:
    """Return whether a policy of that cost is slow here; a chosen one may take a minute."""
    tables = len(problem.groups) * problem.stages**3
    if not chosen:
        return cost in SLOW_COSTS or (cost == "tables" and tables > MAX_TABLES)
    if cost == "decision":
        return problem.n_arms * problem.stages > MAX_CHOSEN_STEPS
    return cost == "solve" or tables > MAX_CHOSEN_TABLES


def _under_rules(
    players: Sequence[Policy], rules: Rules, draws: int, rng: Rng, notes: list[str]
) -> Iterator[PolicyForecast]:
    """Play trials that obey rules; a policy that cannot is left out with a note."""
    totals, seed = dict[str, Floats](), seed_of(rng)
    for policy in players:
        try:
            ends = play(RuledPolicy(policy, rules), None, draws * PER_DRAW, (seed,))
        except ValueError as error:
            notes.append(f"{policy.name} is left out: {error}")
        else:
            totals[policy.name] = rewards(policy.problem, ends)
    if BASELINE not in totals:
        raise InvalidArgument("; ".join(notes[1:]), field="rules")
    for name, total in totals.items():
        more = mean_and_error(total - totals[BASELINE])
        yield PolicyForecast(name, *mean_and_error(total), *more, None, "simulated")


def _over_prior(
    context: Context, players: Sequence[Policy], draws: int, rng: Rng
) -> Iterator[PolicyForecast]:
    """Evaluate policies that reach few states; simulate the others on the same draws."""
    exact = dict[str, float]()
    for policy in players:
        if policy.has_table:
            try:
                one = evaluate(policy.problem, policy, limit_states=EXACT_STATES)
            except TooLarge:
                break  # others would reach too many states, too
            exact[policy.name] = one.value
    rest = [policy for policy in players if policy.name not in exact]
    values = {name: (value, 0.0) for name, value in exact.items()}
    if rest:
        settings: dict[str, Any] = {"draws": draws, "per_draw": PER_DRAW, "rng": rng}
        simulated = simulate(context.problem, rest, solution=context.solution_for(), **settings)
        values |= {row.policy: (row.value, row.value_se) for row in simulated.results}
    for policy in players:
        name = policy.name
        (value, error), (equal, equal_error) = values[name], values[BASELINE]
        more = value - equal, math.hypot(error, equal_error)
        if name == BASELINE:
            more = 0.0, 0.0
        elif name not in exact and BASELINE not in exact:  # common draws make the error small
            gain = simulated.difference(name, BASELINE)
            more = gain.value, gain.value_se
        method = "exact" if name in exact else "simulated"
        yield PolicyForecast(name, value, error, *more, None, method)
