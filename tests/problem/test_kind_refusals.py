"""Normal arms: the bound is that of the prices, and the program solves and recommends."""

from pathlib import Path

from decobandit import NormalNormal, Problem, bound, save_problem, solve
from helpers.program import deco

PROBLEM = Problem.uniform(arms=2, horizon=4, prior=NormalNormal(0, 1), noise_sd=1)


def test_the_best_bound_is_that_of_the_prices() -> None:
    solution = solve(PROBLEM)
    assert bound(PROBLEM, solution=solution)[0].value == solution.upper_bound


def test_the_program_solves_and_recommends(tmp_path: Path) -> None:
    save_problem(PROBLEM, tmp_path / "normal.toml")
    solved = deco("solve", tmp_path / "normal.toml", "--json").json
    assert solved["lower_bound"] <= solved["upper_bound"]
    assert solved["grid"] == 512
    assert solved["converged"]
    said = deco("recommend", tmp_path / "normal.toml", "--state", "1.5/1,0/0", "--policy", "greedy")
    assert "pull: arm-1" in said.out
    assert "N(0.75, sd 0.7071)" in said.out
