"""The formula of the index and the rule for ties, each against the words that define it."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from decobandit.arm.kernels.backward import index_terms
from decobandit.problem import TIE_RULES, TIE_SIGNS, TieRule
from decobandit.problem.kernels.layout import expected_reward, worth
from decobandit.problem.kernels.ties import drawn, preferred

WINNER = {
    "first": lambda tied, pulls: tied[0],
    "last": lambda tied, pulls: tied[-1],
    "least-pulled": lambda tied, pulls: min(tied, key=lambda arm: (pulls[arm], arm)),
    "most-pulled": lambda tied, pulls: min(tied, key=lambda arm: (-pulls[arm], arm)),
}


@pytest.mark.parametrize("seed", range(5))
def test_worth_is_reward_and_change_of_value_weighed_by_their_chances(seed: int) -> None:
    # sixteenths have exact sums and products: not one digit may be lost
    p, bad, good, own, after_bad, after_good = (
        Fraction(int(x), 16) for x in np.random.default_rng(seed).integers(0, 17, 6)
    )
    exact = p * (good + after_good) + (1 - p) * (bad + after_bad) - own
    terms = map(float, (p, bad, good - bad, own, after_bad, after_good))
    assert worth(*terms) == float(exact)
    assert expected_reward(*map(float, (p, bad, good))) == float(p * good + (1 - p) * bad)


def test_terms_of_an_index_by_hand() -> None:
    # Beta(1, 1) after one good outcome: p = 2/3; V(1, 1) = 1, V(2, 1) = 2, V(2, 2) = 5
    V = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 5.0])
    ell, delta = index_terms(1.0, 1.0, 3.0, 0.0, 1, 1, V)
    assert ell == pytest.approx(2 / 3 * 3)
    assert delta == pytest.approx(2 / 3 * 5 + 1 / 3 * 2 - 1)


@pytest.mark.parametrize("rule", WINNER)
def test_ties_are_broken_as_the_rules_say(rule: TieRule) -> None:
    for pulls in itertools.product((0, 1, 3), repeat=3):
        for score in itertools.product((0.0, 0.9, 1.0), repeat=3):
            least = max(score) - 0.2
            tied = [arm for arm in range(3) if score[arm] >= least]
            found = preferred(
                np.array(score), np.array([[9, 9, 9], pulls], np.int32), 1, least, *TIE_SIGNS[rule]
            )
            assert found == WINNER[rule](tied, pulls)


def test_random_ties_are_even() -> None:
    assert set(WINNER) == set(TIE_RULES) - {"random"}
    assert TIE_SIGNS["random"] == (0, 0)
    rng, score = np.random.default_rng(4), np.array([1.0, 0.0, 0.95, 1.0])
    counts = np.bincount([drawn(score, 0.9, rng) for _ in range(3000)], minlength=4)
    assert counts[1] == 0
    # 5 standard deviations of a binomial with chance 1/3
    assert np.abs(counts[[0, 2, 3]] - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)
