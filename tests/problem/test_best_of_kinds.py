"""Expected best means of arms of any kind against closed forms and draws."""

import math

import numpy as np
import pytest
from scipy.special import betainc

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    evaluate,
    simulate,
)
from decobandit.problem import best_mean_bound, best_mean_reward, best_true_rewards

GRADES = Reward(values=[0, 1, 3])


def test_the_largest_of_normal_means() -> None:
    """Of three standard normals 3 / (2 sqrt(pi)); of two different ones Clark's formula."""
    three = Problem.uniform(arms=3, horizon=4, prior=NormalNormal(0, 1), noise_sd=2.0)
    assert best_mean_reward(three) == pytest.approx(4 * 1.5 / math.sqrt(math.pi), abs=1e-9)
    arms = [
        Arm(name="a", prior=NormalNormal(0.3, 1), noise_sd=1.0),
        Arm(name="b", prior=NormalNormal(0, 0.5), noise_sd=1.0),
    ]
    spread = math.hypot(1, 0.5)
    z = 0.3 / spread
    below = 0.5 * math.erfc(-z / math.sqrt(2))
    clark = 0.3 * below + spread * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    assert best_mean_reward(Problem(horizon=1, arms=arms)) == pytest.approx(clark, abs=1e-9)


def test_the_larger_of_two_gammas_and_the_sum_of_both() -> None:
    """E[X_1; X_1 > X_2] is a beta tail at a shape larger by one."""
    two = Problem.uniform(arms=2, horizon=1, prior=GammaPoisson(2, 1))
    assert best_mean_reward(two) == pytest.approx(2 * 2 * (1 - betainc(3, 2, 0.5)), abs=1e-9)
    both = Problem.uniform(arms=2, horizon=3, pulls_per_stage=2, prior=GammaPoisson(2, 1))
    assert best_mean_reward(both) == pytest.approx(3 * (2 + 2), abs=1e-9)
    fewer = Problem.uniform(arms=2, horizon=1, prior=GammaPoisson(2, 1), reward=Reward(factor=-1.0))
    least = 4 - 2 * 2 * (1 - betainc(3, 2, 0.5))
    assert best_mean_reward(fewer) == pytest.approx(-least, abs=1e-9)


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.1, 0.01, 1e-3])
def test_one_arm_has_its_own_mean_and_two_the_same_reward_of_both(weight: float) -> None:
    """Laws of small weights rise steeply at their ends."""
    one = Problem.uniform(arms=1, horizon=1, prior=GammaPoisson(weight, weight))
    assert best_mean_reward(one) == pytest.approx(1.0, abs=1e-9)
    two = Problem.uniform(arms=2, horizon=1, prior=GammaPoisson(weight, weight))
    larger = 2 * (1 - betainc(weight + 1, weight, 0.5))
    assert best_mean_reward(two) == pytest.approx(larger, abs=1e-9)


def test_an_arm_of_one_value_is_known() -> None:
    """E max(c, X) of a uniform X on [0, 1]."""
    arms = [
        Arm(name="known", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0.6, 0.6])),
        Arm(name="other", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 1])),
    ]
    assert best_mean_reward(Problem(horizon=1, arms=arms)) == pytest.approx((1 + 0.36) / 2)


def test_two_classes_are_good_and_bad_outcomes() -> None:
    binary = Problem(
        horizon=5, arms=[Arm(name="a", prior=BetaBernoulli(2, 1)), Arm(name="b"), Arm(name="c")]
    )
    counts = ([1, 2], [1, 1], [1, 1])
    classes = Problem(
        horizon=5,
        arms=[
            Arm(name=name, prior=DirichletCategorical(own), reward=Reward(values=[0, 1]))
            for name, own in zip("abc", counts, strict=True)
        ],
    )
    assert best_mean_reward(classes) == pytest.approx(best_mean_reward(binary), abs=1e-7)


def test_mixed_kinds_are_as_draws_have_them() -> None:
    arms = [
        Arm(name="c", prior=DirichletCategorical([1, 1, 1]), reward=GRADES),
        Arm(name="n", prior=NormalNormal(1, 0.5), noise_sd=1.0),
        Arm(name="p", prior=GammaPoisson(3, 2)),
    ]
    rng = np.random.default_rng(5)
    N = 400_000
    drawn = np.stack(
        [
            rng.dirichlet([1, 1, 1], N) @ [0, 1, 3],
            rng.normal(1, 0.5, N),
            rng.gamma(3, 0.5, N),
        ],
        axis=1,
    )
    for m in (1, 2):
        problem = Problem(horizon=2, pulls_per_stage=m, arms=arms)
        best = 2 * np.sort(drawn, axis=1)[:, -m:].sum(axis=1)
        error = float(best.std()) / math.sqrt(N)
        assert best_mean_reward(problem) == pytest.approx(float(best.mean()), abs=4 * error)
        found = best_true_rewards(problem, drawn)
        assert found is not None
        np.testing.assert_allclose(found, best, rtol=1e-12)


def test_a_batch_goes_to_the_best_arm() -> None:
    problem = Problem.uniform(
        arms=2, horizon=3, pulls_per_stage=10, repeat=True, prior=NormalNormal(0, 1), noise_sd=1.0
    )
    assert best_mean_reward(problem) == pytest.approx(30 / math.sqrt(math.pi), abs=1e-8)
    np.testing.assert_allclose(best_true_rewards(problem, np.array([[0.2, 0.5]])), [15.0])


def test_regret_over_the_prior_is_the_best_less_the_value() -> None:
    problem = Problem.uniform(
        arms=2, horizon=4, prior=DirichletCategorical([1, 1, 1]), reward=GRADES
    )
    exact = evaluate(problem, "greedy")
    best = best_mean_reward(problem)
    assert best is not None
    assert exact.regret == pytest.approx(best - exact.value, abs=1e-12)
    (drawn,) = simulate(problem, "greedy", draws=400, rng=4).results
    assert drawn.regret is not None
    assert abs(drawn.regret - exact.regret) < 4 * drawn.estimates.best.value_se
    plain = drawn.estimates.by_method["plain"].value_se
    assert drawn.estimates.best.value_se < 0.6 * plain


def test_arms_with_states_of_their_own_have_no_best_one() -> None:
    table = MarkovArm(first="s", states={"s": {"mean": 0.5, "next": {"any": [1.0, "s"]}}})
    problem = Problem(horizon=2, arms=[Arm(name="s", prior=table), Arm(name="c")])
    assert best_mean_reward(problem) is None
    assert simulate(problem, "greedy", draws=20).results[0].regret is None


@pytest.mark.parametrize("weights", [(1, 0.02, 1), (0.11, 1, 0.05), (1, 1, 1.6)])
def test_the_bound_is_not_below_what_the_best_arm_earns_for_certain(
    weights: tuple[float, ...],
) -> None:
    """Laws of classes are integrals: their errors made bounds that a policy exceeds."""
    arms = [
        Arm(name="best", prior=DirichletCategorical(weights), reward=Reward(values=[1, 1.83, 1.2])),
        Arm(name="worse", prior=DirichletCategorical([3, 1]), reward=Reward(values=[0.2, 0.9])),
    ]
    mean = (weights[0] + 1.83 * weights[1] + 1.2 * weights[2]) / sum(weights)
    problem = Problem(horizon=3, pulls_per_stage=2, repeat=True, unit=2, arms=arms)
    bound = best_mean_bound(problem)
    assert bound is not None
    assert 6 * mean <= bound <= 6 * mean + 1e-3
    alone = problem.model_copy(update={"arms": tuple(arms[:1])})
    assert best_mean_bound(alone) == pytest.approx(6 * mean, rel=1e-14)


def test_all_arms_earn_their_means() -> None:
    """Where every arm is pulled, none is chosen; beta laws of small weights are steep."""
    both = Problem.uniform(arms=2, horizon=1, pulls_per_stage=2, prior=BetaBernoulli(0.0014, 1))
    assert best_mean_reward(both) == pytest.approx(2 * 0.0014 / 1.0014, rel=1e-14)
