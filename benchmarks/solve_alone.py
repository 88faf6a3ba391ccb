"""One solve in a process of its own: `solve_alone.py ARMS HORIZON equal|different`.

Prints seconds, those that the problem takes to be made too, oracle calls and memory, as JSON. What
is compiled is loaded before the clock starts and before the memory is looked at.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path

from decobandit import Arm, BetaBernoulli, Problem, solve

TOL = 1e-3
STATUS = Path("/proc/self/status")


def problem_of(arms: int, horizon: int, kind: str) -> Problem:
    """Arms that all share a table, or of which no two do."""
    if kind == "equal":
        return Problem.uniform(arms=arms, horizon=horizon)
    priors = [BetaBernoulli(good=1 + k / arms, bad=2 - k / arms) for k in range(arms)]
    named = tuple(Arm(name=f"arm {k}", prior=prior) for k, prior in enumerate(priors))
    return Problem(arms=named, horizon=horizon)


def peak_mib() -> float:
    """The most memory that this process has had."""
    if STATUS.exists():  # getrusage would start from the size of the parent process
        found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text(encoding="utf-8"))
        if found is not None:
            return int(found[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2 ** (20 if sys.platform == "darwin" else 10)


def main(arms: int, horizon: int, kind: str) -> None:
    """Print the figures."""
    solve(problem_of(3, 12, kind), tol=TOL)
    before, began = peak_mib(), time.perf_counter()
    problem = problem_of(arms, horizon, kind)
    made = time.perf_counter() - began
    solution = solve(problem, tol=TOL)
    if not solution.converged:
        raise SystemExit(f"({arms}, {horizon}) has not reached {TOL:g}")
    after = peak_mib()
    figures = {
        "seconds": solution.seconds,
        "calls": solution.oracle_calls,
        "made_seconds": made,
        "mib": after - before,
        "peak_mib": after,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
