"""What is known of an arm's mean, before and after one more outcome."""

from typing import Any

import numpy as np
import pytest

from decobandit import Arm, Beta, Categorical, Gamma, Payoff, Problem


@pytest.mark.parametrize(
    ("prior", "near"),
    [
        (Gamma(2, 1), 1e-9),
        (Gamma(0.3, 0.2), 2e-4),  # large counts are not told apart
        (Gamma(200, 0.5), 2e-3),
        (Categorical([1, 2, 0.5]), 1e-9),
        (Beta(2, 1), 1e-12),
    ],
)
def test_laws_after_an_outcome_average_to_the_law_before(prior: Any, near: float) -> None:
    values: dict[str, Any] = (
        {"reward": Payoff(values=[0, 1, 3])} if isinstance(prior, Categorical) else {}
    )
    kind = Problem(horizon=1, arms=[Arm(name="a", prior=prior, **values)]).groups[0].kind
    stats = np.array([kind.fresh()], dtype=float)
    x = float(kind.mean(stats)[0]) * np.linspace(0.1, 2, 40)
    chances, after = kind.outlook(stats)
    mixed = (chances[:, :, None] * kind.cdf_ahead(after, x[None, None, :])).sum(axis=1)
    np.testing.assert_allclose(mixed[0], kind.cdf(stats[:, None, :], x)[0], rtol=0, atol=near)
    one_by_one = kind.cdf(after[..., None, :], x[None, None, :])
    np.testing.assert_allclose(kind.cdf_ahead(after, x[None, None, :]), one_by_one, atol=1e-12)
