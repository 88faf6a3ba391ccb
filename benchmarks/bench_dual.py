"""The dual with its certificate: a long horizon, and short ones against a linear program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from decobandit import Problem, solve

from .rows import Row, at_most, best_times, times_better

PROGRAM = Path(__file__).with_name("occupancy_lp.py")
METHODS = {"highs-ipm": "interior point", "highs-ds": "simplex"}
SAME = 1e-7  # relative accuracy of HiGHS with its own settings
PATIENCE = 30.0  # seconds for each method of HiGHS
# arms, horizon, our tolerance, least ratio
PROGRAMS = ((5, 40, 1e-7, 30.0), (10, 60, 1e-5, 200.0))


def run() -> list[Row]:
    """Rows for (20, 500), then beside linear programs."""
    return [*long(20, 500), *(row for size in PROGRAMS for row in against_linear_program(*size))]


def long(arms: int, horizon: int) -> list[Row]:
    """Time and oracle calls to a relative gap of 1e-4, once compiled."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    solution = solve(problem, tol=1e-4)  # compiles
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached 1e-4")
    (seconds,) = best_times(3, lambda: solve(problem, tol=1e-4))
    what = f"solve ({arms}, {horizon}) to 1e-4"
    return [at_most(what, seconds, "s", 5.0), at_most(what, solution.oracle_calls, "calls", 200)]


def against_linear_program(
    arms: int, horizon: int, tol: float, least: float, patience: float = PATIENCE
) -> list[Row]:
    """The same minimum, ours to a relative gap of `tol`; building the program is not counted."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    value, method, seconds = fastest(arms, horizon, patience)
    solution = solve(problem, tol=tol)
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached {tol:g}")
    low, high = solution.lower_bound - 1e-5, solution.upper_bound + 1e-5
    if value is not None and not low <= value <= high:
        raise AssertionError(f"the program's value {value} is not between the bounds: {solution!r}")
    fine, rough = best_times(20, lambda: solve(problem, tol=tol), lambda: solve(problem, tol=1e-4))
    what, beside = f"solve ({arms}, {horizon}) to", f"occupancy LP, HiGHS, {method}"
    return [
        times_better(f"{what} {tol:g}", fine, "s", beside, seconds, seconds / fine, least),
        Row(f"{what} 1e-4", rough, "s", beside, seconds, seconds / rough),
        gap_reached(problem),
    ]


def gap_reached(problem: Problem) -> Row:
    """The relative gap that is left when the search is asked for the accuracy of HiGHS."""
    solution = solve(problem, tol=SAME)
    gap = (solution.upper_bound - solution.lower_bound) / abs(solution.upper_bound)
    size = f"({problem.n_arms}, {problem.horizon})"
    what = f"solve {size} to {SAME:g}: relative gap after {solution.oracle_calls} calls"
    return at_most(what, gap, "", SAME)


def fastest(arms: int, horizon: int, patience: float) -> tuple[float | None, str, float]:
    """Value, name and seconds of the faster method; no value where neither ends in time."""
    value, best, seconds = None, f"stopped after {patience:g} s", patience
    for method, name in METHODS.items():
        found = in_time(arms, horizon, method, seconds)
        if found is not None:
            value, best, seconds = found[0], name, found[1]
    return value, best, seconds


def in_time(arms: int, horizon: int, method: str, seconds: float) -> tuple[float, float] | None:
    """Value and seconds, or nothing: HiGHS does not keep to its own limit of time."""
    command = [sys.executable, str(PROGRAM), str(arms), str(horizon), method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()  # the program is built
            value, passed = json.loads(running.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            return None
        finally:
            running.kill()
    return (value, passed) if passed < seconds else None
