"""Means of classes and how they compare, against beta laws, an integral and draws."""

import numpy as np
import pytest
from scipy import integrate, stats

from decobandit.policies import BetaComparison, MeanComparison, make_policy
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    CategoricalModel,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    Rules,
    State,
    States,
)
from helpers.best_of_betas import best_probabilities

VALUES = (0.0, 1.0, 3.0)
POINTS = np.concatenate([np.linspace(0.0, 1.0, 201), np.geomspace(1e-5, 0.1, 50)])


def three_classes() -> Problem:
    worth = Reward(values=VALUES)
    arms = [Arm(name=name, prior=DirichletCategorical([1, 1, 1]), reward=worth) for name in "abc"]
    return Problem(arms=arms, horizon=60)


@pytest.mark.parametrize(
    "counts", [(1, 1), (0.5, 0.5), (0.25, 900), (3, 5), (1, 200), (500, 300), (3000, 2000)]
)
def test_two_classes_have_a_beta_law(counts: tuple[float, float]) -> None:
    found = CategoricalModel(counts, (1.0, 0.0)).cdf(np.zeros(2), POINTS)
    assert found == pytest.approx(stats.beta.cdf(POINTS, *counts), abs=2e-8)


@pytest.mark.parametrize("counts", [(1, 1), (0.5, 0.5), (3, 5), (1, 200), (500, 300)])
def test_quantiles_of_two_classes_are_those_of_a_beta_law(counts: tuple[float, float]) -> None:
    levels = np.array([0.001, 0.025, 0.5, 0.9, 0.999])
    found = CategoricalModel(counts, (5.0, 2.0)).quantile(np.zeros(2), levels)
    assert found == pytest.approx(2.0 + 3.0 * stats.beta.ppf(levels, *counts), abs=1e-6)


def test_bayes_ucb_bounds_classes_by_what_draws_exceed_as_often_as_said() -> None:
    policy = make_policy(three_classes(), "bayes-ucb")
    state = State.parse("1+1+2,0+1+0,2+0+0", three_classes())
    drawn = np.random.default_rng(1).dirichlet([2.0, 2.0, 3.0], 400_000) @ np.array(VALUES)
    bound = policy.indices(state.total, state)[0]
    assert np.mean(drawn > bound) == pytest.approx(1 / 8, abs=4 * np.sqrt(7 / 64 / 400_000))


@pytest.mark.parametrize("a", [(1, 1, 1), (4, 2.5, 7), (20, 3, 9)])
def test_three_classes_have_the_law_of_a_stick_broken_twice(a: tuple[float, ...]) -> None:
    """The mean is b v_0 + (1 - b) m, b ~ Beta(a_0, a_1 + a_2), m between v_1 and v_2 by a beta."""

    def below(x: float) -> float:
        def part(b: float) -> float:
            m = (x - b * VALUES[0]) / (1.0 - b)
            share = (m - VALUES[1]) / (VALUES[2] - VALUES[1])
            return float(stats.beta.pdf(b, a[0], a[1] + a[2]) * stats.beta.cdf(share, a[2], a[1]))

        kinks = [p for p in (1.0 - x / VALUES[1], 1.0 - x / VALUES[2]) if 0.0 < p < 1.0]
        return float(integrate.quad(part, 0.0, 1.0, points=kinks, limit=200, epsabs=1e-11)[0])

    x = np.array([0.3, 0.8, 1.2, 2.0, 2.5])
    found = CategoricalModel(a, VALUES).cdf(np.zeros(3), x)
    assert found == pytest.approx([below(each) for each in x], abs=1e-8)


@pytest.mark.parametrize("margin", [0.0, 0.1, -0.05])
def test_two_classes_compare_like_good_and_bad_outcomes(margin: float) -> None:
    worth = Reward(values=[0, 1])
    arms = [Arm(name=name, prior=DirichletCategorical([1, 1]), reward=worth) for name in "ab"]
    classes = Problem(arms=[*arms, Arm(name="c", prior=BetaBernoulli(1, 1))], horizon=60)
    binary = Problem.uniform(arms=3, horizon=60)
    good = np.array([[3, 5, 4], [20, 9, 18], [0, 0, 0], [11, 3, 0]])
    pulls = np.array([[10, 20, 9], [20, 10, 20], [0, 0, 0], [15, 9, 2]])
    seen = States.of_counts(binary, pulls, good)
    known = States(classes, seen.stats.copy())
    known.stats[:, :2] = known.stats[:, :2, ::-1]
    one, two = MeanComparison(classes, margin), BetaComparison(binary, margin)
    close = 1e-6 if margin == 0.0 else 1e-4  # a margin leaves a kink between two points
    assert one.best(known) == pytest.approx(two.best(seen), abs=1e-6)
    assert one.better(known, 0) == pytest.approx(two.better(seen, 0), abs=close)
    if margin > 0:
        assert one.alike(known) == pytest.approx(two.alike(seen), abs=close)


def test_three_classes_compare_as_draws_do_and_a_dropped_arm_is_left_out() -> None:
    known = np.random.default_rng(3).integers(0, 9, (3, 6, 3)) * 1.0
    allowed = np.array([[True, True, k % 2 == 0] for k in range(6)])
    problem = three_classes()
    found = MeanComparison(problem).best(States(problem, known.swapaxes(0, 1), allowed=allowed))
    rng, draws = np.random.default_rng(7), 200_000
    for e in range(6):
        means = [rng.dirichlet(1.0 + known[k, e], draws) @ VALUES for k in range(3)]
        seen = np.where(allowed[e][:, None], means, -np.inf).argmax(axis=0)
        shares = np.bincount(seen, minlength=3) / draws
        assert found[e] == pytest.approx(shares, abs=4.5 * np.sqrt(0.25 / draws))


def test_rewards_that_turn_outcomes_round_turn_the_order_round() -> None:
    worth = Reward(values=VALUES, factor=-2.0)
    arms = [Arm(name=name, prior=DirichletCategorical([1, 1, 1]), reward=worth) for name in "ab"]
    problem = Problem(arms=arms, horizon=20)
    known = States(problem, np.array([[[5.0, 2.0, 1.0], [1.0, 2.0, 4.0]]]))
    up = MeanComparison(problem).best(known)
    down = MeanComparison(problem, rewards=True).best(known)
    assert down == pytest.approx(up[:, ::-1], abs=1e-6)


def drawn_means(arm: Arm, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Mean rewards drawn from the prior, from its words alone."""
    prior, reward = arm.prior, arm.reward
    if isinstance(prior, DirichletCategorical):
        assert isinstance(reward, Reward)
        g = rng.standard_gamma(prior.counts, (draws, len(prior.counts)))
        return np.asarray(g @ np.array(reward.values) / g.sum(axis=1))
    if isinstance(prior, BetaBernoulli):
        assert isinstance(reward, Reward)
        spread = float(np.subtract(reward.good, reward.bad))
        return np.asarray(reward.bad + spread * rng.beta(prior.good, prior.bad, draws))
    if isinstance(prior, NormalNormal):
        return rng.normal(prior.mean, prior.sd, draws)
    assert isinstance(prior, GammaPoisson)
    return rng.standard_gamma(prior.shape, draws) / prior.rate


def classes(name: str, counts: list[float], values: list[float]) -> Arm:
    return Arm(name=name, prior=DirichletCategorical(counts), reward=Reward(values=values))


SKEW = {
    "0, 1, 100": [classes("a", [8, 2, 0.4], [0, 1, 100]), classes("b", [9, 2, 0.1], [0, 1, 100])],
    "0, 20, 5000": [
        classes("a", [90, 9, 0.02], [0, 20, 5000]),
        classes("b", [95, 3, 0.02], [0, 20, 5000]),
        classes("c", [0.5, 0.1, 0.001], [0, 20, 5000]),
    ],
    "scales": [
        classes("a", [0.02, 3, 0.3], [0, 0.5, 900]),
        Arm(name="b", prior=BetaBernoulli(0.05, 2), reward=Reward(good=70, bad=0.4)),
        Arm(name="c", prior=NormalNormal(2, 0.01), noise_sd=1),
        Arm(name="d", prior=GammaPoisson(shape=0.03, rate=0.01)),
    ],
    "nearly certain": [
        classes("a", [1e5, 1e5, 30], [0, 1, 40]),
        classes("b", [1e5, 1e5, 31], [0, 1, 40]),
        Arm(name="c", prior=NormalNormal(0.51, 0.002), noise_sd=1),
    ],
}


@pytest.mark.parametrize("name", SKEW)
def test_skew_laws_and_different_scales_compare_as_draws_do(name: str) -> None:
    problem, draws = Problem(arms=SKEW[name], horizon=5), 1_000_000
    rng, close = np.random.default_rng(11), 4.5 * np.sqrt(0.25 / 1_000_000)
    x = np.stack([drawn_means(arm, rng, draws) for arm in problem.arms], axis=1)
    known = States.initial(problem, 1)
    best = np.bincount(x.argmax(axis=1), minlength=x.shape[1]) / draws
    assert MeanComparison(problem, rewards=True).best(known)[0] == pytest.approx(best, abs=close)
    margin = float(np.median(np.ptp(x, axis=1)))
    chances = MeanComparison(problem, margin, rewards=True)
    better = (x > x[:, [0]] + margin).mean(axis=0)
    assert chances.better(known, 0)[0, 1:] == pytest.approx(better[1:], abs=close)
    assert chances.alike(known)[0] == pytest.approx(0.5, abs=close)


def test_any_weights_of_two_classes_compare_as_beta_laws_do() -> None:
    """Weights from 1e-4 to 1e6 and rewards on any scale, by quadrature over log-odds."""
    rng = np.random.default_rng(5)
    for _ in range(15):
        a, b = 10.0 ** rng.uniform(-4, 6, (2, 3))
        top = 10.0 ** rng.uniform(-3, 3, 3)
        arms = [
            classes(str(k), [a[k], b[k]], [top[k], 0.0])
            if k
            else Arm(name="0", prior=BetaBernoulli(a[k], b[k]), reward=Reward(good=top[k], bad=0))
            for k in range(3)
        ]
        problem = Problem(arms=arms, horizon=5)
        found = MeanComparison(problem, rewards=True).best(States.initial(problem, 1))
        assert found[0] == pytest.approx(best_probabilities(a, b, np.zeros(3), top), abs=2e-5)


@pytest.mark.parametrize(("a", "b"), [(1e-6, 1e-6), (1e-4, 2.0), (1e6, 1e-3), (1e6, 3e6)])
def test_the_law_of_two_classes_is_a_beta_law_at_any_weights(a: float, b: float) -> None:
    x = np.concatenate([np.geomspace(1e-280, 0.5, 60), 1.0 - np.geomspace(1e-16, 0.5, 30)])
    found = CategoricalModel((a, b), (1.0, 0.0)).cdf(np.zeros(2), x)
    assert found == pytest.approx(stats.beta.cdf(x, a, b), abs=2e-5)


def test_arms_of_known_reward_share_the_best_and_are_not_better() -> None:
    flat = [Arm(name=n, prior=BetaBernoulli(1, 1), reward=Reward(good=0.5, bad=0.5)) for n in "ab"]
    problem = Problem(arms=[*flat, classes("c", [1, 1], [0, 1])], horizon=5)
    chances = MeanComparison(problem, rewards=True)
    known = States.initial(problem, 1)
    assert chances.best(known)[0] == pytest.approx([0.25, 0.25, 0.5], abs=1e-9)
    assert chances.better(known, 0)[0] == pytest.approx([0.0, 0.0, 0.5], abs=1e-9)


def test_designs_of_good_and_bad_outcomes_serve_small_priors() -> None:
    priors = [(0.01, 0.2), (1e-3, 4.0), (2.0, 3.0)]
    arms = [Arm(name=f"{a:g}", prior=BetaBernoulli(a, b)) for a, b in priors]
    problem = Problem(arms=arms, horizon=9)
    compared = make_policy(problem, "greedy").posteriors_by(Rules())
    pulls, good = np.array([[3, 0, 2], [0, 0, 0]]), np.array([[0, 0, 1], [0, 0, 0]])
    found = compared.best(States.of_counts(problem, pulls, good))
    for row, n, g in zip(found, pulls, good, strict=True):
        a, b = np.array(priors).T + np.stack([g, n - g])
        assert row == pytest.approx(best_probabilities(a, b, np.zeros(3), np.ones(3)), abs=1e-5)
