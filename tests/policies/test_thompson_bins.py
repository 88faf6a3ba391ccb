"""Thompson sampling by bins: the law of the pulled arm, and of draws within a bin."""

import numpy as np
import pytest
from scipy.special import betainc, betaln, expit, log_expit
from scipy.stats import beta, kstest

from decobandit import Arm, BetaBernoulli, Problem, Reward
from decobandit.policies import ThompsonPolicy
from decobandit.policies.kernels.thompson import draw_within, move, play_bins, recall
from decobandit.policies.thompson import Bins, bins
from decobandit.simulation import World

DRAWS = 1_000_000


def made(alpha: np.ndarray, beta_: np.ndarray) -> Bins:
    found = bins(alpha, beta_)
    assert found is not None
    return found


def chances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(arm k has the largest draw), the integral of f_k prod F_other over the log-odds y."""
    y, step = np.linspace(-400.0, 400.0, 400_001, retstep=True)
    below = np.where(
        y < 0.0,
        betainc(a[:, None], b[:, None], expit(y)),
        1.0 - betainc(b[:, None], a[:, None], expit(-y)),
    )
    density = np.exp(np.outer(a, log_expit(y)) + np.outer(b, log_expit(-y)) - betaln(a, b)[:, None])
    others = np.array([np.delete(below, k, axis=0).prod(axis=0) for k in range(a.size)])
    return np.asarray((density * others).sum(axis=1) * step)


def first_pulls(
    alpha: np.ndarray, beta_: np.ndarray, good: np.ndarray, bad: np.ndarray, seed: int
) -> np.ndarray:
    """How often each arm is pulled next, from given outcomes, over DRAWS episodes of one stage."""
    K = alpha.size
    cut, x, below, w = made(alpha, beta_)
    for k in range(K):  # once, instead of in every episode
        recall(below, w, x, k, alpha[k], beta_[k], good[k] + bad[k], good[k])
    world = World(Problem.uniform(arms=K, horizon=1), draws=1, per_draw=DRAWS, seed=seed)
    episodes = world.chunk(0).episodes(1, 1)
    rng = np.random.default_rng(seed)
    play_bins(episodes, alpha + good, beta_ + bad, cut, x, below, w, rng)
    return np.bincount(episodes.actions[:, 0, 0] >> 1, minlength=K)


# prior of every arm, then its outcomes
POSTERIORS = {
    "two arms, one known": ([1, 1], [1, 1], [0, 49], [0, 2]),
    "priors that say much": ([1, 50], [1, 3], [0, 0], [0, 0]),
    "not integers": ([2.3, 0.7, 1.9], [1.4, 2.6, 3.1], [3, 0, 10], [2, 1, 4]),
    "below one": ([0.5, 0.1, 0.3, 0.9], [0.5, 0.2, 0.3, 0.4], [0, 0, 1, 0], [0, 0, 0, 1]),
    "fresh": ([1] * 5, [1] * 5, [0] * 5, [0] * 5),
    "close": ([1] * 3, [1] * 3, [180, 175, 20], [20, 22, 3]),
    "all in an outer bin": ([1] * 4, [1] * 4, [3, 2, 3, 4], [90, 60, 70, 110]),
}


@pytest.mark.parametrize("case", POSTERIORS)
def test_bins_pull_arms_by_their_chances(case: str) -> None:
    alpha, beta_, good, bad = map(np.array, POSTERIORS[case])
    alpha, beta_ = alpha.astype(np.float64), beta_.astype(np.float64)
    expected = chances(alpha + good, beta_ + bad)
    assert expected.sum() == pytest.approx(1, abs=1e-9)
    counts = first_pulls(alpha, beta_, good, bad, seed=5)
    errors = np.sqrt(expected * (1 - expected) / DRAWS)
    assert np.all(np.abs(counts / DRAWS - expected) < 4 * errors)


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (0.3, 0.2), (0.5, 4.0), (3.0, 40.0), (400.0, 100.0), (9.5, 1.0)]
)
def test_draws_within_a_cell_have_the_conditional_law(a: float, b: float) -> None:
    rng = np.random.default_rng(3)
    priors = np.ones(3)
    cut, x, _, _ = made(priors, priors)
    edges = beta.cdf(x[1], a, b)
    for j in range(cut.size - 1):
        chance = edges[j + 1] - edges[j]
        if chance < 1e-9:  # scipy's own differences are no reference
            continue
        found = np.array([draw_within(a, b, cut, x, j, chance, rng) for _ in range(2_000)])
        assert cut[j] <= found.min()
        assert found.max() <= cut[j + 1]
        levels = (beta.cdf(1 / (1 + np.exp(-found)), a, b) - edges[j]) / chance
        assert kstest(levels, "uniform").pvalue > 1e-5


@pytest.mark.parametrize(("a", "b"), [(1.0, 1e-4), (1e-5, 1.0), (1e-3, 1.0), (1e-5, 1e-5)])
def test_draws_within_outer_bins_end_where_a_prior_is_all_at_one_end(a: float, b: float) -> None:
    rng = np.random.default_rng(4)
    cut, x, below, _ = made(np.array([a, a]), np.array([b, b]))
    for j, chance in enumerate(np.diff(below[0])):
        if chance > 1e-9:
            found = [draw_within(a, b, cut, x, j, chance, rng) for _ in range(200)]
            assert cut[j] <= min(found)
            assert max(found) <= cut[j + 1]


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.3, 2.5), (12.0, 7.0)])
@pytest.mark.parametrize("truth", [0.05, 0.5, 0.9])
def test_the_law_of_a_draw_is_moved_as_the_posterior(
    prior: tuple[float, float], truth: float
) -> None:
    a, b = prior
    _, x, below, w = made(np.array([a]), np.array([b]))
    for outcome in (np.random.default_rng(6).random(700) < truth).astype(int):
        move(below, w, x, 0, a, b, outcome)
        a, b = a + outcome, b + 1 - outcome
    assert below[0] == pytest.approx(betainc(a, b, x[1]), abs=1e-11)


def test_a_prior_that_is_too_sure_of_itself_has_no_bins() -> None:
    arms = (
        Arm(name="sure", prior=BetaBernoulli(good=1000, bad=10)),
        Arm(name="unknown", prior=BetaBernoulli(good=1, bad=1)),
    )
    policy = ThompsonPolicy(Problem(arms=arms, horizon=2000))
    assert policy.bins is None
    world = World(policy.problem, draws=1, per_draw=10, seed=2, truth=(0.0, 0.4))
    episodes = world.chunk(0).episodes(2000, 1)
    policy.play(episodes, 0, 2000, np.random.default_rng(2))
    assert np.all(episodes.pulls.sum(axis=1) == 2000)


def test_an_episode_played_on_decides_as_one_that_is_taken_up_again() -> None:
    problem = Problem.uniform(arms=3, horizon=501)
    policy = ThompsonPolicy(problem)
    world = World(problem, draws=1, per_draw=40_000, seed=2, truth=(0.55, 0.5, 0.45))
    episodes = world.chunk(0).episodes(501, 1)
    policy.play(episodes, 0, 501, np.random.default_rng(2))
    before = episodes.actions[:, :500, 0]
    last = episodes.actions[:, 500, 0] >> 1
    again = world.chunk(0).episodes(1, 1)
    for k in range(3):
        again.good[:, k] = (before == 2 * k + 1).sum(axis=1)
        again.pulls[:, k] = (before >> 1 == k).sum(axis=1)
    assert policy.bins is not None
    fresh = np.ones(3)
    play_bins(again, fresh, fresh, *policy.bins, np.random.default_rng(9))
    second = again.actions[:, 0, 0] >> 1
    for k in range(3):
        difference = (last == k).astype(float) - (second == k)
        assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(difference.size)


def test_other_problems_have_no_bins() -> None:
    up, down = Reward(good=1.0, bad=0.0), Reward(good=0.0, bad=1.0)
    seasonal = Reward(good=(1.0, 2.0), bad=0.0)
    assert ThompsonPolicy(Problem.uniform(arms=3, horizon=2)).bins is not None
    for rewards in ((up, Reward(good=2.0, bad=0.0)), (down, down), (seasonal, seasonal)):
        arms = tuple(Arm(name=f"{k}", reward=reward) for k, reward in enumerate(rewards))
        assert ThompsonPolicy(Problem(arms=arms, horizon=2)).bins is None
    assert ThompsonPolicy(Problem.uniform(arms=3, horizon=2, pulls_per_stage=2)).bins is None
