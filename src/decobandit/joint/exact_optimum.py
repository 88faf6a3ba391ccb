"""Exact optimum, by dynamic programming over the joint states of all stages or of the first ones.

Every outcome model with finitely many states and every batch size is served by `shapes.py`, and so
are values that are kept; good and bad outcomes, one pull per stage, by kernels that merge
exchangeable arms (`joint_sweep.py`).
Stages are processed backward, with the values of two stages in memory; all sizes are known before
the first array is allocated.

A start follows the first stages only; what comes after is given by tables of the arms. If these
bound what can be earned after the stages from above, so does the result for the whole problem.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import floor, inf, log10
from typing import Any, cast

import numpy as np

from ..problem import BySegment, Problem, check_problem
from ..support import (
    Floats,
    Report,
    Stopwatch,
    TooLarge,
    Unsupported,
    obeys_workers,
    silent,
    worker_count,
)
from ..support import limit_bytes as machine_limit
from ..support.frames import Shown
from ..support.records import doc, record_class
from .arm_states import refuse_infinite
from .joint_sweep import (
    Counted,
    columns,
    count,
    rewritten_states,
    sweep,
    sweep_start,
    sweep_two_arms,
    two_arm_states,
)
from .shapes import (
    Ends,
    ShapeProgram,
    ShapeValues,
    number_of_allotments,
    reachable,
    stored_states,
)

MOST_WORK = 2e9  # states times allotments of the general program
MOST_STATES = 5e11  # an hour or more
SHAPE_BYTES = 40  # per column of a shape, while it is made
ADVICE = "use 'deco solve' for a bound"

# what may be followed in a second or so, on one core
MAX_QUICK_STATES = 1e8  # joint states of an optimum
MAX_START_STATES = 4e7  # of a start, whose result is a bound only
ENDING_FACTOR = 3.0  # what a state at the end of a start costs, whose tables are added up
MAX_QUICK_BYTES = 256 * 2**20
TWO_ARM_FACTOR = 20.0  # how many times faster two arms are followed to the end
MAX_COUNTED = 400  # stages, or arms times pulls; beyond, only two arms could be followed
MAX_QUICK_WORK = 1e7  # states times allotments of the general program


@record_class()
class Optimum(Shown):
    """Largest expected reward that any policy can earn.

    Examples
    --------
    >>> from decobandit import Problem, optimum
    >>> optimum(Problem.uniform(arms=2, horizon=4)).states
    19
    """

    value: float = doc("The optimum.")
    states: int = doc("Joint states of all stages.")
    bytes: int = doc("Memory needed.")
    seconds: float = doc("Duration of the computation, without compilation.")
    problem: Problem = doc("Problem that was solved.", repr=False)
    tables: ShapeValues | None = doc(
        "Values of all states, if kept.", default=None, repr=False, compare=False
    )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `deco optimum --json` prints them."""
        return {
            "value": self.value,
            "states": self.states,
            "seconds": self.seconds,
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
        }

    def __repr__(self) -> str:
        return (
            f"Optimum({self.problem.n_arms} arms, horizon {self.problem.horizon}: "
            f"{self.value:.9f}, {_number(self.states)} states, {_size(self.bytes)}, "
            f"{self.seconds:.2f} s)"
        )


def count_states(problem: Problem) -> tuple[int, int]:
    """Count the joint states of all stages, and those of the largest stage.

    Where counting itself would be slow, a number beyond all that can be solved.

    Parameters
    ----------
    problem : Problem
        Whose states are counted.

    Returns
    -------
    tuple of int
        States of all stages together, and of the stage that has most.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.joint import count_states
    >>> count_states(Problem.uniform(arms=2, horizon=4))
    (19, 10)
    """
    check_problem(problem)
    if not has_kernel(problem):
        refuse_infinite(problem, "exact optimum", ADVICE)
        stored = stored_states(reachable(problem)[0])
        return _to_int(sum(stored)), _to_int(max(stored))
    states = count(problem).states
    return _to_int(sum(states)), _to_int(max(states))


@obeys_workers
def optimum(
    problem: Problem,
    *,
    keep: bool = False,
    limit_bytes: int | None = None,
    progress: Report | None = None,
    workers: int | None = None,
) -> Optimum:
    """Return the exact optimum, by dynamic programming over the joint states of all arms.

    Parameters
    ----------
    problem : Problem
        A small problem; `count_states` counts its joint states.
    keep : bool
        Whether to keep the values of all states, from which a policy can be read.
    limit_bytes : int, optional
        Memory that may be used; 70% of what is available by default.
    progress : callable, optional
        Called with the number of finished levels.
    workers : int, optional
        Threads that share the work; all processors by default.

    Returns
    -------
    Optimum

    Raises
    ------
    TooLarge
        Before it starts, if the states need more memory or time than allowed.

    Examples
    --------
    >>> from decobandit import Problem, optimum
    >>> round(optimum(Problem.uniform(arms=2, horizon=4)).value, 6)
    2.277778
    """
    if isinstance(problem, Problem) and problem.segments and not keep:
        return cast("Optimum", _by_segment(problem, limit_bytes, progress))
    check_problem(problem)
    clock = Stopwatch()
    if keep or not has_kernel(problem):
        return _by_shapes(problem, keep, limit_bytes, progress or silent, clock)
    counted = count(problem)
    states = sum(counted.states)
    dense = problem.n_arms == 2
    limit = machine_limit() if limit_bytes is None else limit_bytes
    unstored, needed = 1, _bytes(problem, counted, limit, 1, dense=dense)
    if needed > limit:
        unstored, needed = 2, _bytes(problem, counted, limit, 2, dense=dense)
    _check_size(states, needed, limit)
    number, report = worker_count(workers), progress or silent
    if dense:
        value = sweep_two_arms(problem, number, report)
    else:
        value = sweep(problem, number, report, unstored=unstored)
    fresh = (g.count * float(g.terminal[0]) for g in problem.groups if g.terminal is not None)
    return Optimum(
        value=value + sum(fresh),
        states=int(states),
        bytes=int(needed),
        seconds=clock.seconds(),
        problem=problem,
    )


def _by_segment(problem: Problem, limit: int | None, progress: Report | None) -> BySegment:
    """Return the optimum of every segment with the calendar; beside it, on its own clock.

    V_t(x) = share max_a (r + E V_{t+1}) + (1 - share) V_{t+1}(x)
    """
    if problem.budget is not None:
        raise Unsupported(
            f"exact optimum: not for segments that share a budget; {ADVICE}", field="segments"
        )
    results, trees = dict[str, Optimum](), dict[str, dict[str, Any]]()
    for segment in problem.segments:
        alone = problem.segment(segment.name)
        clock, own = Stopwatch(), optimum(alone, limit_bytes=limit, progress=progress)
        best = own
        if segment.share < 1.0:
            free = [arm.model_copy(update={"cost": 0.0}) for arm in alone.arms]
            calendar = problem.random_horizon or problem.horizon
            changes = {"arms": free, "budget": 1.0, "horizon": calendar}
            waiting = alone.model_copy(update=changes)
            report = progress or silent
            best = _by_shapes(waiting, False, limit, report, clock, segment.share)
        results[segment.name] = best
        trees[segment.name] = best.to_dict() | {"own_clock_value": own.value}
    return BySegment(problem, results, trees)


def _by_shapes(
    problem: Problem,
    keep: bool,
    limit_bytes: int | None,
    report: Report,
    clock: Stopwatch,
    share: float = 1.0,
) -> Optimum:
    refuse_infinite(problem, "exact optimum", ADVICE)
    limit = machine_limit() if limit_bytes is None else limit_bytes
    followed, rest = (problem, 0.0) if keep else reachable(problem)
    states, ways = stored_states(followed), number_of_allotments(followed)
    needed = 8.0 * (sum(states) if keep else 2 * max(states))
    if needed > limit or sum(states) * ways > MOST_WORK:
        raise TooLarge(
            f"exact optimum needs {_number(sum(states))} states and {_size(needed)}, each state "
            f"with {_number(ways)} ways to share a stage's pulls (limits: {_size(limit)}, "
            f"{_number(MOST_WORK)} states times ways); use 'deco solve' for a bound or 'deco "
            "simulate' for a policy, or a larger unit"
        )
    program = ShapeProgram(followed, share)
    levels = program.optimum(report, keep=keep)
    tables = ShapeValues(program, levels) if keep else None
    value, stored = program.first_value(levels) + rest, _to_int(sum(states))
    return Optimum(value, stored, _to_int(needed), clock.seconds(), problem, tables)


def has_kernel(problem: Problem) -> bool:
    """Whether compiled recursions serve it: good and bad outcomes, one pull per stage."""
    single = problem.pulls_per_stage == problem.deployed == 1
    return problem.single_binary and single and not problem.may_wait


def _to_int(number: float) -> int:
    """Convert to an integer, at most the largest floating-point number."""
    return int(min(number, np.finfo(float).max))


# -- sizes --------------------------------------------------------------------------------------


def _bytes(problem: Problem, counted: Counted, limit: int, unstored: int, *, dense: bool) -> float:
    """Values of one stage and its largest block, and their shapes."""
    if dense:
        return 8.0 * two_arm_states(problem)
    wide = SHAPE_BYTES * sum(columns(problem))
    most = 8.0 * max(counted.states[: max(len(counted.states) - unstored, 1)])
    shapes = (1 + unstored) * wide * max(counted.shapes)
    if most + shapes > limit:
        return most + shapes  # too large already
    return 8.0 * rewritten_states(problem, unstored) + shapes


def _check_size(states: float, needed: float, limit: int) -> None:
    if needed > limit:
        reason = f"limit {_size(limit)}"
    elif states > MOST_STATES:
        reason = f"limit {_number(MOST_STATES)} states"
    else:
        return
    raise TooLarge(
        f"exact optimum needs {_number(states)} states and {_size(needed)} ({reason}); "
        "use 'deco solve' for a bound or 'deco evaluate' for a policy"
    )


def _number(x: float) -> str:
    """Format as 1234 or 7.6e9; integers may be too large for floating point."""
    if x == inf:
        return "too many"
    if x < 10_000:
        return f"{x:.0f}"
    exponent = floor(log10(x))
    tenths = round(int(x) * 10 / 10**exponent)
    return f"{tenths / 10:.1f}e{exponent}" if tenths < 100 else f"1.0e{exponent + 1}"


def _size(x: float) -> str:
    """Format as 61 GB, 1.3 GB or 0.5 MB."""
    if x == inf:
        return "too much memory"
    if x < 1e9:
        return f"{x / 1e6:.1f} MB"
    return f"{x / 1e9:.1f} GB" if x < 1e10 else f"{_number((int(x) + 5 * 10**8) // 10**9)} GB"


# -- the first stages ------------------------------------------------------------------------------


def exact_stages(problem: Problem) -> int:
    """Return the number of first stages whose joint states take about a second; perhaps all.

    Size alone decides, foretold without following any.
    """
    if not has_kernel(problem):
        return _quick_stages(problem)
    if problem.n_arms == 2 and _two_arms_fit(problem):
        return problem.stages
    number = min(problem.stages, MAX_COUNTED)
    counted = count(problem, number)
    while counted.states[-1] == inf and number > 1:
        number //= 2
        counted = count(problem, number)
    states = counted.states
    work = list(accumulate(states))
    wide = 2 * SHAPE_BYTES * sum(columns(problem, number))
    fits = [  # values of two stages, and shapes
        8 * (before + now) + wide * shapes <= MAX_QUICK_BYTES
        for (before, now), shapes in zip(pairwise([0.0, *states]), counted.shapes, strict=True)
    ]
    if number == problem.stages and work[-1] <= MAX_QUICK_STATES and all(fits):
        return number
    ends = [
        end
        for end, (done, more) in enumerate(zip([0.0, *work], states, strict=False))
        if fits[end] and done + ENDING_FACTOR * more <= MAX_START_STATES and end <= problem.horizon
    ]
    return max(ends, default=0)


def _quick_stages(problem: Problem) -> int:
    """Return the number of first stages that the general program can follow."""
    if problem.n_arms * problem.most_pulls > MAX_COUNTED:
        return 0
    states, ways = stored_states(problem), number_of_allotments(problem)
    ends = [
        stage
        for stage, work in enumerate(accumulate(states))
        if work * ways <= MAX_QUICK_WORK and 16 * states[stage] <= MAX_QUICK_BYTES
    ]
    last = max(ends, default=0)
    return problem.stages if last == problem.horizon else last


def _two_arms_fit(problem: Problem) -> bool:
    states = problem.stages**4 / (48.0 if len(problem.groups) == 1 else 24.0)
    fast_enough = states <= TWO_ARM_FACTOR * MAX_QUICK_STATES
    return fast_enough and 8 * two_arm_states(problem) <= MAX_QUICK_BYTES


def start_optimum(
    problem: Problem,
    stage: int,
    fixed: Floats,
    ends: Ends,
    *,
    progress: Report | None = None,
    workers: int | None = None,
) -> float:
    """Return the most that can be earned up to a stage and, by the tables, after it.

    What is earned from the stage on, last rewards included, is the smallest of the J sums of
    `fixed` (J,) and the tables' values of all arms; `ends(group, pulls)` returns the tables,
    (J, states), in order of `ArmStates.layer(pulls)`.
    """
    if not has_kernel(problem):
        return ShapeProgram(problem).start(stage, fixed, ends, progress or silent)
    counts = [group.count for group in problem.groups]
    tables = np.stack(
        [
            np.concatenate([ends(k, pulls) for pulls in range(stage + 1)], axis=1)
            for k in range(len(counts))
        ],
        axis=1,
    )  # (J, groups, slab)
    last = [group.terminal for group in problem.groups]
    size = tables.shape[2]
    left = np.array(counts) - np.array(columns(problem, stage + 1))
    less = np.stack([np.zeros(size) if table is None else table[:size] for table in last])
    rest = (tables - less) @ np.eye(size, 1)[:, 0] @ left  # arms that no pull can reach
    value = sweep_start(
        problem, stage, fixed + rest, tables - less, worker_count(workers), progress or silent
    )
    return value + sum(n * float(table[0]) for n, table in zip(counts, less, strict=True))
