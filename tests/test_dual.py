"""The dual function and its certified minimum, against linear programs and recursions."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decobandit import market as market_module
from decobandit.dual import DualSolution, dual_value, solve
from decobandit.kernels.market import Arms
from decobandit.market import Market, arms_of
from decobandit.problem import Arm, Beta, Problem, Reward, Terminal
from decobandit.search import COARSEST, Progress, Search, minimise
from examples import KINDS, at_stake, largest_reward, problems, random_prices, seasonal
from oracles import dual, good_chance, occupancy_lp, rewards, stage_pulls

REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))
COMPILED = settings(deadline=None)  # the first example waits for the compiler
LONG = COARSEST + 4  # stages enough for a coarser problem before


def assert_certified(solution: DualSolution, minimum: float, *, slack: float) -> None:
    """lower <= minimum <= upper up to slack, and upper is what its prices say."""
    assert solution.lower_bound <= minimum + slack
    assert solution.upper_bound >= minimum - slack
    assert_honest(solution)


def assert_honest(solution: DualSolution) -> None:
    """The upper bound is the dual function at the prices that are handed out."""
    rounding = 1e-12 * at_stake(solution.problem)
    value = dual(solution.problem, solution.prices)
    assert solution.upper_bound == pytest.approx(value, abs=rounding)
    assert solution.lower_bound <= solution.upper_bound
    size = max(abs(solution.upper_bound), abs(solution.lower_bound))
    distance = solution.upper_bound - solution.lower_bound
    assert solution.relative_gap == pytest.approx(distance / size if size else 0.0, abs=1e-15)


# -- the minimum --------------------------------------------------------------------------------


@pytest.mark.parametrize(("arms", "horizon", "minimum"), REFERENCE["dual_minimum"]["values"])
def test_published_minima_are_bracketed(arms: int, horizon: int, minimum: float) -> None:
    solution = solve(Problem.uniform(arms=arms, horizon=horizon), tol=1e-6)
    assert_certified(solution, minimum, slack=5e-7)  # the reference has six decimals
    assert solution.relative_gap <= 1e-6


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
        Arm(name="a", prior=Beta(good=1, bad=3)),
        Arm(name="b", prior=Beta(good=5, bad=2)),
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
    assert solution.lower_bound == pytest.approx(0.0, abs=1e-14)
    assert solution.upper_bound == pytest.approx(0.0, abs=1e-14)
    assert solution.converged


# -- long horizons: coarse to fine --------------------------------------------------------------


def assert_same_minimum(warm: DualSolution, cold: DualSolution) -> None:
    """Two brackets of one number: they overlap, and both are tight."""
    for solution in (warm, cold):
        assert_honest(solution)
        assert solution.converged
    rounding = 1e-12 * at_stake(warm.problem)
    assert warm.lower_bound <= cold.upper_bound + rounding
    assert cold.lower_bound <= warm.upper_bound + rounding


def test_coarse_to_fine_brackets_a_cold_solve() -> None:
    problem = Problem.uniform(arms=3, horizon=LONG)
    warm, cold = solve(problem), solve(problem, start=np.full(LONG, 0.7))
    assert {line.stages for line in warm.history} == {LONG // 2, LONG}
    assert {line.stages for line in cold.history} == {LONG}
    assert_same_minimum(warm, cold)


def test_coarse_to_fine_does_not_lose_a_season() -> None:
    problem = seasonal(LONG)
    warm, cold = solve(problem), solve(problem, start=np.full(LONG, 0.5))
    assert {line.stages for line in warm.history} == {LONG // 2, LONG}
    assert_same_minimum(warm, cold)


@pytest.mark.parametrize("horizon", [COARSEST - 1, COARSEST, COARSEST + 1])
def test_coarse_to_fine_keeps_the_deployment(horizon: int) -> None:
    arms = Problem.uniform(arms=3, horizon=horizon).arms
    problem = Problem(arms=arms, horizon=horizon, terminal=Terminal(deploy=20.0))
    warm = solve(problem, tol=1e-3)
    cold = solve(problem, tol=1e-3, start=[0.8] * horizon + [16.0])
    assert_same_minimum(warm, cold)
    assert warm.deployment_price == warm.prices[-1]
    assert warm.multipliers.shape == (horizon,)


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


# -- groups and threads -------------------------------------------------------------------------


def test_equal_arms_are_one_group_however_they_are_written() -> None:
    horizon = 6
    arms = (
        Arm(name="number", reward=Reward(good=0.7, bad=-0.1)),
        Arm(name="list", reward=Reward(good=(0.7,) * horizon, bad=-0.1)),
        Arm(name="other", prior=Beta(good=2, bad=1)),
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
    assert parts.counts.sum() == whole.counts.sum() == problem.number_of_arms
    prices = np.array(random_prices(problem, 1))
    first, second = (Market(arms, problem.pulls, threads=2) for arms in (whole, parts))
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


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_change_a_single_digit(kind: str) -> None:
    problem = KINDS[kind](12)
    one, two = (solve(problem, tol=1e-5, threads=threads) for threads in (1, 2))
    assert one.prices.tolist() == two.prices.tolist()
    assert (one.upper_bound, one.lower_bound) == (two.upper_bound, two.lower_bound)
    assert one.history == two.history
    prices = random_prices(problem, 2)
    first, second = (dual_value(problem, prices, threads=threads) for threads in (1, 2))
    assert (first.value, first.reward) == (second.value, second.reward)
    assert first.gradient.tolist() == second.gradient.tolist()


# -- how a solve goes ---------------------------------------------------------------------------


def test_history_is_what_was_reported_and_never_gets_worse() -> None:
    seen: list[Progress] = []
    solution = solve(KINDS["heterogeneous"](12), tol=1e-9, max_calls=80, progress=seen.append)
    assert solution.history == tuple(seen)
    for before, after in itertools.pairwise(seen):
        assert after.upper_bound <= before.upper_bound
        assert after.lower_bound >= before.lower_bound
        assert after.calls >= before.calls
    assert len(seen) > 3
    assert seen[-1].lower_bound == solution.lower_bound
    assert seen[-1].upper_bound == solution.upper_bound
    assert seen[-1].calls == solution.oracle_calls


def test_a_smaller_tolerance_is_reached_with_more_calls() -> None:
    problem = Problem.uniform(arms=5, horizon=20)
    rough, fine = solve(problem, tol=1e-2), solve(problem, tol=1e-6)
    assert rough.oracle_calls < fine.oracle_calls
    assert rough.lower_bound <= fine.upper_bound
    assert fine.lower_bound <= rough.upper_bound


def test_calls_run_out_honestly() -> None:
    problem = KINDS["seasonal"](9)
    solution = solve(problem, tol=0.0, max_calls=5)
    assert solution.oracle_calls <= 6
    assert not solution.converged
    assert not solution.interrupted
    minimum = occupancy_lp(problem)
    assert_certified(solution, minimum, slack=1e-8 * minimum)


@pytest.mark.parametrize(("horizon", "call"), [(20, 1), (20, 3), (20, 40), (LONG, 1), (LONG, 3)])
def test_interrupt_returns_the_best_so_far(horizon: int, call: int) -> None:
    """In the rounds, in the master problem, and on a coarser problem before any bound is known."""
    problem = Problem.uniform(arms=5, horizon=horizon)
    seen: list[Progress] = []

    def stop(line: Progress) -> None:
        seen.append(line)
        if len(seen) == call:
            raise KeyboardInterrupt

    solution = solve(problem, tol=1e-9, progress=stop)
    assert solution.interrupted
    assert not solution.converged
    assert math.isfinite(solution.upper_bound)
    assert math.isfinite(solution.lower_bound)
    assert_honest(solution)
    finer = solve(problem, tol=1e-4)
    assert solution.lower_bound <= finer.upper_bound
    assert solution.upper_bound >= finer.lower_bound
    assert len(seen) <= call + 1  # at most one more line, for the certificate


# -- what is refused ----------------------------------------------------------------------------

PROBLEM = Problem.uniform(arms=2, horizon=3)


@pytest.mark.parametrize(
    "prices",
    [[], [0.5] * 2, [0.5] * 4, [[0.5] * 3], 0.5, [0.5, math.nan, 0.5], [0.5, 0.5, math.inf]],
)
def test_prices_are_one_finite_number_per_stage(prices: object) -> None:
    with pytest.raises(ValueError, match=r"^prices: "):
        dual_value(PROBLEM, prices)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^(start|prices): "):
        solve(PROBLEM, start=prices)  # type: ignore[arg-type]


@pytest.mark.parametrize("tol", [-1e-9, -math.inf, math.nan])
def test_tolerance_is_not_negative(tol: float) -> None:
    with pytest.raises(ValueError, match=r"^tol: .* must be zero or positive"):
        solve(PROBLEM, tol=tol)


def test_summary_has_the_keys_of_the_command_line() -> None:
    solution = solve(PROBLEM)
    summary = json.loads(json.dumps(solution.to_dict()))
    keys = "arms horizon upper_bound lower_bound relative_gap multipliers oracle_calls seconds"
    assert set(keys.split()) <= set(summary)
    assert summary["multipliers"] == solution.multipliers.tolist()
    assert (summary["arms"], summary["horizon"]) == (2, 3)
    assert "deployment_price" not in summary


def test_summary_of_a_deployment_has_its_price() -> None:
    problem = KINDS["deployed"](3)
    solution = solve(problem)
    assert solution.to_dict()["deployment_price"] == solution.prices[3]
    assert len(stage_pulls(problem)) == len(solution.prices) == 4
