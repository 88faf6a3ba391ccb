"""The gap of a policy where arms are of any kind: exact over joint states, or simulated."""

from __future__ import annotations

import numpy as np

from ..arm import RowRelaxation
from ..evaluation import KindLevel, evaluate, watched_arms
from ..policies import Policy
from ..prices import DualSolution
from ..problem import States
from ..simulation import (
    Estimate,
    KindWorld,
    check_draws,
    mean_estimate,
    play_kinds,
    term_errors,
)
from ..support import Floats, Ints, Report
from .gap_record import Gap, StageGap, gap_of


def gap_of_kinds(
    policy: Policy, solution: DualSolution, method: str | None, sizes: dict[str, int],
    workers: int | None, progress: Report | None,
) -> Gap:  # fmt: skip
    """Arms of any kind: exactly where they have finitely many states and few are reached."""
    tables = RowRelaxation(solution.problem, solution.prices)
    if method != "simulated":
        try:
            return _exact_of_kinds(policy, tables, progress)
        except ValueError:  # too many states, infinitely many, or arms drawn at random
            if method == "exact":
                raise
    return _simulated_of_kinds(policy, tables, sizes, workers, progress)


def _exact_of_kinds(policy: Policy, tables: RowRelaxation, progress: Report | None) -> Gap:
    problem = tables.problem
    arms, stages = np.zeros((problem.n_arms, 2)), list[StageGap]()

    def watch(t: int, level: KindLevel) -> None:
        if t == 0:  # started again, because merged arms had to be separated
            arms[:] = 0.0
            stages.clear()
        now = np.zeros_like(arms)
        for arm, own, chances, pulled in watched_arms(level):
            index = tables.index(t, int(problem.group_of_arm[arm]), own)
            now[arm] = loss_terms(index - tables.prices[t], chances, pulled)
        arms[:] += now
        stages.append(StageGap(t, *map(float, now.sum(axis=0))))

    found = evaluate(problem, policy, progress=progress, watch=watch)
    return gap_of(found.policy, tables.value(), Estimate(found.value, 0.0), stages, by_arm=arms)


def _simulated_of_kinds(
    policy: Policy, tables: RowRelaxation, sizes: dict[str, int], workers: int | None,
    progress: Report | None,
) -> Gap:  # fmt: skip
    """On a grid the terms add up to the gap but for what the grid adds to the bound."""
    problem = tables.problem
    world = KindWorld(problem, **sizes, truth=None)
    check_draws(world.draws)
    terms = np.zeros((world.draws * world.per_draw, problem.stages, 2))

    def watch(first: int, t: int, states: States, given: Ints) -> None:
        own = terms[first : first + len(given), t]
        for arm, group in enumerate(problem.group_of_arm.tolist()):
            width = problem.groups[group].model.width
            excess = tables.index(t, group, states.stats[:, arm, :width]) - tables.prices[t]
            pulled = given[:, arm] > 0
            own[:, 0] += np.where(pulled, np.maximum(-excess, 0.0), 0.0)
            own[:, 1] += np.where(pulled, 0.0, np.maximum(excess, 0.0))

    estimates = play_kinds(policy, world, workers, progress, watch=watch).estimates
    value: Estimate = estimates.best
    by_draw = terms.reshape(world.draws, world.per_draw, problem.stages, 2).mean(axis=1)
    errors = term_errors(by_draw.sum(axis=0), (by_draw**2).sum(axis=0), world.draws)
    stages = [
        StageGap(t, *by_draw[:, t].mean(axis=0).tolist(), *errors[t].tolist())
        for t in range(problem.stages)
    ]
    if all(group.model.finite for group in problem.groups):  # the identity is exact
        loss = by_draw.sum(axis=(1, 2))
        value = mean_estimate(tables.value() - loss, estimates.missed)
    return gap_of(policy.name, tables.value(), value, stages, settings=dict(sizes))


def loss_terms(excess: Floats, chances: Floats, pulled: Floats) -> tuple[float, float]:
    """Expected shortfall and congestion of an arm whose index exceeds the price by so much."""
    resting = np.maximum(chances - pulled, 0.0)  # below zero only by rounding
    return float(pulled @ np.maximum(-excess, 0.0)), float(resting @ np.maximum(excess, 0.0))
