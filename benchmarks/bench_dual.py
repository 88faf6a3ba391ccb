"""The dual with its certificate: long horizons, and a short one against a linear program."""

from __future__ import annotations

import json
import subprocess
import sys

from decobandit import Problem, solve

from .occupancy_lp import maximum, occupancy_lp
from .rows import Row, at_most, best_times

SIMPLEX, INTERIOR = "highs-ds", "highs-ipm"
SAME = 1e-7  # relative accuracy of HiGHS with its own settings
RATIO = 30.0

ALONE = """
import json, resource, sys
from decobandit import Problem, solve
solution = solve(Problem.uniform(arms=int(sys.argv[1]), horizon=int(sys.argv[2])), tol=1e-3)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux, bytes on macOS
gib = peak / 2 ** (30 if sys.platform == "darwin" else 20)
print(json.dumps([solution.converged, solution.seconds, gib]))
"""


def run() -> list[Row]:
    """Rows for (20, 2000), (20, 500) and (5, 40)."""
    # the longest first: on Linux the peak of a new process starts from the size of its parent
    return [*very_long(20, 2000), *long(20, 500), *against_linear_program(5, 40)]


def long(arms: int, horizon: int) -> list[Row]:
    """Time and oracle calls to a relative gap of 1e-4, once compiled."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    solution = solve(problem, tol=1e-4)  # compiles
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached 1e-4")
    (seconds,) = best_times(3, lambda: solve(problem, tol=1e-4))
    what = f"solve ({arms}, {horizon}) to 1e-4"
    return [at_most(what, seconds, "s", 5.0), at_most(what, solution.oracle_calls, "calls", 200)]


def very_long(arms: int, horizon: int) -> list[Row]:
    """Time and memory to a relative gap of 1e-3, in a process of its own, loading included."""
    command = [sys.executable, "-c", ALONE, str(arms), str(horizon)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    converged, seconds, gib = json.loads(done.stdout)
    if not converged:
        raise RuntimeError(f"({arms}, {horizon}) has not reached 1e-3")
    what = f"solve ({arms}, {horizon}) to 1e-3"
    return [at_most(what, seconds, "s", 300.0), at_most(what, gib, "GiB", 2.0)]


def against_linear_program(arms: int, horizon: int) -> list[Row]:
    """The same minimum to the same accuracy; building the program is not counted."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    program = occupancy_lp(arms, horizon)
    (rough,) = best_times(20, lambda: solve(problem, tol=1e-4))
    ours, simplex, interior = best_times(
        2,
        lambda: solve(problem, tol=SAME),
        lambda: maximum(program, SIMPLEX),
        lambda: maximum(program, INTERIOR),
    )
    solution, value = solve(problem, tol=SAME), maximum(program, INTERIOR)
    if not solution.converged:
        raise RuntimeError(f"{solution!r} has not reached {SAME:g}")
    if not solution.lower_bound - 1e-5 <= value <= solution.upper_bound + 1e-5:
        raise AssertionError(f"the program's value {value} is not between the bounds: {solution!r}")
    peer, seconds = min(("simplex", simplex), ("interior point", interior), key=lambda x: x[1])
    beside = f"occupancy LP, HiGHS {peer}"
    ratio, target = seconds / ours, f"ratio at least {RATIO:g}"
    what = f"solve ({arms}, {horizon}) to"
    return [
        Row(f"{what} 1e-7", ours, "s", beside, seconds, ratio, target, ratio >= RATIO),
        Row(f"{what} 1e-4", rough, "s", beside, seconds, seconds / rough),
    ]
