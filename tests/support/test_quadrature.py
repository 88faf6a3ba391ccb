"""Integrals against closed forms: smooth, singular at an end, with a jump, far from the edges."""

from collections.abc import Callable

import numpy as np
import pytest

from decobandit.support import Floats, integral

ENDS = np.array([0.0, 1.0])
CASES: dict[str, tuple[Callable[[Floats], Floats], Floats, float]] = {
    "degree 31": (lambda x: x**31, ENDS, 1 / 32),
    "exponential": (np.exp, np.array([-1.0, 0.3, 2.0]), np.exp(2) - np.exp(-1)),
    "vertical at the end": (lambda x: x**0.01, ENDS, 1 / 1.01),
    "jump": (lambda x: np.where(x < 1 / 3, 2.0, 5.0), ENDS, 2 / 3 + 10 / 3),
    "kink": (lambda x: np.abs(x - 0.123), ENDS, (0.123**2 + 0.877**2) / 2),
    "nothing": (np.zeros_like, ENDS, 0.0),
    "rounding": (lambda x: 1e9 * np.sin(x) ** 2, ENDS, 1e9 * (0.5 - np.sin(2) / 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_integrals_are_those_of_closed_forms(name: str) -> None:
    function, edges, wanted = CASES[name]
    found = integral(function, edges, 1e-13)
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
