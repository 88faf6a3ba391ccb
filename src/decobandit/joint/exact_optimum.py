"""The exact optimum: dynamic programming over the joint states of all arms.

Exchangeable arms are not distinguished. Stages are processed backward, with the values of two
stages in memory; all sizes are known before the first array is allocated. `kernels/joint.py` has
the recursion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb, floor, log10
from typing import Any

from ..problem import Problem, check_problem, refuse_kind_batches
from ..support import (
    Report,
    Stopwatch,
    obeys_workers,
    silent,
    worker_count,
)
from ..support import limit_bytes as machine_limit
from .batch_optimum import MOST_WORK, count_batch_states, sweep_batches, work
from .batch_states import least_states, number_of_shares
from .joint_states import Counted, JointValues, columns, count
from .joint_sweep import sweep, sweep_two_arms, two_arm_states
from .kind_optimum import kind_values

MOST_STATES = 5e11  # an hour or more
MOST_OUTCOMES = 5e10  # the same for sets of arms with their outcomes, which take longer
MOST_UNSTORED = 3  # stages whose values are recomputed instead of stored, if memory is short
SHAPE_BYTES = 40  # per column of a shape, while it is made


class TooLarge(ValueError):
    """The exact optimum would need too much memory or time.

    See Also
    --------
    optimum, count_states
    """


@dataclass(frozen=True)
class Optimum:
    """The largest expected reward that any policy can earn.

    Attributes
    ----------
    value : float
        The optimum.
    states : int
        Joint states of all stages.
    bytes : int
        Memory that was set aside.
    seconds : float
        That the computation took, without compiling kernels.
    problem : Problem
        What was solved.
    tables : JointValues or None
        Values of all states, where they were kept.

    Examples
    --------
    >>> from decobandit import Problem, optimum
    >>> optimum(Problem.uniform(arms=2, horizon=4)).states
    19
    """

    value: float
    states: int
    bytes: int
    seconds: float
    problem: Problem = field(repr=False)
    tables: JointValues | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco optimum --json` prints them."""
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
    """Joint states of all stages, and those of the largest one.

    Exact, unless counting itself would take long: then a lower bound, beyond all that can be done.

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
    >>> from decobandit import Problem, count_states
    >>> count_states(Problem.uniform(arms=2, horizon=4))
    (19, 10)
    """
    check_problem(problem)
    if problem.repeat:
        if least_states(problem) > MOST_STATES:
            return least_states(problem), least_states(problem)
        stored = count_batch_states(problem)
        return sum(stored), max(stored)
    states = count(problem).states
    return sum(states), max(states)


@obeys_workers
def optimum(
    problem: Problem,
    *,
    keep: bool = False,
    limit_bytes: int | None = None,
    progress: Report | None = None,
    workers: int | None = None,
) -> Optimum:
    """The exact optimum, by dynamic programming over the joint states of all arms.

    Parameters
    ----------
    problem : Problem
        A small one; `count_states` says how small it is.
    keep : bool
        Whether to keep the values of all states, from which a policy can be read.
    limit_bytes : int, optional
        Memory that may be used; 70% of what is available by default.
    progress : callable, optional
        Told how many levels are done.
    workers : int, optional
        Threads that share the work; all processors by default.

    Returns
    -------
    Optimum

    Raises
    ------
    TooLarge
        At once, where the states need more memory or time than allowed.

    Examples
    --------
    >>> from decobandit import Problem, optimum
    >>> round(optimum(Problem.uniform(arms=2, horizon=4)).value, 6)
    2.277778
    """
    check_problem(problem)
    clock = Stopwatch()
    if not problem.is_binary:
        refuse_kind_batches(problem, "exact optimum")
        found = kind_values(problem)
        return Optimum(found.value, found.states, 0, clock.seconds(), problem)
    if problem.repeat:
        return _of_batches(problem, keep, limit_bytes, progress or silent, clock)
    counted = count(problem)
    dense = two_arms_alone(problem) and not keep
    limit = machine_limit() if limit_bytes is None else limit_bytes
    needed, unstored = 0, 0
    while unstored < MOST_UNSTORED and (unstored == 0 or needed > limit):
        unstored += 1
        needed = _bytes(problem, counted, unstored, keep=keep, dense=dense)
    _check_size(problem, counted, needed, limit)
    number, report = worker_count(workers), progress or silent
    if dense:
        value, tables = sweep_two_arms(problem, number, report), None
    else:
        value, tables = sweep(problem, number, report, unstored=unstored, keep=keep)
    fresh = (g.count * float(g.terminal[0]) for g in problem.groups if g.terminal is not None)
    return Optimum(
        value=value + sum(fresh),
        states=sum(counted.states),
        bytes=needed,
        seconds=clock.seconds(),
        problem=problem,
        tables=tables,
    )


def _of_batches(
    problem: Problem, keep: bool, limit_bytes: int | None, report: Report, clock: Stopwatch
) -> Optimum:
    if keep:
        raise ValueError("keep: the values of joint states are not kept in batches")
    limit, least = machine_limit() if limit_bytes is None else limit_bytes, least_states(problem)
    advice = "use 'deco solve' for a bound or 'deco simulate' for a policy, or a larger unit"
    # values of two stages, and copies of a shape that are under way
    if 16 * least > limit or work(problem) > MOST_WORK:
        raise TooLarge(
            f"exact optimum needs {_number(least)} states or more, each with "
            f"{_number(number_of_shares(problem))} ways to share a batch (limits: {_size(limit)}, "
            f"{_number(MOST_WORK)} states times ways); {advice}"
        )
    states = count_batch_states(problem)
    needed = 16 * max(states)
    if needed > limit:
        raise TooLarge(
            f"exact optimum needs {_number(sum(states))} states and {_size(needed)} (limit "
            f"{_size(limit)}); {advice}"
        )
    value = sweep_batches(problem, report)
    return Optimum(value, sum(states), needed, clock.seconds(), problem)


def two_arms_alone(problem: Problem) -> bool:
    """Whether two arms are pulled one at a time, which has a sweep of its own."""
    return problem.n_arms == 2 and problem.pulls_per_stage == 1


# -- sizes --------------------------------------------------------------------------------------


def _bytes(problem: Problem, counted: Counted, unstored: int, *, keep: bool, dense: bool) -> int:
    """Values of two stages, or of all; and their shapes, of the levels within a stage too."""
    if dense:
        return 8 * two_arm_states(problem)
    states, shapes = counted.states, counted.shapes
    wide = SHAPE_BYTES * sum(columns(problem))
    if keep:
        return 8 * sum(states) + wide * sum(shapes)
    if problem.pulls_per_stage == 1:
        states = states[: max(len(states) - unstored, 1)]
    two = max(a + b for a, b in zip(states, [*states[1:], 0], strict=True))
    return 8 * two + wide * max(shapes) * (problem.pulls_per_stage + unstored)


def _check_size(problem: Problem, counted: Counted, needed: int, limit: int) -> None:
    states = sum(counted.states)
    tried = _outcomes(problem, counted)
    if needed > limit:
        reason = f"limit {_size(limit)}"
    elif states > MOST_STATES or not counted.exact:
        reason = f"limit {_number(MOST_STATES)} states" if counted.exact else "too many to count"
    elif tried > MOST_OUTCOMES:
        reason = f"up to {_number(tried)} sets with outcomes, limit {_number(MOST_OUTCOMES)}"
    else:
        return
    more = "" if counted.exact else "more than "
    raise TooLarge(
        f"exact optimum needs {more}{_number(states)} states and {_size(needed)} ({reason}); "
        "use 'deco solve' for a bound or 'deco evaluate' for a policy"
    )


def set_outcomes(problem: Problem, stage: int) -> int:
    """Sets of arms that may be pulled at a stage, with their outcomes: at most so many."""
    m, arms = problem.pulls_per_stage, sum(columns(problem))
    kinds = min(arms, len(problem.groups) * (stage + 1) * (stage + 2) // 2)
    return min(comb(arms, m) << m, comb(m + 2 * kinds - 1, m))


def _outcomes(problem: Problem, counted: Counted) -> int:
    """Sets of arms with their outcomes, over all states: at most so many. 0 for single pulls."""
    if problem.pulls_per_stage == 1:
        return 0
    return sum(states * set_outcomes(problem, t) for t, states in enumerate(counted.states))


def _number(x: float) -> str:
    """1234, or 7.6e9; whole numbers may be too large for floating point."""
    if x < 10_000:
        return str(x)
    exponent = floor(log10(x))
    tenths = round(int(x) * 10 / 10**exponent)
    return f"{tenths / 10:.1f}e{exponent}" if tenths < 100 else f"1.0e{exponent + 1}"


def _size(x: float) -> str:
    """61 GB, 1.3 GB or 0.5 MB."""
    if x < 1e9:
        return f"{x / 1e6:.1f} MB"
    return f"{x / 1e9:.1f} GB" if x < 1e10 else f"{_number((int(x) + 5 * 10**8) // 10**9)} GB"
