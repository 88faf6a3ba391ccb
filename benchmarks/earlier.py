"""The same work by an earlier commit and by this one, in turns, in one run.

    python -m benchmarks.earlier REVISION [--rounds 5]

The earlier commit is laid out in a temporary folder. Each piece of work is done by both, one after
the other, `rounds` times, each time in a process of its own that compiles or loads its kernels
first; the CPU seconds of the best round count. A ratio above 1 means that this commit is faster.
Only public names that both commits have are used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# each: once to load the kernels, then `n` times on the clock
WORK = {
    "dual (20, 500) to 1e-4": ("solve(Problem.uniform(arms=20, horizon=500), tol=1e-4)", 1),
    "dual (10, 100) to 1e-5": ("solve(Problem.uniform(arms=10, horizon=100), tol=1e-5)", 3),
    "dual of batches (10, 10 x 100) to 1e-4": (
        "solve(Problem.uniform(arms=10, horizon=10, pulls_per_stage=100, repeat=True), tol=1e-4)",
        1,
    ),
    "backward pass (20, 500)": ("dual_value(big, prices)", 5),
    "table of DeCo, 500 stages": ("OneArmValues(big, prices).stage_index(400)", 3),
    "optimum (5, 40)": ("optimum(Problem.uniform(arms=5, horizon=40))", 1),
    "value of DeCo (5, 40)": (
        "evaluate(forty.problem, DecoPolicy(forty.problem, forty.prices))",
        3,
    ),
    "FH-Gittins table, 60 stages": (
        'make_policy(Problem.uniform(arms=2, horizon=60), "fh-gittins").stage_index(0)',
        3,
    ),
    "1000 episodes of DeCo (10, 500)": ("simulate(long, [five_prices], draws=250, per_draw=4)", 2),
    "1000 episodes of KL-UCB (10, 500)": ("simulate(long, [kl_ucb], draws=250, per_draw=4)", 2),
    "1000 episodes of Thompson (10, 500)": (
        "simulate(long, [thompson], draws=250, per_draw=4)",
        2,
    ),
}
SCRIPT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from decobandit import *
from decobandit import evaluate, simulate
try:
    from decobandit import make_policy
    from decobandit.arm import OneArmValues
    from decobandit.policies import DecoPolicy
    from decobandit.prices import dual_value
except ImportError:  # names until e214703
    from decobandit import DecoPolicy, Relaxation as OneArmValues, Workbench, dual_value
    def make_policy(problem, name):
        return Workbench(problem).policy(name)
big = Problem.uniform(arms=20, horizon=500)
prices = np.linspace(0.95, 0.6, 500)
long = Problem.uniform(arms=10, horizon=500)
forty = solve(Problem.uniform(arms=5, horizon=40))
five = solve(long, tol=1e-3)
five_prices = DecoPolicy(long, five.prices)
kl_ucb, thompson = make_policy(long, "kl-ucb"), make_policy(long, "thompson")
found = {}
for name, (work, times) in json.load(sys.stdin).items():
    code = compile(work, name, "eval")
    eval(code)
    began = time.process_time()
    for _ in range(times):
        eval(code)
    found[name] = (time.process_time() - began) / times
print(json.dumps(found))
"""


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.earlier", description=__doc__)
    parser.add_argument("revision", help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=5, help="best of so many (5)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", given.revision, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        places = {"earlier": Path(folder) / "src", "now": ROOT / "src"}
        best: dict[str, dict[str, float]] = {which: {} for which in places}
        for number in range(given.rounds):
            for which, place in places.items():
                print(f"round {number + 1}: {which}", file=sys.stderr)
                for name, seconds in seconds_of(place, Path(folder) / which).items():
                    best[which][name] = min(seconds, best[which].get(name, seconds))
    print(f"| work | CPU s at {given.revision[:10]} | CPU s now | ratio |\n|---|---|---|---|")
    for name in WORK:
        earlier, now = best["earlier"][name], best["now"][name]
        print(f"| {name} | {earlier:.4f} | {now:.4f} | {earlier / now:.2f} |")


def seconds_of(place: Path, cache: Path) -> dict[str, float]:
    """CPU seconds of each piece of work, by the package in a folder."""
    env = {**os.environ, "PYTHONPATH": str(place), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(WORK),
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
