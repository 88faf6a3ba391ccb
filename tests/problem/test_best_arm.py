"""Expected best means against closed forms, densities of order statistics, and simple cases."""

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, betaln, expit

from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Problem,
    Reward,
    best_mean_per_pull,
    best_mean_reward,
    share_of_best,
)
from decobandit.problem.model import Terminal
from helpers.examples import KINDS, at_stake, problems
from helpers.oracles import rewards, stage_pulls


def by_density(priors: Sequence[tuple[float, float]], m: int) -> float:
    """E of the sum of the m largest: each arm, at each value, where fewer than m others are above.

    Trapezoids in v, x = 1 / (1 + exp(-pi sinh v)): what happens at 0 and 1 is far out and small.
    """
    v = np.linspace(-6.0, 6.0, 1501)
    odds = np.pi * np.sinh(v)
    x, y = expit(odds), expit(-odds)  # y = 1 - x
    w = (v[1] - v[0]) * np.pi * np.cosh(v) * x * y
    total = 0.0
    for arm, (a, b) in enumerate(priors):
        density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log(y) - betaln(a, b))
        # F from the end that is near: x next to 1 is rounded
        below = [
            np.where(x < y, betainc(c, d, x), 1 - betainc(d, c, y))
            for c, d in [*priors[:arm], *priors[arm + 1 :]]
        ]
        chance = sum(
            prod((1 - F if k in above else F for k, F in enumerate(below)), start=np.ones_like(x))
            for size in range(m)
            for above in combinations(range(len(below)), size)
        )
        total += float(w @ (x * density * chance))
    return total


def with_priors(priors: Sequence[tuple[float, float]], m: int) -> Problem:
    arms = tuple(
        Arm(name=f"arm-{i}", prior=BetaBernoulli(good=good, bad=bad))
        for i, (good, bad) in enumerate(priors)
    )
    return Problem(arms=arms, horizon=1, pulls_per_stage=m)


@pytest.mark.parametrize("arms", [1, 2, 5, 15, 100, 5000])
def test_best_of_uniform_arms_is_k_over_k_plus_one(arms: int) -> None:
    problem = Problem.uniform(arms=arms, horizon=7)
    assert best_mean_reward(problem) == pytest.approx(7 * arms / (arms + 1), abs=1e-10)


@pytest.mark.parametrize(("arms", "m"), [(2, 2), (5, 3), (15, 4), (40, 40), (1000, 30)])
def test_largest_of_uniform_arms_are_spread_evenly(arms: int, m: int) -> None:
    problem = Problem.uniform(arms=arms, horizon=2, pulls_per_stage=m)
    expected = 2 * sum((arms + 1 - j) / (arms + 1) for j in range(1, m + 1))
    assert best_mean_reward(problem) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("prior", [(0.01, 100.0), (1e4, 3e4), (0.05, 0.05), (300.0, 0.2), (1, 7)])
@pytest.mark.parametrize("arms", [1, 3])
def test_pulling_all_arms_earns_their_prior_means(prior: tuple[float, float], arms: int) -> None:
    good, bad = prior
    problem = Problem.uniform(
        arms=arms, horizon=1, pulls_per_stage=arms, prior=BetaBernoulli(good=good, bad=bad)
    )
    assert best_mean_reward(problem) == pytest.approx(arms * good / (good + bad), abs=1e-10)


_WEIGHTS = st.floats(0.1, 40.0)


@settings(max_examples=25, deadline=None)
@given(priors=st.lists(st.tuples(_WEIGHTS, _WEIGHTS), min_size=1, max_size=4), data=st.data())
def test_sum_of_largest_is_that_of_the_densities(
    priors: list[tuple[float, float]], data: st.DataObject
) -> None:
    priors = priors + priors[: data.draw(st.integers(0, len(priors)))]  # some arms exchangeable
    m = data.draw(st.integers(1, len(priors)))
    found = best_mean_reward(with_priors(priors, m))
    assert found == pytest.approx(by_density(priors, m), abs=1e-10)


def test_means_of_arms_with_rewards_of_their_own_are_compared_as_rewards() -> None:
    """One arm earns 1 - theta, another 0.8 for sure: E max(U, 0.8) = 0.8 + 0.2^2 / 2."""
    arms = (
        Arm(name="a", reward=Reward(good=0.0, bad=1.0)),
        Arm(name="b", prior=BetaBernoulli(good=3, bad=2), reward=Reward(good=0.8, bad=0.8)),
    )
    assert best_mean_reward(Problem(arms=arms, horizon=3)) == pytest.approx(3 * 0.82, abs=1e-10)
    both = Problem(arms=arms, horizon=3, pulls_per_stage=2)
    assert best_mean_reward(both) == pytest.approx(3 * 1.3, abs=1e-10)


def test_stages_may_differ_and_a_deployment_counts() -> None:
    reward = Reward(good=(1.0, 2.0, -1.0, 0.5), bad=(0.0, 0.0, 1.0, 0.5))
    arms = tuple(Arm(name=name, reward=reward) for name in "ab")
    # of two uniform arms the larger has mean 2/3, the smaller 1/3
    expected = 2 / 3 + 2 * 2 / 3 + (1 - 2 * 1 / 3) + 0.5
    problem = Problem(arms=arms, horizon=4)
    assert best_mean_reward(problem) == pytest.approx(expected, abs=1e-10)
    deployed = problem.model_copy(update={"terminal": Terminal(deploy=30.0)})
    assert best_mean_reward(deployed) == pytest.approx(expected + 30 * 2 / 3, abs=1e-10)


def test_tables_of_last_rewards_leave_nothing_to_compare_with() -> None:
    assert best_mean_reward(KINDS["tabled"](3)) is None
    assert best_mean_reward(KINDS["tabled"](3), (0.1, 0.2, 0.3, 0.4)) is None


@settings(max_examples=25, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_best_at_a_truth_are_the_largest_means_stage_by_stage(problem: Problem, seed: int) -> None:
    truth = np.random.default_rng(seed).random(problem.n_arms)
    found = best_mean_reward(problem, truth.tolist())
    if any(arm.terminal is not None for arm in problem.arms):
        assert found is None
        return
    expected = 0.0
    for t, m in enumerate(stage_pulls(problem)):
        pay = [rewards(problem, arm, t) for arm in problem.arms]
        means = [p * good + (1 - p) * bad for p, (good, bad) in zip(truth, pay, strict=True)]
        expected += sum(sorted(means, reverse=True)[:m])
    assert found == pytest.approx(expected, abs=1e-12 * at_stake(problem))


def test_arms_that_look_equal_share_the_chance_of_being_best() -> None:
    a, b, c = np.array([0.5, 0.5, 0.2]), np.array([0.5, 0.4, 0.2]), np.array([0.1, 0.5, 0.9])
    assert share_of_best([(a, 0.7, 1), (b, 0.6, 1), (c, 0.7, 2)]) == pytest.approx([0.5, 1.0, 1.0])
    assert share_of_best([(a, 0.7, 1), (b, 0.6, 1), (c, 0.1, 2)]) == pytest.approx([0.5, 1 / 3, 0])


def test_a_pull_of_the_best_arms_earns_the_mean_of_the_largest_order_statistics() -> None:
    """Uniform priors: the j-th largest of K has mean (K + 1 - j) / (K + 1)."""
    rewards = [1.0, 0.5, 2.0]
    arms = tuple(Arm(name=f"{i}", reward=Reward(good=rewards, bad=0.0)) for i in range(4))
    one = best_mean_per_pull(Problem(arms=arms, horizon=3))
    assert one == pytest.approx(np.array(rewards) * 4 / 5, abs=1e-10)
    two = best_mean_per_pull(Problem(arms=arms, horizon=3, pulls_per_stage=2))
    assert two == pytest.approx(np.array(rewards) * (4 + 3) / 10, abs=1e-10)
    deployed = Problem.uniform(arms=2, horizon=3)
    deployed = deployed.model_copy(update={"terminal": Terminal(deploy=30.0)})
    assert best_mean_per_pull(deployed) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 20.0], abs=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_largest_and_smallest_add_up_to_all_means(seed: int) -> None:
    """With priors worth 0.001 to 10,000 outcomes, whose laws are narrow or piled up at the ends."""
    rng = np.random.default_rng(seed)
    weights, pay = 10.0 ** rng.uniform(-3.0, 4.0, (9, 2)), rng.normal(size=(9, 2))

    def best(m: int, sign: float) -> float:
        arms = [
            Arm(name=f"{k}", prior=BetaBernoulli(*w), reward=Reward(good=sign * g, bad=sign * b))
            for k, (w, (g, b)) in enumerate(zip(weights, pay, strict=True))
        ]
        found = best_mean_reward(Problem(arms=arms, horizon=1, pulls_per_stage=m))
        assert found is not None
        return found

    shares = weights / weights.sum(axis=1, keepdims=True)
    for m in (1, 4, 8):
        assert best(m, 1.0) - best(9 - m, -1.0) == pytest.approx((shares * pay).sum(), abs=1e-9)


def test_a_narrow_law_between_steep_ones_is_not_missed() -> None:
    """An arm of mean 1/2 nearly for sure beside three that are 0 or 1: E = 1 - (1 - 1/2) / 8."""
    sharp, steep = BetaBernoulli(1e9, 1e9), BetaBernoulli(1e-9, 1e-9)
    arms = [Arm(name="a", prior=sharp), *(Arm(name=name, prior=steep) for name in "bcd")]
    found = best_mean_reward(Problem(arms=arms, horizon=1))
    assert found == pytest.approx(1.0 - 0.5 / 8.0, abs=1e-5)
