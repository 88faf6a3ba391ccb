"""Regression on controls, and the moments of the best mean, by second roads."""

import numpy as np
import pytest

from decobandit.best_arm import best_mean_moments
from decobandit.estimators import MIN_DRAWS, Moments, Sample, estimate
from decobandit.problem import Problem
from examples import KINDS


def test_intercept_and_error_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3)) * [1.0, 1e3, 1e-3]
    y = 2.0 + x @ [0.5, -2e-3, 40.0] + rng.normal(size=50)
    design = np.column_stack([np.ones(50), x])
    weights, residual, _, _ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(residual[0] / 46 * np.linalg.inv(design.T @ design)[0, 0])
    slopes, found = Moments.of(y, x).regress()
    assert found.value == pytest.approx(weights[0], abs=1e-9)
    assert found.standard_error == pytest.approx(error, rel=1e-9)
    assert slopes == pytest.approx(weights[1:], rel=1e-8)


def test_a_control_given_twice_does_no_harm() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    once, twice = Moments.of(y, x).regress()[1], Moments.of(y, np.hstack([x, 7 * x])).regress()[1]
    assert twice.value == pytest.approx(once.value, abs=1e-9)
    assert twice.standard_error == pytest.approx(once.standard_error, rel=0.02)


def sample(draws: int) -> Sample:
    rng = np.random.default_rng(3)
    mean = rng.normal(size=draws)
    return Sample(mean + rng.normal(size=draws), mean, None, None, None, None, np.empty((draws, 0)))


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
    groups = [problem.groups[k] for k in problem.group_of_arm]
    means = [
        g.reward_bad[0] + (g.reward_good[0] - g.reward_bad[0]) * rng.beta(g.alpha, g.beta, 400_000)
        for g in groups
    ]
    largest = np.max(means, axis=0)
    for power, found in enumerate(best_mean_moments(problem), start=1):
        error = np.std(largest**power) / np.sqrt(largest.size)
        assert found == pytest.approx(np.mean(largest**power), abs=4.5 * error)
