"""Arms that join or leave a running trial: its problem and its settings from that stage on.

The prices of the stages left are those of the remaining problem at the posterior of now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..bounds import BoundValue
from ..policies import DEFAULT_POLICY, Context, picked_name, policy_class
from ..problem import Arm, ArmEntry, Problem, ProblemError, State, model_of, remaining_problem
from ..support import Unsupported
from ..support.records import doc, record_class
from .errors import Conflict, NotFound, TrialError
from .events import canonical
from .settings import TrialSettings, check_rules, proved_bound, settings_from

ARM_KINDS = ("arm_added", "arm_closed")


@record_class()
class ArmChange:
    """An arm that joined a running trial, or left it.

    Examples
    --------
    >>> from decobandit.trials import ArmChange
    >>> ArmChange("arm_closed", "b", 4, "nurse", "2030-01-01T00:00:00+00:00", "unsafe", 2.5).stage
    4
    """

    kind: str = doc("arm_added or arm_closed.")
    arm: str = doc("Name of the arm.")
    stage: int = doc("First stage of the change, from 0.")
    by: str = doc("Sender of the request.")
    at: str = doc("ISO 8601, UTC.")
    reason: str = doc("Why.")
    bound_from_here: float | None = doc(
        "Bound on the expected reward of the stages left at the change; null without a dual."
    )
    policy: str | None = doc("Policy from here on, where it changed; else null.", default=None)


def arm_of(table: Arm | Mapping[str, Any]) -> Arm:
    """Return an arm from its table in a problem file."""
    if isinstance(table, Arm) and not isinstance(table, ArmEntry):
        return table
    try:
        arms = ArmEntry.from_tree(table).expand()
    except ProblemError as error:
        raise TrialError(f"arm: {error}", field="arm") from None
    if len(arms) != 1:
        raise TrialError("arm: must be one arm, without count", field="arm")
    return arms[0]


def definition_of(arm: Arm) -> str:
    """Return an arm as canonical JSON."""
    return canonical(arm.model_dump(mode="json", exclude_none=True))


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
    """Return the problem in which no pull of an arm is possible from a stage on.

    `dropped`: arms that are not pulled any more, either.
    """
    names = [arm.name for arm in problem.arms]
    if name not in names:
        raise NotFound(f"no arm is called {name!r}", field="arm")
    left = problem.available[stage : problem.horizon].copy()
    position = names.index(name)
    if not left[:, position].any():
        raise Conflict(f"{name} is closed already", field="arm")
    left[:, [position, *map(names.index, dropped)]] = False
    if np.any(left.sum(axis=1) * problem.most_per_stage < problem.pulls_per_stage):
        raise Conflict(
            f"{name} cannot be closed: too few arms would be left to pull; add one first, or "
            "close the trial",
            field="arm",
        )
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
    """Return the policy for a changed problem: by default that of before.

    One that needs all arms at every stage is replaced by the default policy.
    """
    refusal = policy_class(before, places=False).refusal
    always = [arm.model_copy(update={"available": None}) for arm in problem.arms]
    by_windows = refusal(problem) and not refusal(problem.model_copy(update={"arms": always}))
    return wanted or (DEFAULT_POLICY if by_windows else before)


def known_with(problem: Problem, known: State) -> State:
    """Return a state of the first arms of a problem with none of the outcomes of later ones."""
    stats = [tuple(entry) for entry in known.stats]
    later = (model_of(arm).initial() for arm in problem.arms[len(stats) :])
    return State.of_stats(problem, [*stats, *later])
