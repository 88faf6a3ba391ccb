"""Regression on controls, and the moments of the best mean, by second roads."""

import math

import numpy as np
import pytest

from decobandit import Arm, NormalNormal, Reward, Terminal
from decobandit.evaluation import evaluate
from decobandit.problem import BetaBernoulli, Problem, best_mean_moments
from decobandit.simulation import (
    FOLDS,
    MIN_DRAWS,
    Missed,
    Moments,
    estimate,
    mean_estimate,
    regression,
    simulate,
)
from decobandit.simulation.estimators import Sample
from helpers.examples import KINDS


def test_intercept_and_error_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3)) * [1.0, 1e3, 1e-3]
    y = 2.0 + x @ [0.5, -2e-3, 40.0] + rng.normal(size=50)
    design = np.column_stack([np.ones(50), x])
    weights, residual, _, _ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(residual[0] / 46 * np.linalg.inv(design.T @ design)[0, 0])
    slopes, found = Moments.of(x).regress(y.sum(), (y * y).sum(), y @ x)
    assert found.value == pytest.approx(weights[0], abs=1e-9)
    assert found.value_se == pytest.approx(error, rel=1e-9)
    assert slopes == pytest.approx(weights[1:], rel=1e-8)


def test_controls_are_weighted_by_other_draws_than_those_that_they_correct() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2)) * [1.0, 1e-3]
    y = 3.0 + x @ [0.5, -200.0] + rng.normal(size=60)
    wanted = np.empty(60)
    for fold in range(FOLDS):
        own = np.arange(60) % FOLDS == fold
        design = np.column_stack([np.ones(60), x])
        weights, *_ = np.linalg.lstsq(design[~own], y[~own], rcond=None)
        wanted[own] = y[own] - x[own] @ weights[1:]
    assert regression(y, x, np.ones(2)) == pytest.approx(wanted, abs=1e-9)


def test_a_draw_does_not_explain_itself() -> None:
    # twenty controls of noise: fitted to all draws, residuals would be too small by a third
    rng, off = np.random.default_rng(8), []
    for _ in range(200):
        x, y = rng.normal(size=(210, 20)), rng.normal(size=210)
        found = mean_estimate(regression(y, x, np.ones(20)), Missed(0.0, 0.0, 1.0, 0.0))
        off.append(found.value / found.value_se)
    assert 0.85 < np.std(off) < 1.15


def test_a_control_given_twice_does_no_harm() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    once, twice = regression(y, x, np.ones(1)), regression(y, np.hstack([x, 7 * x]), np.ones(2))
    assert twice == pytest.approx(once, abs=1e-9)


def test_a_control_that_few_draws_decide_is_left_out() -> None:
    rng = np.random.default_rng(6)
    y, x = rng.normal(size=200), np.zeros((200, 1))
    x[:, 0] = 1e-3 * rng.normal(size=200)
    x[:2, 0] = 100.0
    assert regression(y, x, np.ones(1)) is None


def test_a_control_that_is_rounding_is_left_out() -> None:
    # sums of the same terms in another order differ by rounding, whose mean is not zero
    rng = np.random.default_rng(9)
    terms = rng.normal(size=(500, 8))
    y = terms.sum(axis=1)
    noise = y - np.cumsum(terms, axis=1)[:, -1]
    assert np.count_nonzero(noise) > 100
    assert regression(y, noise[:, None], np.array([8.0])) is None


@pytest.mark.parametrize(
    ("arms", "horizon", "prior", "policy", "least", "most"),
    [
        (2, 6, BetaBernoulli(0.01, 1), "ucb1", 0.75, 1.25),  # 1.32 by the jackknife alone
        (3, 10, BetaBernoulli(1, 1), "greedy", 0.85, 1.15),
    ],
)
def test_errors_of_many_seeds_are_those_that_are_claimed(
    arms: int, horizon: int, prior: BetaBernoulli, policy: str, least: float, most: float
) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon, prior=prior)
    exact = evaluate(problem, policy).value
    found = [simulate(problem, policy, draws=200, rng=seed).results[0] for seed in range(200)]
    off = [(each.value - exact) / each.value_se for each in found]
    assert least <= np.std(off) <= most


@pytest.mark.parametrize("due", [0.5, 2.0, 5.0, 12.0, 25.0, 60.0])
def test_errors_hold_where_rare_draws_decide(due: float) -> None:
    # of 500 draws a Poisson number differ, by 1: beyond three errors a few times in a thousand
    rng = np.random.default_rng(7)
    off = []
    for _ in range(2000):
        each = (rng.random(500) < due / 500).astype(float)
        found = mean_estimate(each, Missed(1.0, 1.0, 1.0, 0.5))
        off.append((found.value - due / 500) / found.value_se)
    assert np.mean(np.abs(off) > 3.0) < 0.006


def sample(draws: int) -> Sample:
    rng = np.random.default_rng(3)
    mean = rng.normal(size=draws)
    reward, none = mean + rng.normal(size=draws), np.empty((draws, 0))
    return Sample(
        reward=reward,
        mean_reward=mean,
        predicted=None,
        best=None,
        expected_best=None,
        gap=None,
        upper_bound=None,
        controls=none,
        control_sizes=np.empty(0),
        weights=np.ones(draws),
        missed=Missed(10.0, 10.0, 10.0, 0.0),
    )


def test_a_regression_needs_enough_draws() -> None:
    assert set(estimate(sample(2 * MIN_DRAWS - 1)).by_method) == {"plain"}
    assert set(estimate(sample(2 * MIN_DRAWS)).by_method) == {"plain", "regression"}


def test_contributions_average_to_the_value() -> None:
    found = estimate(sample(500))
    assert found.contributions.mean() == pytest.approx(found.best.value, abs=1e-12)


def test_moments_of_the_largest_of_uniform_variables() -> None:
    first, second = best_mean_moments(Problem.uniform(arms=7, horizon=3))
    assert first == pytest.approx(7 / 8, abs=1e-10)
    assert second == pytest.approx(7 / 9, abs=1e-10)


@pytest.mark.parametrize("kind", ["heterogeneous", "seasonal", "deployed"])
def test_moments_of_the_largest_mean_agree_with_draws(kind: str) -> None:
    problem, rng = KINDS[kind](4), np.random.default_rng(4)
    groups = problem.arm_groups
    means = [
        g.reward_bad[0] + (g.reward_good[0] - g.reward_bad[0]) * rng.beta(g.alpha, g.beta, 400_000)
        for g in groups
    ]
    largest = np.max(means, axis=0)
    for power, found in enumerate(best_mean_moments(problem), start=1):
        error = np.std(largest**power) / np.sqrt(largest.size)
        assert found == pytest.approx(np.mean(largest**power), abs=4.5 * error)


@pytest.mark.parametrize("batch", [False, True])
def test_deployments_are_estimated_by_what_is_known_of_the_arm(batch: bool) -> None:
    """Arms seen n times each, the larger mean deployed: E max of two normal posterior means."""
    n, worth = 8, 1000.0
    arms = [
        Arm(name=name, prior=NormalNormal(0, 1), noise_sd=2, reward=Reward(factor=0.0))
        for name in "ab"
    ]
    shape = {"horizon": 1, "pulls_per_stage": 2 * n, "repeat": True} if batch else {"horizon": 16}
    problem = Problem(arms=arms, terminal=Terminal(deploy=worth), **shape)
    spread = math.sqrt(n / (n + 4.0))  # the prior is worth 4 pulls
    wanted, draws = worth * spread / math.sqrt(math.pi), 2000
    (found,) = simulate(problem, ["equal"], draws=draws, rng=2).results
    best = found.estimates.best
    assert best.value == pytest.approx(wanted, abs=4.0 * best.value_se)
    # the mean is known but for 1/3 of its variance, the better of two is of less than all of it
    assert best.value_se < 0.7 * worth / math.sqrt(draws)
    assert found.estimates.by_method["plain"].value_se > 1.3 * best.value_se


def test_binary_deployments_are_estimated_as_exactly_as_they_are_known() -> None:
    """Five of each arm, Beta(g + 1, 6 - g) after them, and the larger mean deployed."""
    problem = Problem.uniform(
        arms=2, horizon=10, reward=Reward(good=0.0), terminal=Terminal(deploy=100.0)
    )
    means = [(g + 1) / 7 for g in range(6)]  # all numbers of good outcomes are as likely
    wanted = 100.0 * float(np.mean([max(a, b) for a in means for b in means]))
    for settings in ({}, {"pulls_per_stage": 2, "repeat": True, "horizon": 5}):
        own = problem.model_copy(update=settings)
        (found,) = simulate(own, ["equal"], draws=4000, rng=5).results
        best = found.estimates.best
        assert best.value == pytest.approx(wanted, abs=4.0 * best.value_se)
        # the sd of the larger mean alone is 22
        assert best.value_se < 0.7 * 22.0 / math.sqrt(4000)
