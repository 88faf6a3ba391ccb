"""Upper confidence bounds on means of any kind, by their formulas; what has none is refused."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

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
    make_policy,
    simulate,
)
from helpers.refusals import refused

MIXED = Problem(
    horizon=30,
    arms=[
        Arm(
            name="classes",
            prior=DirichletCategorical([1, 1, 1]),
            reward=Reward(values=[-1, 0, 3], factor=0.5),
        ),
        Arm(name="normal", prior=NormalNormal(5, 1), noise_sd=0.7),
        Arm(name="good", prior=BetaBernoulli(1, 9)),
    ],
)
COUNTS = Problem.uniform(arms=2, horizon=30, prior=GammaPoisson(2, 1))
STAGE = 9
SEEN = "1+1+2,7.5/3,2/2"  # of four, three, two pulls
MEANS, N = np.array([5 / 4, 2.5, 1.0]), np.array([4.0, 3.0, 2.0])
FACTOR = np.array([0.5, 1.0, 1.0])


def index(problem: Problem, policy: str, state: str = SEEN) -> np.ndarray:
    seen = State.parse(state, problem)
    found = make_policy(problem, policy).indices(seen.total, seen)
    assert found is not None
    return found


def test_ucb1_is_hoeffdings_bound_scaled_to_the_outcomes() -> None:
    bonus = np.sqrt(2 * math.log(STAGE) / N)
    expected = FACTOR * (MEANS + np.array([4.0, 2 * 0.7, 1.0]) * bonus)
    np.testing.assert_allclose(index(MIXED, "ucb1"), expected, rtol=1e-12)


def test_moss_knows_the_horizon() -> None:
    bonus = np.sqrt(np.maximum(np.log(30 / (3 * N)), 0.0) / N)
    expected = FACTOR * (MEANS + np.array([4.0, 2 * 0.7, 1.0]) * bonus)
    np.testing.assert_allclose(index(MIXED, "moss"), expected, rtol=1e-12)


def test_kl_ucb_is_the_largest_mean_that_is_not_ruled_out() -> None:
    level = math.log(STAGE + 1)

    def kl(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    scaled = (5 / 4 + 1) / 4
    q = brentq(lambda q: 4 * kl(scaled, q) - level, scaled, 1 - 1e-12)
    found = index(MIXED, "kl-ucb")
    assert found[0] == pytest.approx(0.5 * (4 * q - 1), rel=1e-9)
    assert found[1] == pytest.approx(2.5 + 0.7 * math.sqrt(2 * level / 3), rel=1e-12)
    assert found[2] == pytest.approx(1.0)


def test_kl_ucb_of_counts_uses_poissons_divergence() -> None:
    found = index(COUNTS, "kl-ucb", "12/5,0/3")
    level, mean = math.log(9), 12 / 5
    q = brentq(lambda q: 5 * (q - mean + mean * math.log(mean / q)) - level, mean, 50.0)
    np.testing.assert_allclose(found, [q, level / 3], rtol=1e-9)


def test_ucb_tuned_knows_the_variance_of_the_outcomes() -> None:
    problem = Problem.uniform(
        arms=2, horizon=60, prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[-1, 0, 3])
    )
    found = index(problem, "ucb-tuned", "3+40+1,1+0+0")
    log_t, x = math.log(45), np.array([-1.0] * 3 + [0.0] * 40 + [3.0])
    variance = x.var() / 16 + math.sqrt(2 * log_t / 44)
    assert found[0] == pytest.approx(
        x.mean() + 4 * math.sqrt(log_t / 44 * min(0.25, variance)), rel=1e-12
    )


@pytest.mark.parametrize("policy", ["ucb1", "moss", "kl-ucb"])
def test_arms_never_pulled_come_first(policy: str) -> None:
    chosen = make_policy(MIXED, policy).choose(State.parse("1+1+2,900/3,0/0", MIXED))
    assert chosen == (2,)
    assert simulate(MIXED, [policy], draws=40, rng=1).results[0].value > 0.0


@pytest.mark.parametrize(
    ("problem", "policy"),
    [
        (COUNTS, "ucb1"),
        (COUNTS, "moss"),
        (MIXED, "ucb-tuned"),
        (
            Problem.uniform(
                arms=2,
                horizon=3,
                prior=MarkovArm(
                    first="a", states={"a": MarkovState(mean=1.0, next={"on": (1.0, "a")})}
                ),
            ),
            "kl-ucb",
        ),
        (
            Problem.uniform(
                arms=2, horizon=3, prior=NormalNormal(0, 1), noise_sd=1, reward=Reward(factor=-1)
            ),
            "ucb1",
        ),
        (COUNTS, "ogi"),
    ],
)
def test_what_has_no_bound_is_refused_with_the_reason(problem: Problem, policy: str) -> None:
    with refused("unsupported", "policy"):
        make_policy(problem, policy)
