"""What every solution must stand up to, whatever the problem."""

import pytest

from decobandit.prices import DualSolution
from helpers.examples import at_stake
from helpers.oracles import dual


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
