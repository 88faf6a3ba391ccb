"""The gap of a policy where arms are of any kind, exact over joint states."""

from __future__ import annotations

import numpy as np

from ..arm import OneArmValues
from ..evaluation import KindLevel, evaluate, watched_arms
from ..policies import Policy
from ..prices import DualSolution
from ..simulation import Estimate
from ..support import Floats, Report
from .gap_record import Gap, StageGap, gap_of


def exact_gap_of_kinds(policy: Policy, solution: DualSolution, progress: Report | None) -> Gap:
    """Arms of any kind with finitely many states, where few are reached."""
    tables = OneArmValues(solution.problem, solution.prices)
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


def loss_terms(excess: Floats, chances: Floats, pulled: Floats) -> tuple[float, float]:
    """Expected shortfall and congestion of an arm whose index exceeds the price by so much."""
    resting = np.maximum(chances - pulled, 0.0)  # below zero only by rounding
    return float(pulled @ np.maximum(-excess, 0.0)), float(resting @ np.maximum(excess, 0.0))
