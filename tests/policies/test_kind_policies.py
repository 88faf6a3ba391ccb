"""Policies for arms of any kind: against good and bad outcomes, formulas, published numbers."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import nbinom, norm

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    State,
    make_policy,
    recommend,
)
from decobandit.arm import OneArmValues
from decobandit.policies import Context, Policy, indices_of_arm
from helpers.refusals import refused

NORMAL = Problem(
    horizon=10,
    arms=[
        Arm(name="a", prior=NormalNormal(0.2, 1), noise_sd=1),
        Arm(name="b", prior=NormalNormal(0, 0.5), noise_sd=2),
    ],
)
BINARY = Problem.uniform(arms=2, horizon=8)
CLASSES = Problem.uniform(
    arms=2, horizon=8, prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 1])
)


def index(policy: Policy, state: str) -> np.ndarray:
    seen = State.parse(state, policy.problem)
    found = policy.indices(seen.total, seen)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("prior", "settings", "discount", "published", "tolerance"),
    [
        (DirichletCategorical([2, 3]), {"reward": Reward(values=[0, 1])}, 0.8, 0.67143994, 1e-4),
        (DirichletCategorical([1, 2]), {"reward": Reward(values=[0, 1])}, 0.5, 0.70600586, 5e-4),
        (DirichletCategorical([2, 2]), {"reward": Reward(values=[0, 1])}, 0.5, 0.53586272, 5e-4),
        (DirichletCategorical([1, 3]), {"reward": Reward(values=[0, 1])}, 0.5, 0.77735112, 5e-4),
        (NormalNormal(0, 1), {"noise_sd": 1.0}, 0.8, 0.50552724, 1e-3),
    ],
)
def test_discounted_indices_are_the_published_ones(
    prior: object, settings: dict[str, object], discount: float, published: float, tolerance: float
) -> None:
    """Rewards and price discounted alike: the R package `gittins` has the limit of many stages."""
    T = 60 if discount == 0.8 else 20
    factor = discount ** np.arange(T)
    reward = settings.get("reward", Reward())
    values = reward.values  # type: ignore[attr-defined]
    arm = Arm(
        name="a",
        prior=prior,
        reward=Reward(values=values, factor=factor),  # type: ignore[arg-type]
        noise_sd=settings.get("noise_sd"),  # type: ignore[arg-type]
    )
    problem = Problem(horizon=T, arms=[arm])
    fresh = np.array(problem.groups[0].model.initial(), dtype=float)
    grid = None if problem.is_binary else 0 if problem.groups[0].model.finite else 256

    def advantage(price: float) -> float:
        tables = OneArmValues(problem, price * factor, grid=grid)
        return float(tables.index(0, 0, fresh)) - price

    found = brentq(advantage, published - 0.05, published + 0.05, xtol=1e-5)
    assert found == pytest.approx(published, abs=tolerance)


def index_of_first(problem: Problem, policy: str, stage: int, state: str) -> float:
    (found,) = indices_of_arm(Context(problem), [policy], stage=stage, state=state)
    return found.index


def test_the_exact_index_of_a_state_is_the_price_of_indifference() -> None:
    problem = Problem.uniform(
        arms=2, horizon=6, prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 3])
    )
    found = index_of_first(problem, "fh-gittins", 2, "0+1+1")
    stats = np.array([0.0, 1.0, 1.0])

    def advantage(price: float) -> float:
        return float(OneArmValues(problem, np.full(6, price)).index(2, 0, stats)) - price

    assert found == pytest.approx(brentq(advantage, 0.0, 3.0, xtol=1e-12), abs=1e-8)
    assert index(make_policy(problem, "fh-gittins"), "0+1+1,0+0+0")[0] == pytest.approx(
        found, abs=3e-4
    )


def test_the_exact_index_of_two_classes_is_that_of_good_and_bad() -> None:
    (exact,) = indices_of_arm(Context(BINARY), ["fh-gittins"], stage=3, good=2, bad=1)
    assert index_of_first(CLASSES, "fh-gittins", 3, "1+2") == pytest.approx(exact.index, abs=1e-8)


@pytest.mark.parametrize(("total", "pulls"), [(40.0, 1), (-30.0, 3)])
def test_indices_grow_with_the_mean_beyond_the_grid(total: float, pulls: int) -> None:
    """Far away DeCo has nothing to learn; Gittins indices of normal arms move with the mean."""
    mean = (0.2 + total) / (1.0 + pulls)
    far, middle = f"{total}/{pulls},0/0", f"{0.2 * pulls}/{pulls},0/0"
    assert index(make_policy(NORMAL, "deco"), far)[0] == pytest.approx(mean, rel=1e-6)
    gittins = make_policy(NORMAL, "fh-gittins")
    assert index(gittins, far)[0] - mean == pytest.approx(index(gittins, middle)[0] - 0.2, abs=0.02)


def test_the_last_pull_of_a_normal_arm_is_worth_its_mean() -> None:
    assert index_of_first(NORMAL, "fh-gittins", 9, "1.5/2") == pytest.approx(1.7 / 3, abs=1e-6)
    (deco,) = indices_of_arm(Context(NORMAL), ["deco"], stage=9, state="1.5/2")
    assert deco.value_of_information == pytest.approx(0.0, abs=1e-9)
    assert deco.state == "1.5/2"
    assert deco.good is None


def test_the_knowledge_gradient_of_normal_arms_is_the_formula() -> None:
    found = index(make_policy(NORMAL, "knowledge-gradient"), "1.5/2,0/0")
    k, n, to_come = np.array([1.0, 16.0]), np.array([2.0, 0.0]), 7.0
    noise, prior = np.array([1.0, 2.0]), np.array([0.2, 0.0])
    mean = (k * prior + np.array([1.5, 0.0])) / (k + n)
    step = noise / np.sqrt((k + n) * (k + n + 1))
    z = -abs(mean[0] - mean[1]) / step
    expected = mean + to_come * step * (z * norm.cdf(z) + norm.pdf(z))
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_the_knowledge_gradient_of_classes_is_a_sum_over_outcomes() -> None:
    problem = Problem(
        horizon=6,
        arms=[
            Arm(name="a", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
            Arm(name="b", prior=GammaPoisson(3, 2)),
        ],
    )
    found = index(make_policy(problem, "knowledge-gradient"), "0+0+0,0/0")
    mean, best = 4 / 3, 1.5
    after = [(4 + value) / 4 for value in (0, 1, 3)]
    rise = np.mean([max(x, best) for x in after]) - best
    assert found[0] == pytest.approx(mean + 5 * rise, rel=1e-12)
    x = np.arange(200)
    from scipy.stats import nbinom

    chances = nbinom.pmf(x, 3, 2 / 3)
    rise = chances @ np.maximum((3 + x) / 3, mean) - best
    assert found[1] == pytest.approx(1.5 + 5 * rise, rel=1e-9)


def test_quantiles_of_normal_arms_are_the_formula() -> None:
    found = index(make_policy(NORMAL, "bayes-ucb"), "1.5/2,0/0")
    z = norm.ppf(1 - 1 / 3)
    expected = [(0.2 + 1.5) / 3 + z / np.sqrt(3), 0.5 * z]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_thompson_sampling_draws_arms_as_often_as_they_are_best() -> None:
    policy, rng = make_policy(NORMAL, "thompson"), np.random.default_rng(1)
    state = State.parse("1.5/2,0/0", NORMAL)
    first = np.mean([policy.choose(state, rng=rng) == (0,) for _ in range(4000)])
    gap, sd = 1.7 / 3, np.sqrt(1 / 3 + 0.25)
    assert first == pytest.approx(norm.cdf(gap / sd), abs=4 * 0.5 / np.sqrt(4000))


def test_equal_pulls_the_arm_of_fewest_pulls_and_greedy_the_largest_mean() -> None:
    state = State.parse("1.5/2,0/1", NORMAL)
    assert make_policy(NORMAL, "equal").choose(state) == (1,)
    assert make_policy(NORMAL, "greedy").choose(state) == (0,)


@pytest.mark.parametrize("name", ["ogi", "deco-rolling"])
def test_policies_of_good_and_bad_outcomes_say_so(name: str) -> None:
    with refused("unsupported", "policy"):
        make_policy(NORMAL, name)


def test_a_recommendation_says_what_is_known_of_every_kind() -> None:
    problem = Problem(
        horizon=9,
        arms=[
            Arm(name="n", prior=NormalNormal(0, 1), noise_sd=1),
            Arm(name="c", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
            Arm(name="b", prior=BetaBernoulli(1, 2)),
        ],
    )
    found = recommend(problem, "1.5/2,1+0+1,1/2", "greedy")
    assert found.chosen == ("c",)
    n, c, b = (arm.to_dict() for arm in found.arms)
    assert (n["seen"], n["posterior"]) == ("1.5/2", "N(0.5, sd 0.5774)")
    assert (c["seen"], c["posterior"]) == ("1+0+1", "Dirichlet(2, 1, 2)")
    assert (b["good"], b["posterior_bad"]) == (1, 3.0)
    assert c["expected_reward"] == pytest.approx((1 + 6) / 5)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("1/1", "1 arms; must be 2"),
        ("1.5,0/0", "arm 1: '1.5'; must be sum/pulls"),
        ("1/20,0/0", "20 pulls in all; must be at most 10"),
    ],
)
def test_states_that_cannot_be_are_refused(state: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        recommend(NORMAL, state, "greedy")


def test_a_state_of_counts_does_not_fit_other_kinds() -> None:
    with refused("invalid_argument"):
        make_policy(NORMAL, "greedy").choose(State.fresh(2))


@pytest.mark.parametrize(
    ("horizon", "shape", "rate"), [(2, 1.5, 0.7), (3, 1.5, 0.7), (3, 0.3, 1.0)]
)
def test_gittins_indices_of_counts_are_those_of_a_plain_recursion(
    horizon: int, shape: float, rate: float
) -> None:
    counts = range(80)

    def advantage(price: float, total: int, pulls: int) -> float:
        """Of a pull: what it earns above the price, and what may be earned after it."""
        later = 0.0
        if pulls + 1 < horizon:
            chance = (rate + pulls) / (rate + pulls + 1)
            likely = nbinom.pmf(counts, shape + total, chance)
            later = sum(
                p * max(advantage(price, total + x, pulls + 1), 0.0)
                for x, p in zip(counts, likely, strict=True)
                if p > 1e-9
            )
        return (shape + total) / (rate + pulls) - price + later

    exact = brentq(lambda price: advantage(price, 0, 0), 0.0, 20.0, xtol=1e-9)
    problem = Problem.uniform(arms=2, horizon=horizon, prior=GammaPoisson(shape, rate))
    table = index(make_policy(problem, "fh-gittins"), "0/0,0/0")[0]
    assert table == pytest.approx(exact, rel=2e-3)
    assert index_of_first(problem, "fh-gittins", 0, "0/0") == pytest.approx(exact, rel=1e-6)
