"""How a solve goes: long horizons, threads, progress, interrupts, and what is refused."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from decobandit.prices import DualSolution, dual_value, search, solve
from decobandit.prices import band_market as market_module
from decobandit.prices.band_market import COARSEST_STAGES, BandMarket
from decobandit.prices.dual import market_of
from decobandit.prices.search import Flow
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward
from decobandit.problem.model import Terminal
from decobandit.support import Progress
from helpers.certificates import assert_certified, assert_honest
from helpers.examples import KINDS, at_stake, random_prices, seasonal
from helpers.oracles import occupancy_lp, stage_pulls
from helpers.refusals import refused

LOPSIDED = [77, 243, 255]  # the smoothed dual alone uses up all passes
LONG = COARSEST_STAGES + 4  # stages enough for a coarser problem before

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


def slow_season(horizon: int) -> Problem:
    """One wave of rewards, and one stage in its trough that earns ten times as much."""
    season = 1.0 + 0.5 * np.sin(2.0 * np.pi * np.arange(horizon) / horizon)
    season[3 * horizon // 4] *= 10.0
    arms = (
        Arm(name="a", prior=BetaBernoulli(1.0, 1.0), reward=Reward(good=season.round(3).tolist())),
        Arm(name="b", prior=BetaBernoulli(2.0, 3.0), reward=Reward(good=1.0)),
    )
    return Problem(arms=arms, horizon=horizon)


@pytest.mark.parametrize(("make", "sizes"), [(slow_season, {LONG // 2, LONG}), (seasonal, {LONG})])
def test_coarse_to_fine_does_not_lose_a_season(
    make: Callable[[int], Problem], sizes: set[int]
) -> None:
    """Rewards that jump from stage to stage are not thinned out."""
    problem = make(LONG)
    warm, cold = solve(problem), solve(problem, start=np.full(LONG, 0.5))
    assert {line.stages for line in warm.history} == sizes
    assert_same_minimum(warm, cold)


@pytest.mark.parametrize("horizon", [COARSEST_STAGES - 1, COARSEST_STAGES, COARSEST_STAGES + 1])
def test_coarse_to_fine_keeps_the_deployment(horizon: int) -> None:
    arms = Problem.uniform(arms=3, horizon=horizon).arms
    problem = Problem(arms=arms, horizon=horizon, terminal=Terminal(deploy=20.0))
    warm = solve(problem, tol=1e-3)
    cold = solve(problem, tol=1e-3, start=[0.8] * horizon + [16.0])
    assert_same_minimum(warm, cold)
    assert warm.deployment_price == warm.prices[-1]
    assert warm.multipliers.shape == (horizon,)


# -- threads ---------------------------------------------------------------------------------------


def assert_same_digits(problem: Problem) -> None:
    """One thread or several: every number of a solve is the same, to the last digit."""
    one, *more = (solve(problem, tol=1e-5, max_calls=40, workers=workers) for workers in (1, 2, 3))
    for several in more:
        assert several.prices.tolist() == one.prices.tolist()
        assert several.upper_bound == one.upper_bound
        assert several.lower_bound == one.lower_bound
        assert several.history == one.history


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_change_a_single_digit(kind: str) -> None:
    problem = KINDS[kind](12)
    assert_same_digits(problem)
    prices = random_prices(problem, 2)
    first, second = (dual_value(problem, prices, workers=workers) for workers in (1, 2))
    assert (first.value, first.reward) == (second.value, second.reward)
    assert first.gradient.tolist() == second.gradient.tolist()


@pytest.mark.parametrize("states", [0, 10**6])
def test_threads_in_step_do_not_change_a_single_digit(
    states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on long horizons: threads meet at every stage, with narrow bands and with full ones."""
    monkeypatch.setattr(market_module, "STATES_IN_STEP", 0)
    monkeypatch.setattr(market_module, "FULL_BAND_STATES", states)
    arms = tuple(Arm(name=f"{k}", prior=BetaBernoulli(good=1 + 0.3 * k, bad=1.7)) for k in range(7))
    assert_same_digits(Problem(arms=arms, horizon=15, pulls_per_stage=3))


# -- how a solve goes ---------------------------------------------------------------------------


def test_history_is_what_was_reported_and_never_gets_worse() -> None:
    seen: list[Progress] = []
    solution = solve(KINDS["heterogeneous"](12), tol=1e-9, max_calls=80, progress=seen.append)
    history = solution.history
    assert [line.done for line in seen] == [line.calls for line in history]
    for told, line in zip(seen, history, strict=True):
        assert f"bound {line.upper_bound:.6f}, gap {line.relative_gap:.1e}" in told.note
    for before, after in itertools.pairwise(history):
        assert after.upper_bound <= before.upper_bound
        assert after.lower_bound >= before.lower_bound
        assert after.calls >= before.calls
    assert len(history) > 3
    # the solution allows for rounding
    assert 0.0 < history[-1].lower_bound - solution.lower_bound < 1e-11
    assert 0.0 < solution.upper_bound - history[-1].upper_bound < 1e-11
    assert history[-1].calls == solution.oracle_calls


def test_a_smaller_tolerance_is_reached_with_more_calls() -> None:
    problem = Problem.uniform(arms=5, horizon=20)
    rough, fine = solve(problem, tol=1e-2), solve(problem, tol=1e-6)
    assert rough.oracle_calls < fine.oracle_calls
    assert rough.lower_bound <= fine.upper_bound
    assert fine.lower_bound <= rough.upper_bound


@pytest.mark.parametrize(("arms", "horizon"), [(5, 20), (10, 60), (15, 40)])
def test_the_problems_of_the_paper_are_solved_to_seven_digits(arms: int, horizon: int) -> None:
    solution = solve(Problem.uniform(arms=arms, horizon=horizon), tol=1e-7)
    assert solution.converged
    assert_honest(solution)


def test_a_reward_per_stage_that_all_arms_share() -> None:
    """States tie at every stage, which rounds alone do not settle: the master problem does."""
    rng = np.random.default_rng(2)
    rewards = rng.normal(size=12).round(3).tolist()
    arms = tuple(
        Arm(name=f"{k}", prior=BetaBernoulli(*prior), reward=Reward(good=rewards))
        for k, prior in enumerate(rng.uniform(0.5, 4.0, (4, 2)).tolist())
    )
    problem = Problem(arms=arms, horizon=12)
    solution, minimum = solve(problem, tol=1e-6), occupancy_lp(problem)
    assert solution.converged
    assert_certified(solution, minimum, slack=1e-8 * minimum)


def lopsided_tables(seed: int) -> Problem:
    """Random last rewards of arms whose priors are far from even; some have no other rewards."""
    rng = np.random.default_rng(seed)
    horizon, count = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    arms = []
    for name in "abcd"[:count]:
        good, bad = np.exp(rng.normal(0.0, 2.5, 2)).tolist()
        size = rng.choice([1.0, 10.0])
        table = [(size * rng.normal(size=n + 1)).tolist() for n in range(horizon + 1)]
        reward = Reward(good=0.0, bad=0.0) if rng.random() < 0.5 else Reward()
        arms.append(Arm(name=name, prior=BetaBernoulli(good, bad), reward=reward, terminal=table))
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=int(rng.integers(1, count + 1)))


@pytest.mark.parametrize("seed", LOPSIDED)
def test_lopsided_tables_are_solved_and_smaller_tolerances_give_tighter_bounds(seed: int) -> None:
    problem = lopsided_tables(seed)
    minimum, rounding = occupancy_lp(problem), 1e-9 * at_stake(problem)
    found = [solve(problem, tol=tol, workers=1) for tol in (1e-3, 1e-4, 1e-6)]
    for solution in found:
        assert solution.converged, solution.stopped
        assert solution.lower_bound - rounding <= minimum <= solution.upper_bound + rounding
    for loose, tight in itertools.pairwise(found):
        assert tight.upper_bound <= loose.upper_bound
        assert tight.lower_bound >= loose.lower_bound


def test_a_search_that_ends_early_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = lopsided_tables(LOPSIDED[0])
    assert "max_calls" in solve(problem, tol=1e-9, max_calls=20).stopped
    assert solve(problem, tol=1e-3).stopped is None
    monkeypatch.setattr(search, "MASTER_STAGES", 0)  # as of a long horizon
    assert "use fewer stages" in solve(problem, tol=1e-9, max_calls=5000).stopped


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
    assert solution.oracle_calls >= seen[call - 1].done  # those on a coarser problem included


# -- what is refused ----------------------------------------------------------------------------

PROBLEM = Problem.uniform(arms=2, horizon=3)


@pytest.mark.parametrize(
    "prices",
    [[], [0.5] * 2, [0.5] * 4, [[0.5] * 3], 0.5, [0.5, math.nan, 0.5], [0.5, 0.5, math.inf]],
)
def test_prices_are_one_finite_number_per_stage(prices: object) -> None:
    with refused("invalid_argument", "prices"):
        dual_value(PROBLEM, prices)  # type: ignore[arg-type]
    with refused("invalid_argument", "start"):
        solve(PROBLEM, start=prices)  # type: ignore[arg-type]


@pytest.mark.parametrize("tol", [-1e-9, -math.inf, math.nan])
def test_tolerance_is_not_negative(tol: float) -> None:
    with refused("invalid_argument", "tol"):
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


def test_a_lower_bound_above_the_upper_one_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = BandMarket.clear

    def boastful(self: BandMarket, blend: float) -> Flow:
        flow = honest(self, blend)
        return replace(flow, reward=1.5 * flow.reward)

    monkeypatch.setattr(BandMarket, "clear", boastful)
    with pytest.raises(ArithmeticError, match="above upper bound"):
        solve(PROBLEM)


@pytest.mark.parametrize("shift", [-0.03, -0.002, 0.0, 0.004, 0.05])
def test_the_level_of_long_price_paths_is_searched_first(
    shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LONG_STAGES", 1)
    problem = Problem.uniform(arms=30, horizon=60)
    best = solve(problem, tol=1e-5)
    prices = best.prices + shift
    market = market_of(problem)
    state = search.Search(market, lambda line: None)
    found = search._levelled(state, prices)
    assert np.ptp(found - prices) <= 1e-12
    levels = np.linspace(-0.06, 0.06, 241)
    duals = [dual_value(problem, best.prices + level).value for level in levels]
    assert state.upper == pytest.approx(dual_value(problem, found).value, rel=1e-12)
    assert state.upper <= min(duals) * (1.0 + 1e-3)


@pytest.mark.parametrize("horizon", [40, 300])
def test_a_search_of_one_call_has_both_bounds(horizon: int) -> None:
    """One round is made in any case, after a coarse start, too."""
    solution = solve(Problem.uniform(arms=5, horizon=horizon), max_calls=1)
    assert 0.0 < solution.lower_bound <= solution.upper_bound <= horizon
    assert solution.stopped is not None
    assert "max_calls" in solution.stopped
