"""The joint bound: all arms followed together over the first stages, priced one by one after them.

At any prices nu and any joint state x of stage s, what is earned from s on is at most

    U_nu(x) = sum over arms of V_s^a[nu](x_a) + sum_{t >= s} m_t nu_t

so the minimum of U over several price paths is a bound, too, whose prices depend on the state. The
exact optimum of the first s stages with these last rewards is therefore a bound on every policy. It
has no sampling error; with the prices of the dual among the paths it is never above the dual upper
bound; and with s all stages it is the exact optimum.

The paths raise and lower the dual's prices: nu = base + f (mu - base), base the least that a pull
of the stage can earn. How many stages are followed is a matter of size alone (`exact_stages`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arm import OneArmValues
from ..joint import ArmStates, exact_stages, optimum, start_optimum
from ..prices import DualSolution
from ..problem import Problem
from ..support import Floats, Report

FACTORS = np.linspace(0.5, 1.25, 16)  # f of the price paths; 1 is one of them
TABLE_STATES = 3e9  # of the arms' tables of all paths, about a second
LEAST_PATHS = 3


@dataclass(frozen=True)
class JointBound:
    """An upper bound that follows joint states over the first `stages`: the optimum if over all."""

    value: float
    stages: int


def known_optimum(problem: Problem, *, progress: Report | None = None) -> JointBound | None:
    """The exact optimum, where it takes no more than a second or so."""
    if exact_stages(problem) < problem.stages:
        return None
    return JointBound(optimum(problem, progress=progress).value, problem.stages)


def joint_bound(
    problem: Problem, solution: DualSolution, *, progress: Report | None = None
) -> JointBound | None:
    """The bound of as many stages as can be followed; None where that is not even one."""
    found = known_optimum(problem, progress=progress)
    stage = exact_stages(problem)
    if found is not None or stage == 0:
        return found
    paths = price_paths(problem, solution.prices)
    if len(paths) < LEAST_PATHS:
        return None
    tables = [_tables_at(problem, path, stage) for path in paths]

    def ends(group: int, pulls: int) -> Floats:
        return np.stack([values(group, pulls) for values in tables])

    fixed = paths[:, stage:] @ problem.pulls[stage:]
    value = start_optimum(problem, stage, fixed, ends, progress=progress)
    return JointBound(value, stage)


def _tables_at(problem: Problem, prices: Floats, stage: int) -> Callable[[int, int], Floats]:
    """Values at a stage of the states of a group after some pulls, at these prices."""
    tables = OneArmValues(problem, prices, kept_bytes=0)
    layers = [ArmStates(group) for group in problem.groups]
    return lambda group, n: tables.values_of(stage, group, layers[group].layer(n))


def price_paths(problem: Problem, prices: Floats) -> Floats:
    """(paths, stages): those of the dual, and as many above and below as can be tabulated."""
    states = len(problem.groups) * problem.stages**3 / 6.0
    most = int(min(FACTORS.size, TABLE_STATES / states))
    near = np.sort(np.argsort(np.abs(FACTORS - 1.0), kind="stable")[:most])
    base = np.min([np.minimum(*group.rewards) for group in problem.groups], axis=0)
    return np.asarray(base + FACTORS[near, None] * (prices - base))
