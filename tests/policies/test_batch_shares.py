"""Shares of a batch and prices taken anew, against integrals, draws and a general optimiser."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import beta, norm

from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal, make_policy, solve
from decobandit.arm import OneArmValues
from decobandit.policies.allocation import distinct_arms, rounded_units
from decobandit.policies.deco import RepricedDecoPolicy
from decobandit.policies.knowledge_gradient import KnowledgeGradientPolicy, RhoPolicy
from decobandit.policies.thompson import ThompsonSharesPolicy, TopTwoPolicy
from decobandit.problem import States
from helpers.refusals import refused

DEPLOYED = Problem(
    horizon=3,
    pulls_per_stage=20,
    unit=4,
    repeat=True,
    terminal=Terminal(deploy=1.0),
    arms=[Arm(name=str(a), prior=BetaBernoulli(a, 5), reward=Reward(good=0.0)) for a in (4, 5, 6)],
)
PULLS, GOOD = np.array([[8, 8, 4], [4, 0, 16]]), np.array([[6, 3, 1], [1, 0, 9]])


def posterior(row: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.array([4.0, 5.0, 6.0]) + GOOD[row]
    return a, 5.0 + PULLS[row] - GOOD[row]


@pytest.mark.parametrize(
    "priors",
    [
        [(0.5, 0.5), (1, 9)],
        [(0.1, 0.1), (0.5, 0.2)],
        [(5000, 5000), (5050, 4950), (1, 1)],
        [(50000, 50000), (50500, 50000), (0.5, 0.5)],
        [(1, 999), (2, 1500), (1, 1)],
    ],
)
def test_chances_are_right_beside_arms_that_are_known_far_better_or_worse(
    priors: list[tuple[float, float]],
) -> None:
    arms = [Arm(name=str(k), prior=BetaBernoulli(*prior)) for k, prior in enumerate(priors)]
    problem = Problem(arms=arms, horizon=2, pulls_per_stage=2, repeat=True)
    none = np.zeros((1, len(arms)), np.int64)
    found = ThompsonSharesPolicy(problem).probabilities(0, States.of_counts(problem, none, none))[0]
    level = (np.arange(100_000) + 0.5) / 100_000  # of the arm itself: no density is needed
    for k, prior in enumerate(priors):
        x = beta.ppf(level, *prior)
        below = [beta.cdf(x, *other) for j, other in enumerate(priors) if j != k]
        assert found[k] == pytest.approx(np.prod(below, axis=0).mean(), abs=3e-4)


def test_unequal_rewards_are_compared_as_rewards() -> None:
    rewards = [Reward(good=1.0), Reward(good=0.2, bad=0.7), Reward(good=0.55, bad=0.55)]
    problem = Problem(
        horizon=2,
        pulls_per_stage=10,
        repeat=True,
        arms=[Arm(name=str(k), reward=reward) for k, reward in enumerate(rewards)],
    )
    pulls, good = np.array([[5, 3, 0]]), np.array([[2, 1, 0]])
    found = ThompsonSharesPolicy(problem).probabilities(0, States.of_counts(problem, pulls, good))[
        0
    ]
    rng = np.random.default_rng(1)
    drawn = np.stack(
        [rng.beta(3, 4, 400_000), 0.7 - 0.5 * rng.beta(2, 3, 400_000), np.full(400_000, 0.55)]
    )
    wanted = np.bincount(drawn.argmax(axis=0), minlength=3) / 400_000
    assert found == pytest.approx(wanted, abs=0.003)


@pytest.mark.parametrize("certain", [1, 2, 3, 5])
def test_arms_certain_of_one_reward_share_the_chance_of_being_best(certain: int) -> None:
    known = [Arm(name=str(k), reward=Reward(good=0.6, bad=0.6)) for k in range(certain)]
    problem = Problem(arms=[Arm(name="uniform"), *known], horizon=2, pulls_per_stage=2, repeat=True)
    none = np.zeros((1, certain + 1), np.int64)
    found = ThompsonSharesPolicy(problem).probabilities(0, States.of_counts(problem, none, none))[0]
    assert found == pytest.approx([0.4] + [0.6 / certain] * certain, abs=1e-6)
    alone = Problem(arms=known, horizon=2, pulls_per_stage=2, repeat=True)
    found = ThompsonSharesPolicy(alone).probabilities(
        0, States.of_counts(alone, none[:, 1:], none[:, 1:])
    )[0]
    assert found == pytest.approx([1.0 / certain] * certain)


def test_top_two_is_drawing_until_another_arm_is_best() -> None:
    (shares,) = TopTwoPolicy(DEPLOYED).probabilities(
        1, States.of_counts(DEPLOYED, PULLS[:1], GOOD[:1])
    )
    rng = np.random.default_rng(2)
    a, b = posterior(0)
    best = rng.beta(a, b, size=(400_000, 3)).argmax(axis=1)
    given = []
    queue = iter(best)
    for first in queue:
        arm = first
        if rng.random() < 0.5:
            arm = next((other for other in queue if other != first), first)
        given.append(arm)
    wanted = np.bincount(given, minlength=3) / len(given)
    assert shares == pytest.approx(wanted, abs=4.5 * 0.5 / np.sqrt(len(given)))


def expected_max(mu: np.ndarray, sd: np.ndarray) -> float:
    low, high = float((mu - 9 * sd).max()), float((mu + 9 * sd).max())
    tail = quad(lambda x: 1 - np.prod(norm.cdf(x, mu, sd)), low, high, limit=200)
    return low + tail[0]


def moved(share: np.ndarray, row: int, pulls: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means, and the standard deviation of their moves."""
    a, b = posterior(row)
    nu = a + b
    variance = a * b / nu**2 / (nu + 1)
    return a / nu, np.sqrt(variance * pulls * share / (pulls * share + nu) + 1e-18)


@pytest.mark.parametrize("row", [0, 1])
def test_rho_maximises_the_expected_largest_mean(row: int) -> None:
    shares = RhoPolicy(DEPLOYED).probabilities(1, States.of_counts(DEPLOYED, PULLS, GOOD))[row]
    assert shares.sum() == pytest.approx(1)

    def worth(share: np.ndarray) -> float:
        return expected_max(*moved(share, row, 40.0))

    start = np.full(3, 1 / 3)
    best = minimize(
        lambda share: -1e3 * worth(np.abs(share) / np.abs(share).sum()), start, method="Nelder-Mead"
    )
    gain = -best.fun / 1e3 - float(moved(start, row, 40.0)[0].max())
    assert worth(shares) > -best.fun / 1e3 - 0.01 * gain


def test_the_knowledge_gradient_weighs_what_the_batch_earns() -> None:
    problem = DEPLOYED.model_copy(
        update={
            "arms": [arm.model_copy(update={"reward": Reward()}) for arm in DEPLOYED.arms],
            "terminal": Terminal(deploy=200.0),
        }
    )
    shares = KnowledgeGradientPolicy(problem).probabilities(
        1, States.of_counts(problem, PULLS, GOOD)
    )[0]

    def worth(share: np.ndarray) -> float:
        mu, sd = moved(share, 0, 20.0)
        return 20 * float(share @ mu) + (20 + 200) * expected_max(mu, sd)

    grid = [
        np.array([x, y, 1 - x - y])
        for x in np.linspace(0, 1, 21)
        for y in np.linspace(0, 1 - x, 21)
    ]
    values = [worth(share) for share in grid]
    spread = max(values) - min(values)
    assert worth(shares) > max(values) - 0.01 * spread
    last = KnowledgeGradientPolicy(problem.model_copy(update={"terminal": None}))
    assert (
        last.probabilities(2, States.of_counts(last.problem, PULLS, GOOD))[0].argmax() == 0
    )  # nothing to learn for: greedy


def test_rounding_gives_whole_units_next_to_the_shares() -> None:
    shares = np.array([[0.33, 0.33, 0.34], [0.05, 0.0, 0.95], [1.0, 0.0, 0.0]])
    given = rounded_units(shares, 10)
    assert given.tolist() == [[3, 3, 4], [1, 0, 9], [10, 0, 0]]


# -- prices taken anew --------------------------------------------------------------------------


def test_the_member_taken_bounds_what_is_left_best() -> None:
    policy = make_policy(DEPLOYED, "deco-repriced")
    assert isinstance(policy, RepricedDecoPolicy)
    assert policy.family[policy.origin] == pytest.approx(solve(DEPLOYED).prices)
    chosen = policy.members(1, *distinct_arms(States.of_counts(DEPLOYED, PULLS, GOOD)))
    left = DEPLOYED.pulls[1:]
    for row in range(2):
        arms = tuple(
            arm.model_copy(update={"prior": BetaBernoulli(*(float(x) for x in own))})
            for arm, own in zip(DEPLOYED.arms, zip(*posterior(row), strict=True), strict=True)
        )
        rest = DEPLOYED.model_copy(update={"arms": arms, "horizon": 2})
        bounds = np.array([OneArmValues(rest, prices[1:]).value() for prices in policy.family])
        assert bounds[chosen[row]] == pytest.approx(bounds.min(), rel=1e-4)
        assert left.size == 3


def test_without_a_deployment_all_prices_are_shifted() -> None:
    problem = Problem.uniform(arms=3, horizon=3, pulls_per_stage=8, unit=2, repeat=True)
    policy = make_policy(problem, "deco-repriced")
    assert isinstance(policy, RepricedDecoPolicy)
    step = policy.family[policy.origin + 1] - policy.family[policy.origin]
    assert step == pytest.approx(np.full(3, step[0]))
    assert step[0] > 0


def test_the_calibrated_index_is_refused_in_batches() -> None:
    with refused("unsupported", "policy"):
        make_policy(DEPLOYED, "deco-calibrated")


@pytest.mark.parametrize("name", ["deco-repriced", "rho", "top-two", "thompson-shares"])
def test_policies_of_batches_refuse_single_pulls(name: str) -> None:
    with refused("unsupported", "policy"):
        make_policy(Problem.uniform(arms=2, horizon=3), name)
