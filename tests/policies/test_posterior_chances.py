"""Posterior probabilities on the grid, against scipy's quadrature and distributions."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from decobandit import Arm, BetaBernoulli, Problem, Reward
from decobandit.policies import BetaComparison
from decobandit.policies.comparison import compare_arms
from decobandit.problem import States
from helpers.best_of_betas import best_probabilities

PRIORS = [
    [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)],
    [(12.0, 28.0), (1.0, 1.0), (2.0, 1.0)],
    [(0.5, 0.5), (0.7, 1.3), (2.3, 1.1)],
]


def problem_of(priors: list[tuple[float, float]], horizon: int) -> Problem:
    arms = [Arm(name=f"arm-{i}", prior=BetaBernoulli(*prior)) for i, prior in enumerate(priors)]
    return Problem(horizon=horizon, arms=arms)


def counts(seed: int, horizon: int, arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Joint states, among them the fresh one and such with no bad or no good outcome."""
    rng = np.random.default_rng(seed)
    pulls = rng.multinomial(horizon, np.ones(arms) / arms, size=12)
    good = rng.binomial(pulls, rng.random((12, arms)))
    pulls[0] = good[0] = good[1] = 0
    good[2] = pulls[2]
    return pulls, good


def integral(f, own) -> float:  # type: ignore[no-untyped-def]
    """Over [0, 1], cut at quantiles of `own`."""
    cuts = [0.0, *own.ppf([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6]), 1.0]
    parts = pairwise(cuts)
    return sum(integrate.quad(f, *part, epsabs=1e-12, epsrel=1e-11)[0] for part in parts)


@pytest.mark.parametrize("priors", PRIORS)
@pytest.mark.parametrize("horizon", [30, 600])
def test_chances_of_being_best_are_those_of_an_adaptive_quadrature(
    priors: list[tuple[float, float]], horizon: int
) -> None:
    problem = problem_of(priors, horizon)
    chances = BetaComparison(problem)
    pulls, good = counts(1, horizon, 3)
    found = chances.best(States.of_counts(problem, pulls, good))
    a, b = chances.alpha + good, chances.beta + pulls - good
    for row, x, y in zip(found, a, b, strict=True):
        assert row == pytest.approx(best_probabilities(x, y, np.zeros(3), np.ones(3)), abs=1e-8)


@pytest.mark.parametrize("margin", [0.0, 0.07, -0.1])
@pytest.mark.parametrize("priors", PRIORS[:2])
def test_chances_to_beat_control_by_a_margin(
    priors: list[tuple[float, float]], margin: float
) -> None:
    problem = problem_of(priors, 90)
    chances = BetaComparison(problem, margin)
    pulls, good = counts(2, 90, 3)
    found = chances.better(States.of_counts(problem, pulls, good), 0)
    assert np.all(found[:, 0] == 0.0)
    for row, n, g in zip(found, pulls, good, strict=True):
        control, other = (
            stats.beta(chances.alpha[k] + g[k], chances.beta[k] + n[k] - g[k]) for k in (0, 1)
        )
        # p_a > p_c + margin, seen from the other arm
        by_arm = integral(lambda x: other.pdf(x) * control.cdf(x - margin), other)  # noqa: B023
        assert row[1] == pytest.approx(by_arm, abs=1e-7)


def test_chance_that_arms_are_alike_is_that_of_the_difference() -> None:
    problem = problem_of([(1.0, 1.0), (2.0, 3.0)], 60)
    chances = BetaComparison(problem, 0.1)
    pulls, good = counts(3, 60, 2)
    seen = States.of_counts(problem, pulls, good)
    found = chances.alike(seen)
    beats = chances.better(seen, 0)[:, 1]
    swapped = problem_of([(2.0, 3.0), (1.0, 1.0)], 60)
    turned = States.of_counts(swapped, pulls[:, ::-1], good[:, ::-1])
    beaten = BetaComparison(swapped, 0.1).better(turned, 0)[:, 1]
    assert found == pytest.approx(1.0 - beats - beaten, abs=1e-9)


def test_an_arm_that_is_left_out_is_not_compared() -> None:
    problem = problem_of(PRIORS[0], 60)
    chances = BetaComparison(problem)
    pulls, good = counts(4, 60, 3)
    allowed = np.ones(pulls.shape, bool)
    allowed[:, 2] = False
    seen = States.of_counts(problem, pulls, good)
    found = chances.best(replace(seen, allowed=allowed))
    assert np.all(found[:, 2] == 0.0)
    assert found[:, 1] == pytest.approx(chances.better(seen, 0)[:, 1], abs=1e-9)


def test_what_was_asked_before_is_the_same_when_it_is_asked_again() -> None:
    problem = problem_of(PRIORS[1], 40)
    chances, (pulls, good) = BetaComparison(problem), counts(8, 40, 3)
    allowed = np.ones(pulls.shape, np.bool_)
    first = chances.best(States.of_counts(problem, pulls, good))
    # some again in another order, one with an arm left out, one state that is new
    order = np.array([5, 3, 3, 0, 11])
    allowed[11, 2] = False
    n, g = pulls[order], good[order].copy()
    g[1, 0] = n[1, 0] - g[1, 0]
    later = replace(States.of_counts(problem, n, g), allowed=allowed[order])
    again = chances.best(later)
    assert again[[0, 2, 3]] == pytest.approx(first[[5, 3, 0]], abs=0)
    assert again == pytest.approx(BetaComparison(problem).best(later), abs=1e-12)
    assert again[4, 2] == 0.0


UNEQUAL = [
    ([(1, 0), (0.6, 0.1)], [(1, 1), (2, 3)]),
    ([(1, 0), (0.6, 0.1)], [(0.3, 0.7), (1.2, 0.5)]),
    ([(-1, 0), (-1, -0.5), (0, -1)], [(1, 1), (0.5, 0.5), (2, 3)]),
    ([(1, 0), (0.7, 0.7), (0.6, 0.1), (0.7, 0.7)], [(1, 1)] * 4),
    ([(100, 0), (1, 0), (51, 50)], [(1, 1)] * 3),
]


@pytest.mark.parametrize(("rewards", "priors"), UNEQUAL)
def test_unequal_rewards_are_compared(
    rewards: list[tuple[float, float]], priors: list[tuple[float, float]]
) -> None:
    """P(best) beside another quadrature; a margin seen from either arm; three arms by draws."""
    arms = [
        Arm(name=f"arm-{k}", prior=BetaBernoulli(*prior), reward=Reward(good=good, bad=bad))
        for k, ((good, bad), prior) in enumerate(zip(rewards, priors, strict=True))
    ]
    problem = Problem(arms=arms, horizon=60)
    bad = np.array([float(low) for _, low in rewards])
    slope = np.array([float(high) for high, _ in rewards]) - bad
    rng = np.random.default_rng(1)
    pulls = rng.integers(0, 40, (20, len(arms)))
    good = rng.binomial(pulls, rng.random(pulls.shape))
    margin = 0.2 * float(np.abs(slope).max())
    chances = compare_arms(problem, margin)
    seen = States.of_counts(problem, pulls, good)
    best, alike = chances.best(seen), chances.alike(seen)
    a = np.array([p for p, _ in priors]) + good
    b = np.array([q for _, q in priors]) + pulls - good
    for e in range(20):
        one, two = np.where(slope >= 0, a[e], b[e]), np.where(slope >= 0, b[e], a[e])
        other = best_probabilities(one, two, np.minimum(bad, bad + slope), np.abs(slope))
        assert best[e] == pytest.approx(other, abs=5e-5)
        drawn = bad + slope * rng.beta(a[e], b[e], (40_000, len(arms)))
        near = float((np.ptp(drawn, axis=1) < margin).mean())
        assert alike[e] == pytest.approx(
            near, abs=4.5 * np.sqrt(max(near * (1 - near), 1e-4) / 4e4)
        )
    pair = np.ones(pulls.shape, bool)
    pair[:, 2:] = False
    up, down = (chances.better(seen, k)[:, 1 - k] for k in (0, 1))
    assert chances.alike(replace(seen, allowed=pair)) == pytest.approx(1.0 - up - down, abs=5e-5)
