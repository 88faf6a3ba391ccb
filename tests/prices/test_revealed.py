"""Bounds of arms of unknown variance: chords of the law of the sd, closed forms, integrals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma, gammaincinv

from decobandit import Arm, NormalGamma, NormalNormal, Problem, Unsupported, solve
from decobandit.prices import dual_value
from decobandit.prices.revealed import sd_chords, sd_means
from decobandit.problem import NormalGammaModel, model_of

PRIOR = NormalGamma(mean=0.2, pulls=1.5, shape=2.5, rate=3.0)


def unknown(arms: int = 2, horizon: int = 6, prior: NormalGamma = PRIOR, **more: object) -> Problem:
    named = [Arm(name=f"a{k}", prior=prior) for k in range(arms)]
    return Problem(arms=named, horizon=horizon, **more)


def standard_deviations(number: int) -> np.ndarray:
    """Equally likely quantiles of the prior's standard deviation."""
    levels = (np.arange(number) + 0.5) / number
    return np.sqrt(PRIOR.rate / gammaincinv(PRIOR.shape, levels))


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.5, 40.0])
def test_chords_are_above_every_convex_rising_function_and_means_below(shape: float) -> None:
    model = NormalGammaModel(0.0, 1.0, shape, 2.0)
    above, weights, beyond = sd_chords(model)
    below, chances = sd_means(model)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    for strike in (0.6, 1.2, 2.0, 6.0):

        def excess(y: float, strike: float = strike) -> float:  # of the precision y^10 * rate
            x = y**10
            density = np.exp(-x) * x ** (shape - 1.0) / gamma(shape) * 10.0 * y**9
            return float((np.sqrt(2.0 / x) - strike) * density)

        mean, _ = quad(excess, 0.0, (2.0 / strike**2) ** 0.1, epsabs=1e-12, epsrel=1e-10)
        upper = float(weights @ np.maximum(above - strike, 0.0)) + beyond
        lower = float(chances @ np.maximum(below - strike, 0.0))
        assert lower * (1.0 - 1e-7) <= mean <= upper * (1.0 + 1e-7)


def test_two_pulls_earn_no_more_than_the_bound() -> None:
    """The first pull may go anywhere, the second goes to the larger posterior mean."""
    problem = unknown(horizon=2)
    model = model_of(problem.arms[0])
    start = np.array(model.initial(), dtype=float)
    optimum = 2 * PRIOR.mean + float(model.excess(start, np.array(PRIOR.mean)))
    solution = solve(problem, tol=1e-6)
    assert optimum <= solution.upper_bound


def test_the_dual_is_the_average_over_the_standard_deviation() -> None:
    """At fixed prices, an arm is worth the mean of what it is worth with known noise."""
    problem, prices = unknown(), np.array([0.9, 0.7, 0.6, 0.5, 0.4, 0.3])
    value = dual_value(problem, prices).value
    worth = []
    for sd in standard_deviations(60):
        arm = Arm(name="a", prior=NormalNormal(0.2, sd / np.sqrt(1.5)), noise_sd=float(sd))
        known = dual_value(Problem(arms=[arm], horizon=6), prices).value
        worth.append(known - prices.sum())
    average = prices.sum() + 2 * float(np.mean(worth))
    assert average * (1 - 2e-3) <= value <= average * 1.01


def test_a_variance_that_is_nearly_certain_gives_the_bound_of_a_known_one() -> None:
    certain = NormalGamma(mean=0.0, pulls=1, shape=1e7, rate=4e7)
    known = Problem.uniform(arms=2, horizon=8, prior=NormalNormal(0, 2), noise_sd=2)
    expected = solve(known, tol=1e-6).upper_bound
    bound = solve(unknown(horizon=8, prior=certain), tol=1e-6).upper_bound
    assert bound == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("more", [{}, {"terminal": {"deploy": 5.0}}, {"pulls_per_stage": 2}])
def test_both_bounds_enclose_the_minimum_of_the_dual(more: dict[str, object]) -> None:
    solution = solve(unknown(arms=3, horizon=4, **more), tol=1e-6)
    assert solution.lower_bound is not None
    assert 0.0 <= solution.upper_bound - solution.lower_bound < 0.02 * solution.upper_bound


def test_budgets_are_refused() -> None:
    arms = [Arm(name=f"a{k}", prior=PRIOR, cost=1.0) for k in range(2)]
    with pytest.raises(Unsupported) as error:
        solve(Problem(arms=arms, horizon=3, budget=2.0))
    assert error.value.field == "prior"
