"""The exact optimum over the first stages, where what comes after is given by tables of the arms.

If the tables bound what can be earned after these stages from above, so does the result for the
whole problem. With all stages it is the optimum (`exact_optimum.py`).
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from ..problem import Problem
from ..support import Floats, Report, silent, worker_count
from .batch_optimum import work
from .batch_states import least_states
from .exact_optimum import SHAPE_BYTES, set_outcomes, two_arms_alone
from .joint_states import columns, count
from .joint_sweep import sweep_start, two_arm_states
from .kind_optimum import joint_kind_states

MOST_WORK = 1e8  # joint states of an optimum, about a second on one core
START_WORK = 4e7  # of a start, whose result is a bound only
ENDING_FACTOR = 3.0  # what a state at the end of a start costs, whose tables are added up
MOST_BYTES = 256 * 2**20
TWO_ARM_FACTOR = 20.0  # so many times faster are two arms that are followed to the end
SET_FACTOR = 0.25  # of a state, for each set of arms with its outcomes
MOST_COUNTED = 400  # stages, or arms times pulls; beyond, only two arms could be followed
BATCH_WORK = 1e7  # states times ways to share a batch, about as long
KIND_STATES = 15_000  # of arms with other outcomes, which plain Python follows


def exact_stages(problem: Problem) -> int:
    """How many of the first stages can be followed in a second or less; perhaps all of them.

    Size alone decides, foretold without following any. Batches and other outcomes than good or bad
    are followed over all stages or none.
    """
    if problem.repeat or not problem.is_binary:
        return problem.stages if _all_fit(problem) else 0
    if two_arms_alone(problem) and _two_arms_fit(problem):
        return problem.stages
    number = min(problem.stages, MOST_COUNTED)
    counted = count(problem, number)
    while not counted.exact and number > 1:
        number //= 2
        counted = count(problem, number)
    each = _work(problem, counted.states)
    work = list(accumulate(each))
    wide = SHAPE_BYTES * sum(columns(problem, number)) * (problem.pulls_per_stage + 1)
    needed = [  # values of two stages, and shapes
        8 * (before + states) + wide * shapes
        for (before, states), shapes in zip(
            pairwise([0, *counted.states]), counted.shapes, strict=True
        )
    ]
    fits = [each <= MOST_BYTES for each in needed]
    if number == problem.stages and work[-1] <= MOST_WORK and all(fits):
        return number
    ends = [
        end
        for end, (done, own) in enumerate(zip([0.0, *work], each, strict=False))
        if fits[end] and done + ENDING_FACTOR * own <= START_WORK and end <= problem.horizon
    ]
    return max(ends, default=0)


def _all_fit(problem: Problem) -> bool:
    """Whether batches, or arms of other outcomes, can be followed to the end."""
    if problem.n_arms * problem.most_pulls > MOST_COUNTED:
        return False
    if problem.is_binary:
        return 16 * least_states(problem) <= MOST_BYTES and work(problem) <= BATCH_WORK
    return not problem.repeat and joint_kind_states(problem) <= KIND_STATES


def _two_arms_fit(problem: Problem) -> bool:
    states = problem.stages**4 / (48.0 if len(problem.groups) == 1 else 24.0)
    fast_enough = states <= TWO_ARM_FACTOR * MOST_WORK
    return fast_enough and 8 * two_arm_states(problem) <= MOST_BYTES


def _work(problem: Problem, states: list[int]) -> list[float]:
    """What the states of each stage cost, in states of single pulls."""
    if problem.pulls_per_stage == 1:
        return [float(x) for x in states]
    return [x * max(1.0, SET_FACTOR * set_outcomes(problem, t)) for t, x in enumerate(states)]


def start_optimum(
    problem: Problem,
    stage: int,
    fixed: Floats,
    tables: Floats,
    *,
    progress: Report | None = None,
    workers: int | None = None,
) -> float:
    """The most that can be earned up to a stage and, by the tables, after it.

    Parameters
    ----------
    problem : Problem
        Of good and bad outcomes, pulled one by one.
    stage : int
        Up to which joint states are followed; some of the stages, not all.
    fixed, tables : array
        (J,) and (J, groups, slab): what is earned from the stage on, last rewards included, is the
        smallest of the J sums of `fixed` and the tables' values of all arms.
    progress, workers
        As in `optimum`.
    """
    last = [group.terminal for group in problem.groups]
    size = tables.shape[2]
    counts = [group.count for group in problem.groups]
    left = np.array(counts) - np.array(columns(problem, stage + 1))
    less = np.stack([np.zeros(size) if each is None else each[:size] for each in last])
    rest = (tables - less) @ np.eye(size, 1)[:, 0] @ left  # arms that no pull can reach
    value = sweep_start(
        problem, stage, fixed + rest, tables - less, worker_count(workers), progress or silent
    )
    return value + sum(n * float(each[0]) for n, each in zip(counts, less, strict=True))
