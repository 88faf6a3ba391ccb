"""Priors from earlier outcomes, by the conjugate formulas; whole ones are posteriors."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Problem,
    Reward,
    State,
    with_history,
)
from decobandit.problem import model_of
from helpers.refusals import refused

PROBLEM = Problem(
    horizon=4,
    arms=[
        Arm(name="b", prior=BetaBernoulli(1, 2)),
        Arm(name="c", prior=DirichletCategorical([1, 1, 2]), reward=Reward(values=[0, 1, 3])),
        Arm(name="n", prior=NormalNormal(1, 2), noise_sd=4),
        Arm(name="g", prior=GammaPoisson(3, 1)),
    ],
)
SEEN = State.parse("30/40,10+20+30,50/20,12/8", PROBLEM)  # far more than four stages


def test_each_earlier_outcome_counts_its_discount() -> None:
    b, c, n, g = (arm.prior for arm in with_history(PROBLEM, SEEN, discount=0.1).arms)
    assert b == BetaBernoulli(4, 3)
    assert c == DirichletCategorical([2, 3, 5])
    # precisions add up: 1/4 of the prior, two outcomes of precision 1/16
    assert n.sd == pytest.approx((1 / 4 + 2 / 16) ** -0.5)
    assert n.mean == pytest.approx((1 / 4 + 5 / 16) / (1 / 4 + 2 / 16))
    assert g.shape == pytest.approx(4.2)
    assert g.rate == pytest.approx(1.8)


def test_without_a_discount_the_prior_is_the_posterior() -> None:
    later = with_history(PROBLEM, SEEN)
    known = zip(PROBLEM.arms, later.arms, SEEN.stats, strict=True)
    for before, after, stats in known:
        fresh = np.array(model_of(after).initial(), dtype=float)
        assert model_of(after).mean(fresh) == pytest.approx(model_of(before).mean(stats))
        assert model_of(after).sd(fresh) == pytest.approx(model_of(before).sd(stats))
        assert (before.name, before.reward, before.noise_sd) == (
            after.name,
            after.reward,
            after.noise_sd,
        )


def test_nothing_counts_at_a_discount_of_zero() -> None:
    assert with_history(PROBLEM, SEEN, discount=0) == PROBLEM


@pytest.mark.parametrize("discount", [-0.1, 1.5, float("nan"), True, "much"])
def test_discounts_are_from_zero_to_one(discount: object) -> None:
    with refused("invalid_argument", "discount"):
        with_history(PROBLEM, SEEN, discount=discount)  # type: ignore[arg-type]


def test_histories_are_those_of_the_arms() -> None:
    with refused("invalid_argument"):
        with_history(PROBLEM, State.parse("1/1,0/0"))
    own = MarkovArm(first="a", states={"a": MarkovState(mean=1.0, next={"on": (1.0, "a")})})
    problem = Problem(horizon=3, arms=[Arm(name="own", prior=own)])
    with refused("invalid_argument"):
        with_history(problem, State.parse("a/2", problem))
