"""Decisions and values of small problems, to be compared between machines.

    python -m helpers.golden FILE        write them, numbers in hexadecimal

`tests/golden/values.json` was written so. Prices are those of that file where it exists: where a
search for prices stops depends on rounding.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from decobandit import (
    Arm,
    BetaBernoulli,
    Problem,
    Terminal,
    evaluate,
    load_solution,
    recommend,
    save_solution,
    solve,
)
from decobandit.prices import DualSolution, dual_value
from decobandit.support import code_environment

FOLDER = Path(__file__).parents[1] / "golden"
PROBLEMS = {
    "uniform": Problem.uniform(arms=3, horizon=30),
    "different": Problem(
        arms=(
            Arm(name="a", prior=BetaBernoulli(2, 1)),
            Arm(name="b", prior=BetaBernoulli(1, 3)),
            Arm(name="c", prior=BetaBernoulli(0.5, 0.5)),
        ),
        horizon=20,
    ),
    "deployment": Problem.uniform(arms=2, horizon=16, terminal=Terminal(deploy=50.0)),
    "several": Problem.uniform(arms=5, horizon=10, pulls_per_stage=2),
}
POLICIES = ("deco", "greedy", "ucb1")


def _states(problem: Problem) -> list[str]:
    """Some states: good outcomes and pulls of every arm."""
    rng, states = np.random.default_rng(30), []
    for stage in rng.integers(problem.horizon, size=4).tolist():
        shares = np.ones(problem.n_arms) / problem.n_arms
        pulls = rng.multinomial(stage * problem.pulls_per_stage, shares)
        good = rng.binomial(pulls, 0.4)
        states.append(",".join(f"{g}/{n}" for g, n in zip(good, pulls, strict=True)))
    return states


def _solution(name: str, problem: Problem) -> DualSolution:
    file = FOLDER / f"{name}.json"
    if not file.exists():
        save_solution(solve(problem, tol=1e-6), file)
    return load_solution(file)


def corpus() -> dict[str, Any]:
    """All of it: `values` at fixed prices, bounds of a `search`, `decisions`; by name."""
    values: dict[str, float] = {}
    search: dict[str, float] = {}
    decisions: dict[str, list[str]] = {}
    for name, problem in PROBLEMS.items():
        solution, again = _solution(name, problem), solve(problem, tol=1e-6)
        search |= {f"{name}: upper": again.upper_bound, f"{name}: lower": again.lower_bound}
        values[f"{name}: dual function"] = dual_value(problem, solution.prices).value
        for policy in POLICIES:
            value = evaluate(problem, policy, solution=solution).value
            values[f"{name}: value of {policy}"] = value
            for state in _states(problem):
                told = recommend(problem, state, policy, solution=solution)
                key = f"{name}: {policy} after {state}"
                decisions[key] = list(told.chosen)
                indices = {arm.name: arm.index for arm in told.arms if arm.index is not None}
                values |= {f"{key}: {arm}": float(index) for arm, index in indices.items()}
    return {
        "environment": code_environment(),
        "values": {key: float(value).hex() for key, value in values.items()},
        "search": {key: float(value).hex() for key, value in search.items()},
        "decisions": decisions,
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    Path(sys.argv[1]).write_text(json.dumps(corpus(), indent=0) + "\n", encoding="utf-8")
