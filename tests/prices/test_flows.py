"""Flows through the market, clearing and pricing, against dictionaries."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decobandit.prices import band_market as market_module
from decobandit.prices import solve
from decobandit.prices.band_market import BandMarket
from decobandit.prices.search import Flow
from decobandit.problem import Arm, BetaBernoulli, Problem, arms_of
from helpers.examples import KINDS, largest_reward, problems, random_prices, random_table
from helpers.oracles import (
    Masses,
    OneArm,
    Prices,
    cleared,
    dual,
    occupancy_lp,
    one_arms,
    relaxed,
    stage_pulls,
)

COMPILED = settings(deadline=None)  # the first example waits for the compiler


# -- the relaxed policy ---------------------------------------------------------------------------


def market_at(problem: Problem, prices: Prices) -> BandMarket:
    """A market with the bands of the relaxed policy, and values at these prices."""
    market = BandMarket(arms_of(problem), problem.pulls, workers=1)
    market.remember_signs(np.array(prices))
    market.value_at(np.array(prices))
    return market


def assert_relaxed(flow: Flow, problem: Problem, prices: Prices) -> None:
    """The flow of every group is that of its arms, one by one, in dictionaries."""
    for k, group in enumerate(problem.groups):
        expected = relaxed(problem, problem.arms[group.members[0]], prices)
        unit = group.count * 1e-12
        np.testing.assert_allclose(
            flow.spent[k], group.count * np.array(expected.pulls), rtol=0, atol=unit
        )
        tolerance = unit * largest_reward(problem) * problem.stages
        assert flow.reward[k] == pytest.approx(group.count * expected.reward, abs=tolerance)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_relaxed_flow_is_that_of_dictionaries(kind: str, seed: int) -> None:
    problem = KINDS[kind](9)
    prices = random_prices(problem, seed)
    assert_relaxed(market_at(problem, prices).relaxed(at_price=0.0), problem, prices)


def changes_of_sign(oracle: OneArm, t: int, n: int, price: float) -> int:
    pulled = [oracle.index(t, n, g) > price for g in range(n + 1)]
    return sum(a != b for a, b in pairwise(pulled))


@pytest.mark.parametrize("seed", range(5))
def test_relaxed_flow_is_right_where_pull_sets_have_holes(seed: int) -> None:
    arm = Arm(name="a", terminal=random_table(np.random.default_rng(seed), 9))
    problem = Problem(arms=(arm,), horizon=9)
    prices = [0.45, 0.53, 0.51, 0.46, 0.58, 0.42, 0.49, 0.41, 0.33]
    oracle = OneArm(problem, arm, prices)
    changes = [changes_of_sign(oracle, t, n, prices[t]) for t in range(9) for n in range(t + 1)]
    assert max(changes) >= 3  # neither an upper set, nor a lower one, nor an interval
    assert_relaxed(market_at(problem, prices).relaxed(at_price=0.0), problem, prices)


@COMPILED
@given(problems(max_horizon=5), st.integers(0, 2**32 - 1))
def test_relaxed_flow_earns_what_the_dual_says(problem: Problem, seed: int) -> None:
    """value = reward + prices . (pulls - spent), with the value from the recursion."""
    prices = random_prices(problem, seed)
    flow = market_at(problem, prices).relaxed(at_price=0.0)
    rest = np.array(stage_pulls(problem)) - flow.spent.sum(axis=0)
    expected = pytest.approx(dual(problem, prices), abs=1e-11 * largest_reward(problem))
    assert flow.total + rest @ np.array(prices) == expected


def market_with_bands(problem: Problem, prices: Prices, width: float) -> BandMarket:
    """The market at these prices, remembering states within `width` of them, in their own unit."""
    market = BandMarket(arms_of(problem), problem.pulls, workers=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(market_module, "FULL_BAND_STATES", 0)
        patch.setattr(market_module, "BAND_WIDTHS", (width,))
        patch.setattr(market_module, "NARROW_WIDTHS", ())
        market.remember_around(np.array(prices))
    market.value_at(np.array(prices))
    return market


@settings(COMPILED, max_examples=200)
@given(
    problems(max_horizon=6, max_kinds=2),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.02, 0.1, 0.3]),
)
def test_bands_of_any_width_give_the_relaxed_flow(
    problem: Problem, seed: int, width: float
) -> None:
    prices = random_prices(problem, seed)
    flow = market_with_bands(problem, prices, width).relaxed(at_price=0.0)
    assert_relaxed(flow, problem, prices)


def tie_in_the_middle() -> tuple[Problem, list[float]]:
    """One stage, index 0.5 of a fresh arm, price 0.5."""
    return Problem.uniform(arms=3, horizon=1), [0.5]


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_ties_are_pulled_in_part(part: float) -> None:
    problem, prices = tie_in_the_middle()
    flow = market_at(problem, prices).relaxed(at_price=part)
    assert flow.spent.tolist() == [[3 * part]]
    assert flow.total == 1.5 * part


def test_slack_widens_ties() -> None:
    problem, (price,) = tie_in_the_middle()
    cases = [(0.01, 0.0, 0.0), (0.01, 0.02, 1.5), (-0.01, 0.02, 1.5), (-0.01, 0.0, 3.0)]
    for off, slack, spent in cases:
        market = full_market(problem, [price + off])
        flow = market.relaxed(at_price=0.5, slack=slack)
        assert flow.spent.tolist() == [[spent]]


# -- clearing and pricing -----------------------------------------------------------------------


def full_market(problem: Problem, prices: Prices) -> BandMarket:
    market = BandMarket(arms_of(problem), problem.pulls, workers=1)
    market.remember_around(np.array(prices))
    market.value_at(np.array(prices))
    return market


def without_ties(problem: Problem) -> Problem:
    """The problem with odd priors, so that different states have different indices."""
    odd = [arm.beta.good * 1.0137 + 0.0071 for arm in problem.arms]
    arms = [
        arm.model_copy(update={"prior": BetaBernoulli(good=good, bad=arm.beta.bad * 0.9871)})
        for arm, good in zip(problem.arms, odd, strict=True)
    ]
    return problem.model_copy(update={"arms": arms})


@pytest.mark.parametrize("kind", KINDS)
def test_clearing_pulls_states_in_order_of_index(kind: str) -> None:
    problem = without_ties(KINDS[kind](7))
    prices = random_prices(problem, 3)
    flow = full_market(problem, prices).clear(1.0)
    expected, _ = cleared(problem, prices)
    assert flow.total == pytest.approx(expected.reward, rel=1e-12)
    np.testing.assert_allclose(flow.spent.sum(axis=0), expected.pulls, rtol=1e-12)


def weight_at_least(
    problem: Problem, masses: Masses, prices: Prices, t: int, level: float
) -> float:
    arms = one_arms(problem, prices)
    return sum(x for (a, n, g), x in masses.items() if arms[a].index(t, n, g) >= level)


@pytest.mark.parametrize("kind", KINDS)
def test_prices_clear_the_remembered_masses(kind: str) -> None:
    """At each stage: no more than its pulls are worth more than the price, enough are worth it."""
    problem = without_ties(KINDS[kind](6))
    before = random_prices(problem, 4)
    market = full_market(problem, before)
    market.clear(1.0)
    value = market.reprice()
    prices, masses = market.mu.tolist(), cleared(problem, before)[1]
    assert value == pytest.approx(dual(problem, prices), rel=1e-12)
    for t, m in enumerate(stage_pulls(problem)):
        step = 1e-9 * largest_reward(problem)
        assert weight_at_least(problem, masses[t], prices, t, prices[t] + step) <= m + 1e-9
        assert weight_at_least(problem, masses[t], prices, t, prices[t] - step) >= m - 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_first_prices_are_the_indices_of_fresh_arms(kind: str) -> None:
    problem = KINDS[kind](8)
    market = BandMarket(arms_of(problem), problem.pulls, workers=1)
    market.reprice()
    prices = market.mu.tolist()
    arms = [OneArm(problem, arm, prices) for arm in problem.arms]
    for t, m in enumerate(stage_pulls(problem)):
        best_first = sorted((arm.index(t, 0, 0) for arm in arms), reverse=True)
        assert prices[t] == pytest.approx(best_first[m - 1], rel=1e-12, abs=1e-12)


def full_and_narrow(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> tuple[BandMarket, BandMarket]:
    """The market at prices that nearly solve the dual, remembering all states or few."""
    prices = solve(problem).prices
    full = full_market(problem, prices)
    monkeypatch.setattr(market_module, "FULL_BAND_STATES", 0)
    narrow = full_market(problem, prices)
    assert narrow.bands.index.size < full.bands.index.size
    return full, narrow


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_bands_give_the_relaxed_flow_of_full_ones(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, narrow = full_and_narrow(without_ties(KINDS[kind](9)), monkeypatch)
    expected, flow = full.relaxed(at_price=0.0), narrow.relaxed(at_price=0.0)
    np.testing.assert_allclose(flow.spent, expected.spent, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(flow.reward, expected.reward, rtol=1e-12, atol=1e-12)


# a table without order can have its margin far from the price, outside narrow bands
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tabled"])
def test_narrow_bands_clear_like_full_ones(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full, narrow = full_and_narrow(without_ties(KINDS[kind](9)), monkeypatch)
    expected, flow = full.clear(1.0), narrow.clear(1.0)
    assert flow.narrow_stages == 0
    np.testing.assert_allclose(flow.spent, expected.spent, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(flow.reward, expected.reward, rtol=1e-12, atol=1e-12)
    value = narrow.reprice()
    assert value == pytest.approx(full.reprice(), rel=1e-12)
    np.testing.assert_allclose(narrow.mu, full.mu, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_prices_stay_where_the_bands_reach(kind: str) -> None:
    """Beyond the bands the order of indices is not known: a price stops at their edge."""
    problem = KINDS[kind](7)
    prices = np.array(random_prices(problem, 5))
    market = market_with_bands(problem, prices, 0.01)
    market.clear(1.0)
    value = market.reprice()
    assert value == pytest.approx(dual(problem, market.mu), rel=1e-12)
    distance = np.abs(market.mu - prices).max()
    assert distance == pytest.approx(0.01 * market.scale, rel=1e-9)  # some price is at an edge


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_clearing_is_feasible_even_with_bands_in_the_wrong_place(kind: str, seed: int) -> None:
    problem = KINDS[kind](7)
    minimum = occupancy_lp(problem)
    market = market_at(problem, random_prices(problem, seed))  # bands of no width, anywhere
    flow = market.clear(1.0)
    np.testing.assert_allclose(flow.spent.sum(axis=0), stage_pulls(problem), rtol=1e-12)
    assert flow.feasible
    assert flow.total <= minimum + 1e-9 * abs(minimum)
