"""What does not serve other outcomes than good or bad yet says so in one line."""

from pathlib import Path

import pytest

from decobandit import (
    NormalNormal,
    Problem,
    best_bound,
    information_bound,
    save_problem,
    solve,
)
from helpers.program import deco

PROBLEM = Problem.uniform(arms=2, horizon=4, prior=NormalNormal(0, 1), noise_sd=1)


def test_the_information_bound_refuses_other_kinds() -> None:
    with pytest.raises(
        ValueError, match="not yet for other outcomes than good or bad, and arm 'arm-1'"
    ):
        information_bound(PROBLEM)


def test_the_best_bound_is_that_of_the_prices() -> None:
    solution = solve(PROBLEM)
    assert best_bound(PROBLEM, solution=solution).value == solution.upper_bound


def test_the_program_solves_and_recommends(tmp_path: Path) -> None:
    save_problem(PROBLEM, tmp_path / "normal.toml")
    solved = deco("solve", tmp_path / "normal.toml", "--json").json
    assert solved["lower_bound"] <= solved["upper_bound"]
    assert solved["grid"] == 512
    assert solved["converged"]
    said = deco("recommend", tmp_path / "normal.toml", "--state", "1.5/1,0/0", "--policy", "greedy")
    assert "pull: arm-1" in said.out
    assert "N(0.75, sd 0.7071)" in said.out
