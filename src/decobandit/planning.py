"""A trial before anyone is enrolled: what each policy would earn, beside equal allocation.

Values are exact where few states are reached, simulated on common draws elsewhere. Everything that
would take long is left out, and `Plan.notes` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .best_bounds import MOST_WORK, best_bound
from .evaluation import TooManyStates, evaluate
from .policies.base import IndexPolicy, Policy
from .problem import Arm, Problem, Reward
from .problem_files import format_problem
from .registry import Workbench
from .simulation import Simulation, simulate

EQUAL = "equal"
DEFAULT_POLICIES = ("deco", "deco-calibrated", "fh-gittins", "thompson", EQUAL)
EXACT_STATES = 100_000  # followed in a fraction of a second
STEPS = 20_000_000  # arms times stages times episodes that are simulated for each policy
MOST_DRAWS, LEAST_DRAWS = 1000, 50
PER_DRAW = 2
BOUND_DRAWS = 60
PATH_STATES = 2000  # up to which price paths of the calibrated index are compared exactly
# tables of calibrated indices take seconds from there on: groups of arms times stages to the third
MOST_TABLES = 1_100_000
CALIBRATED = ("deco-calibrated", "fh-gittins")
# these ask for a linear program, a search or a draw at every pull
SLOW = ("rolling-deco", "optimal", "ids", "v-ids", "knowledge-gradient")


@dataclass(frozen=True)
class PlannedPolicy:
    """What one policy earns in expectation; errors are 0 where it is exact."""

    policy: str
    value: float
    value_se: float
    over_equal: float  # more than equal allocation
    over_equal_se: float
    gap_percent: float | None  # to the upper bound: no policy is better than this by more
    method: str  # exact or simulated


@dataclass(frozen=True)
class Plan:
    """The upper bound on what any policy earns, and what some policies do."""

    problem: Problem
    upper_bound: float
    bound_kind: str  # lagrangian, trivial or information
    policies: tuple[PlannedPolicy, ...]  # equal allocation is the last
    notes: tuple[str, ...]  # what was left out, and why

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "arms": self.problem.number_of_arms,
            "horizon": self.problem.horizon,
            "upper_bound": self.upper_bound,
            "bound_kind": self.bound_kind,
            "policies": [asdict(each) for each in self.policies],
            "notes": list(self.notes),
        }


def plan(
    problem: Problem,
    policies: Sequence[str] = DEFAULT_POLICIES,
    *,
    draws: int | None = None,
    seed: int = 1,
    tol: float = 1e-4,
) -> Plan:
    """What policies would earn on this problem; equal allocation is always among them.

    `draws`: of the parameters, where values are simulated; as many as take a second by default.
    """
    bench = Workbench(problem, tol=tol, path_states=PATH_STATES)
    names = [*dict.fromkeys(name for name in policies if name != EQUAL), EQUAL]
    bench.check(names)
    made, notes = _made(bench, names)
    exact = _exact_values(made)
    rest = [policy for policy in made if policy.name not in exact]
    simulated = _simulated(bench, rest, draws, seed) if rest else None
    bound = best_bound(bench.solution, draws=_bound_draws(problem))
    found = _Values(exact, simulated)
    planned = []
    for policy in made:
        value, error = found.of(policy.name)
        more, more_error = found.difference(policy.name, EQUAL)
        method = "exact" if policy.name in exact else "simulated"
        gap = bound.gap_percent(value)
        planned.append(
            PlannedPolicy(policy.name, value, error, more, more_error, gap, method)
        )  # fmt: skip
    return Plan(problem, bound.value, bound.kind, tuple(planned), tuple(notes))


def _made(bench: Workbench, names: Iterable[str]) -> tuple[list[Policy], list[str]]:
    """The policies that can be had soon, and a note on each of the others."""
    problem, made, notes = bench.problem, list[Policy](), list[str]()
    heavy = len(problem.groups) * problem.stages**3 > MOST_TABLES
    for name in names:
        if name in SLOW or (name in CALIBRATED and heavy):
            notes.append(f"{name} is left out: it takes long on a plan of this size")
            continue
        try:
            made.append(bench.policy(name))
        except (ValueError, MemoryError) as error:
            notes.append(f"{name} is left out: {error}")
    return made, notes


def _exact_values(policies: Sequence[Policy]) -> dict[str, float]:
    """Exact values; the first policy that reaches too many states ends the search for more."""
    found = {}
    for policy in policies:
        if isinstance(policy, IndexPolicy) and hasattr(policy, "stage_index"):
            try:
                found[policy.name] = evaluate(policy, limit_states=EXACT_STATES).value
            except TooManyStates:
                break
    return found


def _simulated(
    bench: Workbench, policies: Sequence[Policy], draws: int | None, seed: int
) -> Simulation:
    problem = bench.problem
    if draws is None:
        affordable = STEPS // (problem.number_of_arms * problem.stages * PER_DRAW)
        draws = max(LEAST_DRAWS, min(MOST_DRAWS, affordable))
    return simulate(
        problem, policies, draws=draws, per_draw=PER_DRAW, seed=seed, solution=bench.solution
    )


def _bound_draws(problem: Problem) -> int:
    return BOUND_DRAWS if problem.number_of_arms * problem.stages <= MOST_WORK else 0


@dataclass(frozen=True)
class _Values:
    """Exact values, and simulated ones of the other policies."""

    exact: dict[str, float]
    simulated: Simulation | None

    def of(self, name: str) -> tuple[float, float]:
        """Value and standard error."""
        if name in self.exact:
            return self.exact[name], 0.0
        assert self.simulated is not None
        found = next(each for each in self.simulated.results if each.policy == name)
        return found.value, found.value_se

    def difference(self, name: str, other: str) -> tuple[float, float]:
        """On the same draws where both are simulated, which makes the error small."""
        if name == other:
            return 0.0, 0.0
        if self.simulated is not None and name not in self.exact and other not in self.exact:
            found = self.simulated.difference(name, other)
            return found.value, found.standard_error
        (one, error), (two, other_error) = self.of(name), self.of(other)
        return one - two, math.hypot(error, other_error)


# -- the same by hand ---------------------------------------------------------------------------


def as_toml(problem: Problem) -> str:
    """The problem file, as `deco trial new` reads it."""
    return format_problem(problem, format="toml")


def as_json(problem: Problem) -> str:
    """The problem file, in JSON."""
    return format_problem(problem, format="json")


def as_python(problem: Problem, policy: str = "deco", name: str | None = None) -> str:
    """Code that starts the same trial and asks for its first arm."""
    extra = [name for name in ("Reward", "Terminal") if _needs(problem, name)]
    settings = [f"horizon={problem.horizon}", f"pulls_per_stage={problem.pulls_per_stage}"]
    if problem.terminal is not None:
        settings.append(f"terminal=Terminal(deploy={problem.terminal.deploy!r})")
    named = "" if name is None else f", name={name!r}"
    lines = [
        f"from decobandit import {', '.join(['Arm', 'Beta', 'Problem', *extra])}",
        "from decobandit.trials import create_trial",
        "",
        "problem = Problem(",
        *(f"    {setting}," for setting in settings),
        "    arms=[",
        *(f"        {_arm(arm)}," for arm in problem.arms),
        "    ],",
        ")",
        f"trial = create_trial(problem, policy={policy!r}{named})",
        "allocation = trial.ask()",
        "print(allocation.arm)",
        "# trial.tell(allocation.id, 1)  # 1 is a good outcome, 0 a bad one",
    ]
    return "\n".join(lines) + "\n"


def _needs(problem: Problem, name: str) -> bool:
    if name == "Terminal":
        return problem.terminal is not None
    return any(arm.reward != Reward() for arm in problem.arms)


def _arm(arm: Arm) -> str:
    parts = [f"name={arm.name!r}", f"prior=Beta(good={arm.prior.good!r}, bad={arm.prior.bad!r})"]
    if arm.reward != Reward():
        parts.append(f"reward=Reward(good={arm.reward.good!r}, bad={arm.reward.bad!r})")
    if arm.terminal is not None:
        parts.append(f"terminal={arm.terminal!r}")
    return f"Arm({', '.join(parts)})"
