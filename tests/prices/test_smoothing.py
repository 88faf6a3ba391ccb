"""The smoothed dual: against a recursion in dictionaries, differences and the linear program."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

from decobandit.prices import solve
from decobandit.prices.band_market import BandMarket
from decobandit.prices.descent import Descent
from decobandit.prices.kernels.smooth import clearing_shift
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, arms_of
from decobandit.support import Floats
from helpers.certificates import assert_certified
from helpers.examples import KINDS, at_stake, random_prices
from helpers.oracles import Prices, expected_reward, good_chance, occupancy_lp, stage_pulls


def market_of(problem: Problem) -> BandMarket:
    return BandMarket(arms_of(problem), problem.pulls, workers=1)


def soft(z: float, width: float) -> float:
    """The largest x z - width x^2 / 2 over 0 <= x <= 1."""
    x = min(max(z / width, 0.0), 1.0)
    return x * z - 0.5 * width * x**2


def smoothed_dual(problem: Problem, prices: Prices, width: float) -> float:
    """Arm by arm, by recursion."""
    pulls, total = stage_pulls(problem), 0.0
    for arm in problem.arms:

        @cache
        def value(t: int, n: int, g: int, arm: Arm = arm) -> float:
            if t == len(pulls):
                return 0.0 if arm.terminal is None else arm.terminal[n][g]
            p, rest = good_chance(arm, n, g), value(t + 1, n, g)
            pull = p * value(t + 1, n + 1, g + 1) + (1 - p) * value(t + 1, n + 1, g) - prices[t]
            return rest + soft(pull + expected_reward(problem, arm, t, n, g) - rest, width)

        total += value(0, 0, 0)
    return total + sum(m * price for m, price in zip(pulls, prices, strict=True))


@pytest.mark.parametrize("width", [1e-3, 0.2, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_value_is_that_of_the_recursion_and_its_gradient_that_of_differences(
    kind: str, width: float
) -> None:
    problem = KINDS[kind](6)
    prices = np.array(random_prices(problem, 1))
    value, gradient, _ = market_of(problem).soft_value(prices, width)
    assert value == pytest.approx(smoothed_dual(problem, prices.tolist(), width), rel=1e-12)
    step = 1e-4 * width
    for t, slope in enumerate(gradient):
        moved = [prices + sign * step * np.eye(prices.size)[t] for sign in (1.0, -1.0)]
        above, below = (smoothed_dual(problem, each.tolist(), width) for each in moved)
        # a piecewise quadratic function: the error is at most the step over the width
        assert slope == pytest.approx((above - below) / (2.0 * step), abs=1e-3)


@pytest.mark.parametrize("width", [1e-3, 0.2, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cleared_flow_spends_the_pulls_and_earns_no_more_than_the_minimum(
    kind: str, width: float
) -> None:
    problem = KINDS[kind](6)
    made = market_of(problem)
    made.soft_value(np.array(random_prices(problem, 2)), width)
    flow, charge = made.soft_clear(width)
    np.testing.assert_allclose(flow.spent.sum(axis=0), stage_pulls(problem), rtol=0, atol=1e-12)
    assert flow.total <= occupancy_lp(problem) + 1e-9 * at_stake(problem)
    assert 0.0 <= charge <= 0.5 * width * sum(stage_pulls(problem)) * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_descent_ends_within_the_charge_of_the_linear_program(kind: str) -> None:
    """minimum - d/2 pulls <= smoothed minimum <= minimum, and flows meet it from below."""
    problem = KINDS[kind](6)
    market = market_of(problem)
    pulls, minimum = sum(stage_pulls(problem)), occupancy_lp(problem)
    start = np.zeros(market.stages)
    for width in (0.04 / pulls, 0.01 / pulls):
        descent = Descent(partial(market.soft_value, width=width), start, farthest=width)
        for _ in range(80):
            descent.step()
        start = descent.point
    flow, charge = market.soft_clear(width)
    value, slack = descent.value, 1e-8 * at_stake(problem)
    gap = value - flow.total + charge
    assert minimum - 0.5 * width * pulls - slack <= value
    assert value - gap - slack <= minimum
    assert gap <= 1e-4 * at_stake(problem)
    assert flow.total <= minimum + slack


@pytest.mark.parametrize(("target", "shift"), [(0.5, 1.75), (1.5, 0.75), (2.5, -2.75)])
def test_shift_at_which_a_stage_is_cleared(target: float, shift: float) -> None:
    """Three arms at 2, 1 and -2.5, width 0.5: half of the last one that is pulled."""
    found, factor = clearing_shift(np.array([1.0, 2.0, -2.5]), np.ones(3), 0.5, target)
    assert (found, factor) == pytest.approx((shift, 1.0), abs=1e-9)


@pytest.mark.parametrize("target", [1.0, 2.0, 3.0])
def test_where_no_arm_is_pulled_in_part_any_shift_between_will_do(target: float) -> None:
    key = np.array([1.0, 2.0, -2.5])
    found, factor = clearing_shift(key, np.ones(3), 0.5, target)
    parts = np.clip((key - found) / 0.5, 0.0, 1.0)
    parts[parts < 1.0] *= factor
    assert parts.sum() == pytest.approx(target, rel=1e-12)


@pytest.mark.parametrize(("mean", "loose"), [(0.5, 1), (0.75, 1), (0.25, 1), (0.95, 0), (0.05, 0)])
def test_curvature_is_of_the_arms_that_are_pulled_in_part_or_nearly_so(
    mean: float, loose: int
) -> None:
    """Of two arms, one stage: widths 0.2, price 0.4; the other arm's mean is far above."""
    arms = [BetaBernoulli(10.0 * mean, 10.0 * (1.0 - mean)), BetaBernoulli(9.9, 0.1)]
    problem = Problem(
        arms=tuple(Arm(name=str(k), prior=prior) for k, prior in enumerate(arms)), horizon=1
    )
    _, _, curvature = market_of(problem).soft_value(np.array([0.4]), 0.2)
    assert curvature == pytest.approx([loose / 0.6])


@pytest.mark.parametrize("curvature", [0.0, 1.0, 100.0])
def test_descent_finds_the_minimum_of_a_quadratic(curvature: float) -> None:
    rng = np.random.default_rng(3)
    root, minimum = rng.normal(size=(12, 12)), rng.normal(size=12)
    hessian = root @ root.T + 0.1 * np.eye(12)

    def function(x: Floats) -> tuple[float, Floats, Floats]:
        gradient = hessian @ (x - minimum)
        return 0.5 * float((x - minimum) @ gradient), gradient, curvature * np.diag(hessian)

    descent = Descent(function, np.zeros(12), farthest=0.1)
    values = [descent.value]
    while descent.value > 1e-20 and len(values) < 200:
        assert descent.step()
        values.append(descent.value)
    assert descent.point == pytest.approx(minimum, abs=1e-8)
    assert values == sorted(values, reverse=True)


def sparse(arms: int, horizon: int) -> Problem:
    """Four of five stages earn nothing: pulls can be postponed at no loss."""
    rng = np.random.default_rng(7)
    rewards = np.where(np.arange(horizon) % 5 == 4, rng.uniform(0.0, 1.0, horizon), 0.0)
    priors = rng.uniform(0.5, 4.0, (arms, 2)).tolist()
    return Problem(
        arms=tuple(
            Arm(
                name=f"{k}",
                prior=BetaBernoulli(*prior),
                reward=Reward(good=rewards.round(3).tolist()),
            )
            for k, prior in enumerate(priors)
        ),
        horizon=horizon,
    )


def test_rewards_at_one_stage_in_five_are_solved() -> None:
    problem = sparse(3, 15)
    solution, minimum = solve(problem), occupancy_lp(problem)
    assert solution.converged
    assert_certified(solution, minimum, slack=1e-8 * minimum)


def test_rewards_at_one_stage_in_five_are_solved_over_many_stages() -> None:
    solution = solve(sparse(6, 60))
    assert solution.converged
