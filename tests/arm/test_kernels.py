"""Compiled loops over one arm, and selection by index, against a recursion and sorting."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decobandit.arm.kernels.backward import STAGES_PER_BLOCK, alive_rows, rewarding, sweep
from decobandit.prices.kernels.bands import clear, margin
from decobandit.problem import Arm, Problem
from decobandit.problem.kernels.layout import row_start, slab_size
from helpers.examples import KINDS, largest_reward, problems, random_prices
from helpers.oracles import OneArm

Floats = npt.NDArray[np.float64]
COMPILED = settings(deadline=None)  # the first example waits for the compiler
LONG = 2 * STAGES_PER_BLOCK + 5  # stages of a sweep in several blocks, the last one short

# one price path per regime: no arm worth a pull at first, all worth it, some of both
REGIMES = {"high": (0.9, 3.0), "low": (-3.0, 0.1), "mixed": (-0.2, 0.9), "flat": (0.5, 0.5)}


def prices_of(regime: str, problem: Problem, seed: int = 0) -> Floats:
    low, high = REGIMES[regime]
    rng = np.random.default_rng(seed)
    return largest_reward(problem) * rng.uniform(low, high, problem.stages)


def final_values(problem: Problem, arm: Arm) -> Floats:
    if arm.terminal is None:
        return np.zeros(slab_size(problem.stages))
    return np.array([x for row in arm.terminal for x in row])


def swept(problem: Problem, arm: Arm, prices: Floats, V: Floats, *stages: int) -> int:
    """`sweep` through the given stages, for an arm of the problem: V is changed in place."""
    group = problem.groups[problem.group_of_arm[problem.arms.index(arm)]]
    touched = 0
    for start, stop in pairwise(stages):
        touched += sweep(
            group.alpha, group.beta, group.reward_good, group.reward_bad, prices, V, start, stop
        )
    return touched


# -- backward -----------------------------------------------------------------------------------


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("kind", KINDS)
def test_sweep_is_the_recursion(kind: str, regime: str) -> None:
    problem = KINDS[kind](LONG)
    prices = prices_of(regime, problem)
    for arm in problem.arms:
        V = final_values(problem, arm)
        swept(problem, arm, prices, V, problem.stages, 0)
        expected = OneArm(problem, arm, prices).value(0, 0, 0)
        assert V[0] == pytest.approx(expected, rel=1e-12, abs=1e-12 * largest_reward(problem))


@pytest.mark.parametrize("kind", KINDS)
def test_sweep_stops_and_starts_at_any_stage(kind: str) -> None:
    problem = KINDS[kind](LONG)
    prices = prices_of("mixed", problem, seed=1)
    for arm in problem.arms:
        oracle = OneArm(problem, arm, prices)
        V, before = final_values(problem, arm), problem.stages
        for stop in (LONG - 1, LONG - 1, LONG - STAGES_PER_BLOCK - 3, 11, 2, 0):
            swept(problem, arm, prices, V, before, stop)
            expected = oracle.slab(stop)
            tolerance = 1e-12 * largest_reward(problem) * LONG
            np.testing.assert_allclose(V[: slab_size(stop)], expected, rtol=0, atol=tolerance)
            before = stop


@COMPILED
@given(problems(max_horizon=8, max_kinds=1), st.integers(0, 2**32 - 1), st.data())
def test_sweep_is_the_recursion_for_any_rewards(
    problem: Problem, seed: int, data: st.DataObject
) -> None:
    prices = np.array(random_prices(problem, seed))
    stop = data.draw(st.integers(0, problem.stages))
    arm = problem.arms[0]
    V = final_values(problem, arm)
    swept(problem, arm, prices, V, problem.stages, stop)
    expected = OneArm(problem, arm, prices).slab(stop)
    tolerance = 1e-12 * largest_reward(problem)
    np.testing.assert_allclose(V[: slab_size(stop)], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["uniform", "heterogeneous", "seasonal"])
def test_states_that_are_dead_are_not_touched(kind: str) -> None:
    arm = KINDS[kind](LONG).arms[0]
    problem = Problem(arms=(arm,), horizon=LONG)
    every = sum(slab_size(t) for t in range(LONG))
    touched = {}
    for name, price in {"above": 1.0, "within": 0.65, "below": -1.0}.items():
        prices = np.full(LONG, price * largest_reward(problem))
        V = final_values(problem, arm)
        touched[name] = swept(problem, arm, prices, V, LONG, 0)
        expected = OneArm(problem, arm, prices).value(0, 0, 0)
        assert V[0] == pytest.approx(expected, rel=1e-12)
        assert (expected > 0) == (name != "above")
    # at most one state per row and stage is looked at in vain
    assert touched["above"] <= LONG * (LONG + 1) / 2
    assert touched["above"] < touched["within"] < touched["below"] == every


@pytest.mark.parametrize("where", range(slab_size(5)))
def test_one_live_state_is_enough_to_be_seen(where: int) -> None:
    """A last reward in one state only reaches exactly the states that lead to it."""
    flat = np.zeros(slab_size(5))
    flat[where] = 1.0
    table = tuple(tuple(flat[row_start(n) : row_start(n + 1)].tolist()) for n in range(6))
    arm = Arm(name="a", terminal=table)
    problem = Problem(arms=(arm,), horizon=5)
    prices = np.array([1.01, 1.001, 0.7, 1.2, 1.05])
    V = final_values(problem, arm)
    swept(problem, arm, prices, V, 5, 2)
    np.testing.assert_allclose(
        V[: slab_size(2)], OneArm(problem, arm, prices).slab(2), rtol=0, atol=1e-14
    )


NUMBERS = st.floats(-3, 3).map(lambda x: round(x, 2))


@COMPILED
@given(
    alpha=st.floats(0.1, 5).map(lambda x: round(x, 1)),
    beta=st.floats(0.1, 5).map(lambda x: round(x, 1)),
    bad=NUMBERS,
    spread=NUMBERS,
    price=NUMBERS | st.sampled_from([-1e300, 1e300]),
    n=st.integers(0, 30),
)
def test_rewarding_interval_holds_every_state_with_reward_above_price(
    alpha: float, beta: float, bad: float, spread: float, price: float, n: int
) -> None:
    weight = alpha + beta + n
    first, last = rewarding(alpha, weight, bad, spread, price, n)
    above = [g for g in range(n + 1) if bad + (alpha + g) / weight * spread > price + 1e-12]
    assert all(first <= g <= last for g in above)
    assert last < first or (first >= 0 and last <= n)
    sure = [g for g in range(n + 1) if bad + (alpha + g) / weight * spread > price - 1e-12]
    assert last - first + 1 <= len(sure) + 1  # tight: at most one state in vain


def test_alive_rows_are_the_hulls_of_what_is_not_zero() -> None:
    rng = np.random.default_rng(2)
    V = rng.normal(size=slab_size(9)) * (rng.random(slab_size(9)) < 0.2)
    low, high = np.empty(10, np.int64), np.empty(10, np.int64)
    alive_rows(V, 9, low, high)
    for n in range(10):
        alive = np.flatnonzero(V[row_start(n) : row_start(n + 1)])
        expected = (alive.min(), alive.max()) if alive.size else (n + 1, -1)
        assert (low[n], high[n]) == expected


# -- selection ----------------------------------------------------------------------------------

# multiples of 1/8: sums in any order are exact, so that equality is meant
EIGHTHS = st.integers(1, 40).map(lambda x: x / 8)
MARKETS = st.lists(st.tuples(st.integers(-3, 3).map(float), EIGHTHS), max_size=30)


def by_sorting(market: Sequence[tuple[float, float]], target: float) -> tuple[float, float]:
    """The marginal key and the part of its weight that is needed."""
    if target <= 0:
        return math.inf, 0.0
    for level in sorted({key for key, _ in market}, reverse=True):
        weight = sum(w for key, w in market if key == level)
        if weight >= target:
            return level, target / weight
        target -= weight
    return -math.inf, 1.0


def arrays(market: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    return np.array([key for key, _ in market]), np.array([w for _, w in market])


@COMPILED
@given(MARKETS, st.integers(-8, 400).map(lambda x: x / 8))
def test_margin_is_found_as_by_sorting(market: list[tuple[float, float]], target: float) -> None:
    key, weight = arrays(market)
    assert margin(key, weight, target) == by_sorting(market, target)
    assert sorted(zip(key, weight, strict=True)) == sorted(market)  # permuted, not changed


@pytest.mark.parametrize(
    ("market", "target", "expected"),
    [
        ([(2.0, 1.0), (1.0, 1.0)], 0.0, (math.inf, 0.0)),
        ([(2.0, 1.0), (1.0, 1.0)], -1.0, (math.inf, 0.0)),
        ([(2.0, 1.0), (1.0, 1.0)], 1.0, (2.0, 1.0)),
        ([(2.0, 1.0), (1.0, 1.0)], 1.25, (1.0, 0.25)),
        ([(1.0, 1.0), (1.0, 3.0)], 1.0, (1.0, 0.25)),
        ([(1.0, 1.0), (1.0, 3.0)], 4.0, (1.0, 1.0)),
        ([(1.0, 1.0), (1.0, 3.0)], 4.5, (-math.inf, 1.0)),
        ([(1.0, 1.0), (0.5, 3.0)], 4.0 + 1e-12, (0.5, 1.0)),  # missing by rounding only
        ([], 1.0, (-math.inf, 1.0)),
    ],
)
def test_margin_by_hand(
    market: list[tuple[float, float]], target: float, expected: tuple[float, float]
) -> None:
    key, weight = arrays(market)
    assert margin(key, weight, target) == expected


@COMPILED
@given(MARKETS, st.integers(0, 80), st.integers(0, 80), st.data())
def test_clearing_spends_the_target_and_the_best_keys_first(
    market: list[tuple[float, float]], sure: int, others: int, data: st.DataObject
) -> None:
    """All of `sure` before any key, keys in order, all keys before anything else."""
    keyed = sum(w for _, w in market)
    total = sure / 8 + keyed + others / 8
    target = data.draw(st.integers(0, int(8 * total))) / 8
    key, weight = arrays(market)
    price, part, of_sure, of_rest = clear(key, weight, sure / 8, total, target)

    from_sure = of_sure * sure / 8
    above = sum(w for key, w in market if key > price)
    tied = sum(w for key, w in market if key == price)
    from_keys = above + part * tied
    from_rest = of_rest * others / 8
    assert from_sure == pytest.approx(min(target, sure / 8), rel=1e-12)
    assert from_keys == pytest.approx(min(target - from_sure, keyed), rel=1e-12, abs=1e-12)
    assert from_sure + from_keys + from_rest == pytest.approx(target, rel=1e-12, abs=1e-12)
    assert all(0.0 <= x <= 1.0 for x in (part, of_sure, of_rest))
