"""The dual of batches: its value, its minimum, the indices of units, against slow versions."""

import numpy as np
import pytest

from decobandit import BetaBernoulli, Problem, Reward, Terminal, solve
from decobandit.arm import OneArmValues
from decobandit.arm.kernels.transitions import beta_binomial
from decobandit.arm.kernels.units import hull_slopes, share_out
from decobandit.prices import dual_value
from helpers import batch_oracles
from helpers.batch_oracles import random_problem
from helpers.refusals import refused

KINDS = ("plain", "deployment", "tables")
CASES = [(seed, kind) for seed in range(12) for kind in KINDS]


@pytest.mark.parametrize(("seed", "kind"), CASES)
def test_the_minimum_lies_between_the_bounds_of_the_linear_program(seed: int, kind: str) -> None:
    problem = random_problem(np.random.default_rng(seed), kind)
    solution = solve(problem)
    minimum = batch_oracles.occupancy_lp(problem)
    slack = 1e-7 * max(1.0, abs(minimum))
    assert solution.lower_bound - slack <= minimum <= solution.upper_bound + slack
    assert solution.converged


@pytest.mark.parametrize(("seed", "kind"), CASES[::2])
def test_the_dual_function_is_the_recursion_of_every_arm(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, kind)
    prices = rng.normal(size=problem.stages)
    expected = batch_oracles.dual(problem, prices)
    assert dual_value(problem, prices).value == pytest.approx(expected, abs=1e-12)
    assert OneArmValues(problem, prices).value() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_is_the_slope_of_the_dual_function(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, "deployment")
    prices = rng.normal(size=problem.stages)
    gradient = dual_value(problem, prices).gradient
    step = 1e-6
    for stage in range(problem.stages):
        moved = prices + step * (np.arange(problem.stages) == stage)
        slope = (batch_oracles.dual(problem, moved) - batch_oracles.dual(problem, prices)) / step
        assert slope == pytest.approx(gradient[stage], abs=1e-4)


def test_one_pull_per_stage_in_units_is_the_problem_of_single_pulls() -> None:
    single = Problem.uniform(arms=3, horizon=6)
    batch = single.model_copy(update={"repeat": True})
    prices = np.linspace(0.7, 0.5, 6)
    assert dual_value(batch, prices).value == pytest.approx(dual_value(single, prices).value)
    assert solve(batch).upper_bound == pytest.approx(solve(single).upper_bound, rel=2e-4)


@pytest.mark.parametrize(
    ("good", "bad"), [(1.0, 1.0), (1e-6, 1e-6), (1e9, 1e-6), (1e-6, 1e9), (100.0, 30.0)]
)
@pytest.mark.parametrize("pulls", [1, 10, 200])
def test_chances_of_a_batch_are_beta_binomial(good: float, bad: float, pulls: int) -> None:
    found = np.empty(pulls + 1)
    beta_binomial(good, bad, pulls, found)
    expected = np.array(batch_oracles.chances(pulls, good, bad))
    assert found == pytest.approx(expected / expected.sum(), rel=1e-6, abs=1e-12)
    mean = pulls * good / (good + bad)
    assert found @ np.arange(pulls + 1) == pytest.approx(mean, rel=1e-11)


def test_slopes_are_those_of_the_concave_hull() -> None:
    room, slopes = np.empty(6, dtype=np.int64), np.empty(5)
    hull_slopes(0.0, np.array([1.0, 3.0, 3.5, 3.0, 4.5]), room, slopes)
    assert slopes == pytest.approx([1.5, 1.5, 0.5, 0.5, 0.5])
    hull_slopes(1.0, np.array([4.0, 5.5, 6.0, 6.0, 5.0]), room, slopes)
    assert slopes == pytest.approx([3.0, 1.5, 0.5, 0.0, -1.0])


@pytest.mark.parametrize("seed", range(20))
def test_units_are_shared_out_for_the_largest_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, arms = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    values = rng.normal(size=(arms, units + 1))  # no order, not concave
    given = np.empty(arms, dtype=np.int64)
    room = np.empty(units + 1), np.empty((arms, units + 1), dtype=np.int64)
    found = share_out(values, units, *room, given)
    problem = Problem.uniform(arms=arms, pulls_per_stage=units, repeat=True)
    sums = [
        sum(values[k, a] for k, a in enumerate(each)) for each in batch_oracles.allocations(problem)
    ]
    assert found == pytest.approx(max(sums))
    assert given.sum() == units
    assert values[np.arange(arms), given].sum() == pytest.approx(found)


def test_the_bound_of_the_published_cell_is_what_was_measured_before() -> None:
    # 10 arms, 10 batches of 100 in units of 20, only the deployment pays: regret .0084 at least
    problem = Problem.uniform(
        arms=10,
        horizon=10,
        pulls_per_stage=100,
        repeat=True,
        unit=20,
        prior=BetaBernoulli(100, 100),
        reward=Reward(good=0, bad=0),
        terminal=Terminal(deploy=1),
    )
    draws = np.random.default_rng(1).beta(100, 100, size=(100_000, 10)).max(axis=1)
    regret = draws.mean() - solve(problem).upper_bound
    assert regret == pytest.approx(0.0084, abs=2e-4)


@pytest.mark.parametrize(("seed", "kind"), CASES[::3])
def test_what_units_are_worth_is_the_recursion_of_one_arm(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, kind)
    prices = rng.normal(size=problem.stages)
    relaxation = OneArmValues(problem, prices)
    stage = int(rng.integers(problem.horizon))
    for k, group in enumerate(problem.groups):
        arm = problem.arms[group.members[0]]
        most = problem.units * stage
        pulls = problem.unit * rng.integers(0, most + 1, size=7)
        good = rng.integers(0, pulls + 1)
        found = relaxation.unit_values(stage, k, np.stack([good, pulls - good], axis=-1))
        expected = [
            batch_oracles.unit_values(problem, arm, prices, stage, int(n), int(g))
            for n, g in zip(pulls, good, strict=True)
        ]
        assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_values_of_states_that_cannot_be_are_refused() -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, repeat=True, unit=2)
    relaxation = OneArmValues(problem, [1.0, 1.0])
    with refused("invalid_argument", "stats"):
        relaxation.unit_values(1, 0, np.array([[1, 1], [1, 2]]))
    with refused("invalid_argument", "stats"):
        relaxation.unit_values(0, 0, np.array([2, 2]))
    with refused("invalid_argument", "stats"):
        relaxation.unit_values(1, 0, np.array([3, -1]))
