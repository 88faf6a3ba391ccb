"""The exact optimum in batches, against Bellman's equation over dictionaries; sizes foretold."""

import numpy as np
import pytest

from decobandit import Problem, Terminal, optimum, solve
from decobandit.joint import count_states
from helpers.batch_oracles import best_value, random_problem
from helpers.program import deco as run_deco
from helpers.refusals import refused


@pytest.mark.parametrize("kind", ["plain", "deployment", "tables"])
def test_the_optimum_is_that_of_the_recursion(kind: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(5):
        problem = random_problem(rng, kind)
        assert optimum(problem).value == pytest.approx(best_value(problem), abs=1e-9)


def test_exchangeable_arms_are_swapped() -> None:
    problem = Problem.uniform(
        arms=3, horizon=2, pulls_per_stage=4, unit=2, repeat=True, terminal=Terminal(deploy=5.0)
    )
    found = optimum(problem)
    assert found.value == pytest.approx(best_value(problem), abs=1e-9)
    assert found.value <= solve(problem).upper_bound + 1e-9
    # shapes 0; 200 and 110; 400, 310, 220 and 211, of 1 + 5 + 9 + 9 + 21 + 25 + 45 states
    assert count_states(problem) == (1 + 5 + 9 + 9 + 21 + 25 + 45, 9 + 21 + 25 + 45)
    assert found.states == 115


def test_single_pulls_are_batches_of_one() -> None:
    one = Problem.uniform(arms=3, horizon=5)
    batches = Problem.uniform(arms=3, horizon=5, repeat=True)
    assert optimum(batches).value == pytest.approx(optimum(one).value, abs=1e-12)


def test_what_is_too_large_is_refused_at_once() -> None:
    problem = Problem.uniform(arms=10, horizon=10, pulls_per_stage=100, unit=10, repeat=True)
    with refused("too_large"):
        optimum(problem)
    run = run_deco("optimum", "--arms", 10, "--horizon", 10, "--batch", 100, "--unit", 10)
    assert run.code == 2
    assert "exact optimum needs" in run.err


def test_the_command_prints_it() -> None:
    run = run_deco("optimum", "--arms", 2, "--horizon", 2, "--batch", 4, "--deploy", 3, "--json")
    problem = Problem.uniform(
        arms=2, horizon=2, pulls_per_stage=4, repeat=True, terminal=Terminal(deploy=3.0)
    )
    assert run.json["value"] == pytest.approx(best_value(problem), abs=1e-9)
