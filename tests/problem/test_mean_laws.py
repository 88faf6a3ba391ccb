"""What is known of an arm's mean, before and after one more outcome."""

from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, betaincinv

from decobandit import Arm, BetaBernoulli, DirichletCategorical, GammaPoisson, Problem, Reward
from decobandit.problem import ArmModel


def of_classes(counts: list[float], values: list[float]) -> ArmModel:
    arm = Arm(name="a", prior=DirichletCategorical(counts), reward=Reward(values=values))
    return Problem(horizon=1, arms=[arm]).groups[0].model


@pytest.mark.parametrize("weight", [40.0, 1.0, 0.1, 0.01, 1e-3, 1e-6, 1e-12])
def test_the_mean_of_two_classes_has_a_beta_law(weight: float) -> None:
    """The second of them worth 1, the first nothing; whatever the prior is worth."""
    kind, stats = of_classes([weight, 3 * weight], [0.0, 1.0]), np.zeros((1, 2))
    x = np.array([1e-6, 0.01, 0.3, 0.5, 0.75, 0.9, 0.9999])
    beta = betainc(3 * weight, weight, x)
    np.testing.assert_allclose(kind.cdf(stats, x), beta, rtol=0, atol=2e-8)
    if weight >= 1.0:  # others have nearly all of their weight within rounding of 0 and 1
        levels = np.array([0.01, 0.3, 0.9])
        ends = betaincinv(3 * weight, weight, levels)
        np.testing.assert_allclose(kind.quantile(stats, levels), ends, rtol=0, atol=1e-6)


@pytest.mark.parametrize("weight", [1.0, 0.01, 1e-3, 1e-6])
def test_drawn_classes_have_the_shares_of_their_pseudo_counts(weight: float) -> None:
    """Also where all gammas that they are made from are too small for a number."""
    kind, draws = of_classes([weight, 2 * weight, weight], [0, 1, 2]), 4000
    drawn = kind.sample(np.zeros((draws, 3)), np.random.default_rng(1))
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    near = 4.5 * np.sqrt(0.25 / draws)  # deviations, were all shares 0 or 1
    np.testing.assert_allclose(drawn.mean(axis=0), [0.25, 0.5, 0.25], rtol=0, atol=near)


def test_classes_worth_the_same_leave_nothing_to_know() -> None:
    kind, stats = of_classes([1, 2], [3, 3]), np.zeros((1, 2))
    assert kind.quantile(stats, np.array([0.1, 0.9])).tolist() == [3.0, 3.0]
    assert kind.cdf(stats, np.array([2.9, 3.0])).tolist() == [0.0, 1.0]
    assert kind.sd(stats).tolist() == [0.0]


def test_what_is_not_known_of_a_mean_does_not_depend_on_where_it_is() -> None:
    near, far = of_classes([1, 2], [0, 1]), of_classes([1, 2], [1e9, 1e9 + 1])
    assert far.sd(np.zeros(2)) == pytest.approx(float(near.sd(np.zeros(2))), rel=1e-6)


@pytest.mark.parametrize(
    ("prior", "near"),
    [
        (GammaPoisson(2, 1), 1e-9),
        (GammaPoisson(0.3, 0.2), 2e-4),  # large counts are not told apart
        (GammaPoisson(200, 0.5), 2e-3),
        (DirichletCategorical([1, 2, 0.5]), 1e-9),
        (BetaBernoulli(2, 1), 1e-12),
    ],
)
def test_laws_after_an_outcome_average_to_the_law_before(prior: Any, near: float) -> None:
    values: dict[str, Any] = (
        {"reward": Reward(values=[0, 1, 3])} if isinstance(prior, DirichletCategorical) else {}
    )
    kind = Problem(horizon=1, arms=[Arm(name="a", prior=prior, **values)]).groups[0].model
    stats = np.array([kind.initial()], dtype=float)
    x = float(kind.mean(stats)[0]) * np.linspace(0.1, 2, 40)
    chances, after = kind.transitions(stats)
    mixed = (chances[:, :, None] * kind.cdf_ahead(after, x[None, None, :])).sum(axis=1)
    np.testing.assert_allclose(mixed[0], kind.cdf(stats[:, None, :], x)[0], rtol=0, atol=near)
    one_by_one = kind.cdf(after[..., None, :], x[None, None, :])
    np.testing.assert_allclose(kind.cdf_ahead(after, x[None, None, :]), one_by_one, atol=1e-12)
