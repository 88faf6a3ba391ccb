"""The dual function and its certified minimum, against linear programs and recursions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decobandit.prices import band_market as market_module
from decobandit.prices import dual_value, solve
from decobandit.prices.band_market import BandMarket
from decobandit.prices.search import Search, minimise
from decobandit.problem import Arm, Arms, BetaBernoulli, Problem, Reward, arms_of
from decobandit.problem.model import Terminal
from helpers.certificates import assert_certified
from helpers.examples import KINDS, at_stake, largest_reward, problems, random_prices
from helpers.oracles import dual, good_chance, occupancy_lp, rewards
from helpers.reference import REFERENCE

COMPILED = settings(deadline=None)  # the first example waits for the compiler


# -- the minimum --------------------------------------------------------------------------------


@pytest.mark.parametrize(("arms", "horizon", "minimum"), REFERENCE["dual_minimum"]["values"])
def test_published_minima_are_bracketed(arms: int, horizon: int, minimum: float) -> None:
    solution = solve(Problem.uniform(arms=arms, horizon=horizon), tol=1e-6, max_calls=1000)
    printed = 5e-7  # the reference has six decimals
    assert_certified(solution, minimum, slack=printed)
    assert solution.upper_bound <= minimum * (1 + 1e-6) + printed
    assert solution.lower_bound >= minimum * (1 - 2e-6) - printed
    assert solution.converged


@pytest.mark.parametrize("horizon", [1, 2, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_minimum_of_the_occupancy_program_is_bracketed(kind: str, horizon: int) -> None:
    problem = KINDS[kind](horizon)
    minimum = occupancy_lp(problem)
    solution = solve(problem, tol=1e-6)
    assert_certified(solution, minimum, slack=1e-8 * abs(minimum))
    assert solution.relative_gap <= 1e-6


@settings(COMPILED, max_examples=150)
@given(problems())
def test_minimum_of_any_small_problem_is_bracketed(problem: Problem) -> None:
    minimum = occupancy_lp(problem)
    solution = solve(problem, tol=1e-4, max_calls=300)
    assert_certified(solution, minimum, slack=1e-8 * at_stake(problem))
    distance = solution.upper_bound - solution.lower_bound
    # a minimum of zero has no relative accuracy: there, rounding of what is at stake will do
    assert (
        solution.oracle_calls >= 300
        or solution.relative_gap <= 1e-4
        or distance <= 1e-12 * at_stake(problem)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_bands_reach_the_same_minimum(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = KINDS[kind](9)
    minimum = occupancy_lp(problem)
    monkeypatch.setattr(market_module, "FULL_BAND_STATES", 0)
    solution = solve(problem, tol=1e-4)
    assert_certified(solution, minimum, slack=1e-8 * abs(minimum))
    assert solution.relative_gap <= 1e-4


def in_units(problem: Problem, unit: float) -> Problem:
    """The problem with all its rewards in other units, such as cents."""

    def times(amount: float | tuple[float, ...]) -> float | tuple[float, ...]:
        return tuple(unit * x for x in amount) if isinstance(amount, tuple) else unit * amount

    arms = []
    for arm in problem.arms:
        reward = Reward(good=times(arm.reward.good), bad=times(arm.reward.bad))
        table = arm.terminal and tuple(tuple(unit * x for x in row) for row in arm.terminal)
        arms.append(arm.model_copy(update={"reward": reward, "terminal": table}))
    deploy = 0.0 if problem.terminal is None else unit * problem.terminal.deploy
    return problem.model_copy(update={"arms": arms, "terminal": Terminal(deploy=deploy)})


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**20])
@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_of_rewards_does_not_matter(kind: str, unit: float) -> None:
    problem = KINDS[kind](9)
    minimum = unit * occupancy_lp(problem)
    solution = solve(in_units(problem, unit), tol=1e-5)
    assert_certified(solution, minimum, slack=1e-8 * minimum)
    assert solution.relative_gap <= 1e-5


@pytest.mark.parametrize("horizon", [1, 7])
@pytest.mark.parametrize("kind", ["uniform", "heterogeneous", "seasonal"])
def test_where_every_arm_is_always_pulled_the_minimum_is_the_sum_of_means(
    kind: str, horizon: int
) -> None:
    """Nothing is left to decide, and posterior means are martingales."""
    arms = KINDS[kind](horizon).arms
    problem = Problem(arms=arms, horizon=horizon, pulls_per_stage=len(arms))
    earned = []
    for arm, t in itertools.product(arms, range(horizon)):
        good, bad = rewards(problem, arm, t)
        p = good_chance(arm, 0, 0)
        earned.append(p * good + (1 - p) * bad)
    solution = solve(problem, tol=1e-9)
    assert_certified(solution, math.fsum(earned), slack=1e-10)
    assert solution.converged


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_one_stage_earns_the_largest_means(m: int) -> None:
    arms = [
        Arm(name="a", prior=BetaBernoulli(good=1, bad=3)),
        Arm(name="b", prior=BetaBernoulli(good=5, bad=2)),
        Arm(name="c", reward=Reward(good=0.5, bad=0.25)),
        Arm(name="d", reward=Reward(good=-1, bad=-2)),
    ]
    best_first = [5 / 7, 3 / 8, 1 / 4, -3 / 2]
    problem = Problem(arms=tuple(arms), horizon=1, pulls_per_stage=m)
    solution = solve(problem, tol=1e-12)
    assert_certified(solution, sum(best_first[:m]), slack=1e-14)
    assert solution.converged


def test_one_arm_is_always_pulled() -> None:
    solution = solve(Problem.uniform(arms=1, horizon=30), tol=1e-9)
    assert_certified(solution, 15.0, slack=1e-12)
    assert solution.converged


def test_a_minimum_of_zero_is_reached() -> None:
    arms = tuple(Arm(name=name, reward=Reward(good=1, bad=-1)) for name in "ab")
    solution = solve(Problem(arms=arms, horizon=3, pulls_per_stage=2), tol=1e-6)
    assert -1e-12 <= solution.lower_bound <= 0.0  # less what rounding may take
    assert 0.0 <= solution.upper_bound <= 1e-12
    assert solution.converged


# -- value and gradient -------------------------------------------------------------------------


@COMPILED
@given(problems(max_horizon=5), st.integers(0, 2**32 - 1))
def test_dual_value_is_that_of_the_recursion(problem: Problem, seed: int) -> None:
    prices = random_prices(problem, seed)
    found = dual_value(problem, prices)
    rounding = 1e-12 * at_stake(problem)
    assert found.value == pytest.approx(dual(problem, prices), abs=rounding)
    assert found.reward + found.gradient @ np.array(prices) == pytest.approx(
        found.value, abs=rounding
    )


@settings(COMPILED, max_examples=50)
@given(problems(max_horizon=4), st.integers(0, 2**32 - 1))
def test_dual_value_is_above_the_minimum_at_any_prices(problem: Problem, seed: int) -> None:
    slack = 1e-9 * at_stake(problem)
    assert dual_value(problem, random_prices(problem, seed)).value >= occupancy_lp(problem) - slack


@settings(COMPILED, max_examples=50)
@given(problems(max_horizon=5), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_gradient_supports_the_dual_from_below(problem: Problem, here: int, there: int) -> None:
    """Convexity with the gradient as a subgradient, also at kinks."""
    at, other = random_prices(problem, here), random_prices(problem, there)
    found = dual_value(problem, at)
    support = found.value + found.gradient @ (np.array(other) - np.array(at))
    assert dual(problem, other) >= support - 1e-12 * at_stake(problem)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_difference_quotient_away_from_kinks(kind: str, seed: int) -> None:
    problem = KINDS[kind](8)
    prices = np.array(random_prices(problem, seed))
    gradient = dual_value(problem, prices).gradient
    step = 1e-5 * largest_reward(problem)
    middle = dual(problem, prices)
    smooth = 0
    for t in range(problem.stages):
        shift = step * np.eye(problem.stages)[t]
        up, down = dual(problem, prices + shift), dual(problem, prices - shift)
        if abs((up - middle) - (middle - down)) < 1e-8 * step:  # linear here: no kink within reach
            assert gradient[t] == pytest.approx((up - down) / (2 * step), abs=1e-8)
            smooth += 1
    assert smooth > problem.stages / 2


# -- groups -------------------------------------------------------------------------------------


def test_equal_arms_are_one_group_however_they_are_written() -> None:
    horizon = 6
    arms = (
        Arm(name="number", reward=Reward(good=0.7, bad=-0.1)),
        Arm(name="list", reward=Reward(good=(0.7,) * horizon, bad=-0.1)),
        Arm(name="other", prior=BetaBernoulli(good=2, bad=1)),
        Arm(name="lists", reward=Reward(good=(0.7,) * horizon, bad=(-0.1,) * horizon)),
    )
    problem = Problem(arms=arms, horizon=horizon)
    assert len(problem.groups) == 2
    prices = random_prices(problem, 0)
    expected = dual(problem, prices)  # knows no groups
    assert dual_value(problem, prices).value == pytest.approx(expected, rel=1e-13)
    minimum = occupancy_lp(problem)  # knows four kinds of arms
    assert_certified(solve(problem, tol=1e-6), minimum, slack=1e-8 * minimum)


def split(arms: Arms) -> Arms:
    """Every group as two: one of a single arm, one of the others."""
    twice = Arms(*(np.repeat(array, 2, axis=0) for array in arms))
    counts = np.ravel([(1.0, count - 1.0) for count in arms.counts])
    kept = counts > 0
    return Arms(*(array[kept] for array in twice._replace(counts=counts)))


@pytest.mark.parametrize("kind", KINDS)
def test_splitting_groups_changes_nothing(kind: str) -> None:
    problem = KINDS[kind](8)
    whole, parts = arms_of(problem), split(arms_of(problem))
    assert len(parts.counts) > len(whole.counts)
    assert parts.counts.sum() == whole.counts.sum() == problem.n_arms
    prices = np.array(random_prices(problem, 1))
    first, second = (BandMarket(arms, problem.pulls, workers=2) for arms in (whole, parts))
    for market in (first, second):
        market.remember_around(prices)
        assert market.value_at(prices) == pytest.approx(dual(problem, prices), rel=1e-12)
    expected, flow = first.relaxed(at_price=0.0), second.relaxed(at_price=0.0)
    assert flow.total == pytest.approx(expected.total, rel=1e-12)
    np.testing.assert_allclose(flow.spent.sum(axis=0), expected.spent.sum(axis=0), rtol=1e-12)
    # the way to the minimum may differ, by rounding at ties; the minimum may not
    search = Search(second, lambda line: None)
    minimise(search, prices, 1e-6, 300)
    minimum = occupancy_lp(problem)
    assert search.lower <= minimum * (1 + 1e-8)
    assert search.upper >= minimum * (1 - 1e-8)
    assert search.gap <= 1e-6
