"""`auto` picks a policy that is not materially beaten, and every result names what was picked."""

import sys
from pathlib import Path

import numpy as np
import pytest

from decobandit import Arm, BetaBernoulli, Problem, Terminal, evaluate, make_policy, optimum
from decobandit.problem import Rules
from decobandit.trials import create_trial, open_store
from helpers.documented import ROOT
from helpers.program import deco

sys.path.insert(0, str(ROOT))  # the benchmarks are not installed
from benchmarks.bench_default import FAMILIES, MEAN, MOST


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_is_close_to_the_exact_optimum(family: str) -> None:
    rng, lost = np.random.default_rng(7), list[float]()
    for _ in range(12):
        problem = FAMILIES[family](rng)
        best = optimum(problem).value
        lost.append(100.0 * (best - evaluate(problem).value) / best)
    assert min(lost) > -1e-9  # the optimum, by a recursion of its own, is not beaten
    assert np.mean(lost) <= MEAN
    assert max(lost) <= MOST


def test_greedy_is_picked_where_it_is_best() -> None:
    """One batch is one decision: the largest posterior mean, whatever the prices say."""
    arms = [
        Arm(name="sure", prior=BetaBernoulli(60, 40)),
        Arm(name="unknown", prior=BetaBernoulli(0.5, 0.4)),
    ]
    problem = Problem(arms=arms, horizon=2, pulls_per_stage=2, repeat=True)
    values = {
        name: evaluate(problem, name).value
        for name in ("deco-repriced", "knowledge-gradient", "greedy", "deco")
    }
    picked = make_policy(problem)
    assert values[picked.name] == max(values.values())
    assert evaluate(problem).value == max(values.values())


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (Problem.uniform(arms=3, horizon=6), "deco-calibrated"),
        (Problem.uniform(arms=2, horizon=5, terminal=Terminal(deploy=30)), "optimal"),
        (Problem.uniform(arms=2, horizon=9, pulls_per_stage=4, repeat=True), "deco-repriced"),
    ],
)
def test_results_and_logs_name_what_was_picked(problem: Problem, name: str, tmp_path: Path) -> None:
    assert make_policy(problem).name == make_policy(problem, "auto").name == name
    assert evaluate(problem).policy == name
    with open_store(tmp_path / "auto.db") as store:
        trial = create_trial(problem, db=store, bound=False)
        assert trial.status().policy == name
        ruled = create_trial(problem, db=store, bound=False, design=Rules(burn_in=1))
        assert ruled.status().policy != "optimal"  # which cannot follow rules


def test_the_command_line_names_what_was_picked() -> None:
    found = deco("evaluate", "--arms", 2, "--horizon", 5, "--json").json
    assert [row["policy"] for row in found["policies"]] == ["deco-calibrated"]
