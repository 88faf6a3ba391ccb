"""Grids of states: bounds above and below the exact dual, and what they are made of."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, betabinom

from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal, solve
from decobandit.arm import Grid, OneArmValues, arm_graph, grid_of
from decobandit.prices import load_solution, save_solution
from decobandit.prices.stage_market import StageMarket
from decobandit.problem import terminal_table
from helpers import batch_oracles
from helpers.program import deco
from helpers.refusals import refused

DIFFERENT = Problem(
    horizon=4,
    pulls_per_stage=60,
    repeat=True,
    unit=15,
    terminal=Terminal(deploy=40),
    arms=[
        Arm(name="a", prior=BetaBernoulli(1, 1)),
        Arm(
            name="b", prior=BetaBernoulli(0.4, 2), reward=Reward(good=[2.0, 1.0, 1.0, 0.5], bad=0.3)
        ),
        Arm(name="c", prior=BetaBernoulli(30, 40), reward=Reward(good=-0.5, bad=0.9)),
    ],
)
DEPLOYED = Problem.uniform(
    arms=6,
    horizon=5,
    pulls_per_stage=100,
    repeat=True,
    unit=20,
    prior=BetaBernoulli(100, 100),
    reward=Reward(good=0, bad=0),
    terminal=Terminal(deploy=1),
)
TABLES = Problem(
    horizon=3,
    pulls_per_stage=30,
    repeat=True,
    unit=10,
    arms=[
        Arm(name=name, terminal=terminal_table(90, lambda g, b, at=at: max(g - at * (g + b), 0.0)))
        for name, at in (("a", 0.3), ("b", 0.6))
    ],
)
SMALL = [DIFFERENT, DEPLOYED, TABLES]


@pytest.mark.parametrize("unit", [1, 7, 40])
@pytest.mark.parametrize(
    "prior", [BetaBernoulli(1, 1), BetaBernoulli(0.3, 2), BetaBernoulli(100, 100)]
)
@pytest.mark.parametrize("below", [False, True])
def test_chances_on_a_grid_have_the_same_mean_and_are_wider_above_narrower_below(
    unit: int, prior: BetaBernoulli, below: bool
) -> None:
    problem = Problem.uniform(
        arms=2, horizon=2, pulls_per_stage=2 * unit, repeat=True, unit=unit, prior=prior
    )
    above = arm_graph(problem, problem.groups[0], Grid(17))
    states = above.lower if below else above
    assert states is not None
    assert states.good is not None
    arrays = states.arrays
    x = np.arange(unit + 1)
    for row in range(states.rows):
        for s in range(states.start[row], states.start[row + 1]):
            first, begin, end = arrays.to[s], arrays.at[s], arrays.at[s + 1]
            weight = arrays.weights[begin:end]
            at = states.good[states.start[row + 1] + first :][: end - begin]
            g = states.good[s]
            exact = betabinom.pmf(x, unit, prior.good + g, prior.bad + row * unit - g)
            assert weight.min() >= 0.0
            assert weight.sum() == pytest.approx(1.0, abs=1e-10)
            assert weight @ at == pytest.approx(exact @ (g + x), abs=1e-8)
            ends = np.concatenate([at, g + x])[:, None]  # of all hockey sticks that can differ
            wider = np.maximum(at - ends, 0.0) @ weight - np.maximum(g + x - ends, 0.0) @ exact
            assert (-wider if below else wider).min() >= -1e-8


@pytest.mark.parametrize("problem", SMALL)
def test_values_on_a_grid_are_above_or_below_the_exact_dual_at_any_prices(problem: Problem) -> None:
    rng = np.random.default_rng(5)
    best = solve(problem, grid=0).prices
    for scale in (0.0, 0.1, 1.0):
        prices = best + scale * rng.normal(size=best.size) * np.abs(best)
        exact = OneArmValues(problem, prices, grid=0).value()
        rounding = 1e-9 * max(1.0, abs(exact))
        errors = []
        for points in (8, 16, 64):
            above = OneArmValues(problem, prices, grid=points).value()
            below = StageMarket(problem, Grid(points), below=True).value_at(prices)
            assert below - rounding <= exact <= above + rounding
            errors.append([above - exact, exact - below])
        for finer, coarser in zip(errors[1:], errors, strict=False):
            assert finer[0] <= coarser[0] + rounding
            assert finer[1] <= coarser[1] + rounding


def test_the_exact_dual_of_the_grid_tests_is_the_recursion_of_every_arm() -> None:
    small = DIFFERENT.model_copy(update={"horizon": 2, "arms": [DIFFERENT.arms[0]]})
    prices = np.array([6.0, 5.0, 20.0])
    exact = OneArmValues(small, prices, grid=0).value()
    assert exact == pytest.approx(batch_oracles.dual(small, prices), rel=1e-12)


@pytest.mark.parametrize("problem", SMALL)
def test_both_bounds_of_a_grid_hold_and_narrow(problem: Problem) -> None:
    exact = solve(problem, grid=0, tol=1e-6)
    gaps = []
    for points in (12, 48, 256):
        found = solve(problem, grid=points, tol=1e-6)
        assert found.grid == points
        assert found.lower_bound <= exact.upper_bound
        assert found.upper_bound >= exact.lower_bound
        gaps.append(found.relative_gap)
    assert gaps == sorted(gaps, reverse=True)
    assert found.upper_bound == pytest.approx(exact.upper_bound, rel=1e-3)
    assert found.lower_bound == pytest.approx(exact.lower_bound, rel=5e-3)


def test_an_interrupted_search_on_a_grid_has_bounds_that_hold() -> None:
    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    exact = solve(DEPLOYED, grid=0, tol=1e-6)
    found = solve(DEPLOYED, grid=30, tol=1e-6, progress=stop)
    assert found.interrupted
    assert not found.converged
    assert found.lower_bound <= exact.upper_bound
    assert found.upper_bound >= exact.lower_bound


def test_what_units_are_worth_on_a_grid_is_close_to_the_exact_worth() -> None:
    prices = solve(DEPLOYED).prices
    exact, coarse = (OneArmValues(DEPLOYED, prices, grid=points) for points in (0, 200))
    pulls = np.array([0, 20, 100, 200, 200])
    good = np.array([0, 9, 55, 101, 120])
    stats = np.stack([good, pulls - good], axis=-1)
    expected, found = (values.unit_values(2, 0, stats) for values in (exact, coarse))
    assert found == pytest.approx(expected, abs=2e-4)
    assert np.all(found >= expected - 1e-12)


def test_a_table_that_is_not_convex_has_no_grid() -> None:
    table = terminal_table(40, lambda g, b: float(np.sin(g)))
    arms = [Arm(name="a"), Arm(name="wavy", terminal=table)]
    problem = Problem(arms=arms, horizon=4, pulls_per_stage=10, repeat=True, unit=5)
    with refused("invalid_argument", "grid"):
        solve(problem, grid=20)
    assert solve(problem).grid == 0


@pytest.mark.parametrize("grid", [-1, 2, 1.5, True, 10**9])
def test_grids_that_cannot_be_are_refused(grid: object) -> None:
    with refused("invalid_argument", "grid"):
        solve(DEPLOYED, grid=grid)  # type: ignore[arg-type]
    with refused("invalid_argument", "grid"):
        solve(Problem.uniform(), grid=10)


def large(unit: int, kinds: int = 8) -> Problem:
    arms = [Arm(name=f"page-{k}", prior=BetaBernoulli(2 + k, 20)) for k in range(kinds)]
    return Problem(arms=arms, horizon=25, pulls_per_stage=2000, repeat=True, unit=unit)


def test_fifty_thousand_pulls_have_a_grid_and_finer_units_are_told_what_fits() -> None:
    assert grid_of(large(200)).points >= 200
    with refused("too_large", "unit") as refusal:
        grid_of(large(1))
    fits = int(str(refusal.value).split("unit = ")[1].split()[0])
    assert grid_of(large(fits)).points > 0


def test_the_bound_of_a_large_experiment_is_nearly_that_of_known_arms() -> None:
    # two equal arms, pulls right in expectation: an arm that is known takes all where it is better
    # than its median; 50,000 pulls are enough to know nearly all of it
    arms = [Arm(name=name, prior=BetaBernoulli(2, 20)) for name in "ab"]
    problem = Problem(arms=arms, horizon=25, pulls_per_stage=2000, repeat=True, unit=400)
    found = solve(problem, grid=64, tol=1e-3)
    middle = beta(2, 20).median()
    known = 50_000 * beta(2, 20).expect(lb=middle) / 0.5
    assert 0.97 * known < found.lower_bound < found.upper_bound < known * 1.003
    assert found.relative_gap < 5e-3


def test_a_solution_on_a_grid_says_so(tmp_path: Path) -> None:
    found = solve(DEPLOYED, grid=40)
    save_solution(found, tmp_path / "s.json")
    assert load_solution(tmp_path / "s.json").grid == 40
    assert found.to_dict()["grid"] == 40
    assert "grid" not in solve(DEPLOYED).to_dict()


def test_the_program_has_grids() -> None:
    options = ("solve", "--arms", 3, "--horizon", 3, "--batch", 40, "--unit", 10, "--grid", 9)
    printed = deco(*options)
    assert "states per row, a grid" in printed.out
    assert "both bounds hold" in printed.out
    assert deco(*options, "--json").json["grid"] == 9
    answer = deco("solve", "--arms", 3, "--horizon", 3, "--grid", 9)
    assert answer.code == 2
    assert "grid: only problems with repeat" in answer.err
