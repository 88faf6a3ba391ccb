"""Both bounds of a solution hold in rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from decobandit import Problem, solve
from decobandit.bounds import certificate
from decobandit.bounds.certificate_checker import Dual
from decobandit.prices import DualSolution
from decobandit.prices.rounding import dual_rounding, flow_rounding
from helpers.certifiable import MAKERS, RANDOM, Make


def exact_dual(solution: DualSolution) -> Fraction:
    """The dual function at the prices, in rational numbers."""
    tree = certificate(solution)
    dual = Dual(tree["problem"], [float.fromhex(price) for price in tree["prices"]])
    assert dual.exact
    return Fraction(dual.total)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_upper_bounds_hold_without_rounding(make: Make) -> None:
    for i in range(max(RANDOM // 10, 6)):
        problem = make(np.random.default_rng([34, i]))
        solution = solve(problem, tol=1e-2, max_calls=20)
        exact = exact_dual(solution)
        assert exact <= Fraction(solution.upper_bound)
        # and little was added
        assert solution.upper_bound - float(exact) <= 1e-11 * (1.0 + abs(float(exact)))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_lower_bounds_hold_without_rounding(make: Make) -> None:
    """Where both bounds meet, the lower one is as large as it can be: still below."""
    met = 0
    for i in range(max(RANDOM // 10, 6)):
        problem = make(np.random.default_rng([35, i]))
        solution = solve(problem, tol=0.0, max_calls=200)
        assert solution.lower_bound is not None
        assert Fraction(solution.lower_bound) <= exact_dual(solution)
        met += solution.upper_bound - solution.lower_bound < 1e-11 * (1 + solution.upper_bound)
    assert met > 0


def test_the_terms_grow_with_stages_and_rewards() -> None:
    short, long = (Problem.uniform(3, horizon) for horizon in (10, 100))
    prices = [np.full(problem.stages, 0.6) for problem in (short, long)]
    terms = [dual_rounding(short, prices[0]), dual_rounding(long, prices[1])]
    assert 0.0 < terms[0] < terms[1] < 1e-10
    assert 0.0 < flow_rounding(short) < flow_rounding(long) < 1e-10
