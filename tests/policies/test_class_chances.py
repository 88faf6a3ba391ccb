"""Means of classes and how they compare, against beta laws, an integral and draws."""

import numpy as np
import pytest
from scipy import integrate, stats

from decobandit.policies import KindChances, PosteriorChances, make_policy
from decobandit.problem import Arm, Beta, Categorical, Classes, Normal, Payoff, Problem, State

VALUES = (0.0, 1.0, 3.0)
POINTS = np.concatenate([np.linspace(0.0, 1.0, 201), np.geomspace(1e-5, 0.1, 50)])


def three_classes() -> Problem:
    worth = Payoff(values=VALUES)
    arms = [Arm(name=name, prior=Categorical([1, 1, 1]), reward=worth) for name in "abc"]
    return Problem(arms=arms, horizon=60)


@pytest.mark.parametrize(
    "counts", [(1, 1), (0.5, 0.5), (0.25, 900), (3, 5), (1, 200), (500, 300), (3000, 2000)]
)
def test_two_classes_have_a_beta_law(counts: tuple[float, float]) -> None:
    found = Classes(counts, (1.0, 0.0)).cdf(np.zeros(2), POINTS)
    assert found == pytest.approx(stats.beta.cdf(POINTS, *counts), abs=2e-8)


@pytest.mark.parametrize("counts", [(1, 1), (0.5, 0.5), (3, 5), (1, 200), (500, 300)])
def test_quantiles_of_two_classes_are_those_of_a_beta_law(counts: tuple[float, float]) -> None:
    levels = np.array([0.001, 0.025, 0.5, 0.9, 0.999])
    found = Classes(counts, (5.0, 2.0)).quantile(np.zeros(2), levels)
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
    found = Classes(a, VALUES).cdf(np.zeros(3), x)
    assert found == pytest.approx([below(each) for each in x], abs=1e-8)


@pytest.mark.parametrize("margin", [0.0, 0.1, -0.05])
def test_two_classes_compare_like_good_and_bad_outcomes(margin: float) -> None:
    worth = Payoff(values=[0, 1])
    arms = [Arm(name=name, prior=Categorical([1, 1]), reward=worth) for name in "ab"]
    classes = Problem(arms=[*arms, Arm(name="c", prior=Beta(1, 1))], horizon=60)
    binary = Problem.uniform(arms=3, horizon=60)
    good = np.array([[3, 5, 4], [20, 9, 18], [0, 0, 0], [11, 3, 0]])
    pulls = np.array([[10, 20, 9], [20, 10, 20], [0, 0, 0], [15, 9, 2]])
    known = [np.stack([pulls[:, k] - good[:, k], good[:, k]], axis=1) * 1.0 for k in (0, 1)]
    known.append(np.stack([good[:, 2], pulls[:, 2] - good[:, 2]], axis=1) * 1.0)
    one, two = KindChances(classes, margin), PosteriorChances(binary, margin)
    close = 1e-6 if margin == 0.0 else 1e-4  # a margin leaves a kink between two points
    assert one.best(known) == pytest.approx(two.best(pulls, good), abs=1e-6)
    assert one.better(known, 0) == pytest.approx(two.better(pulls, good, 0), abs=close)
    if margin > 0:
        assert one.alike(known) == pytest.approx(two.alike(pulls, good), abs=close)


def test_three_classes_compare_as_draws_do_and_a_dropped_arm_is_left_out() -> None:
    known = np.random.default_rng(3).integers(0, 9, (3, 6, 3)) * 1.0
    allowed = np.array([[True, True, k % 2 == 0] for k in range(6)])
    found = KindChances(three_classes()).best(list(known), allowed)
    rng, draws = np.random.default_rng(7), 200_000
    for e in range(6):
        means = [rng.dirichlet(1.0 + known[k, e], draws) @ VALUES for k in range(3)]
        seen = np.where(allowed[e][:, None], means, -np.inf).argmax(axis=0)
        shares = np.bincount(seen, minlength=3) / draws
        assert found[e] == pytest.approx(shares, abs=4.5 * np.sqrt(0.25 / draws))


def test_rewards_that_turn_outcomes_round_turn_the_order_round() -> None:
    worth = Payoff(values=VALUES, factor=-2.0)
    arms = [Arm(name=name, prior=Categorical([1, 1, 1]), reward=worth) for name in "ab"]
    known = [np.array([[5.0, 2.0, 1.0]]), np.array([[1.0, 2.0, 4.0]])]
    up = KindChances(Problem(arms=arms, horizon=20)).best(known)
    down = KindChances(Problem(arms=arms, horizon=20), rewards=True).best(known)
    assert down == pytest.approx(up[:, ::-1], abs=1e-6)


def test_classes_beside_measurements_are_drawn() -> None:
    arms = [*three_classes().arms[:1], Arm(name="n", prior=Normal(1, 1), noise_sd=1)]
    problem = Problem(arms=arms, horizon=20)
    known = [np.zeros((1, 3)), np.zeros((1, 2))]
    drawn = KindChances(problem, draws=200_000).best(known)
    m = np.random.default_rng(1).dirichlet([1, 1, 1], 200_000) @ VALUES
    first = float(stats.norm.cdf(m - 1.0).mean())
    assert drawn[0, 0] == pytest.approx(first, abs=0.005)
