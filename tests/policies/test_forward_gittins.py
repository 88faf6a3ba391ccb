"""Forward-looking Gittins index: indices against stopping problems, units against all outcomes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from decobandit import (
    Arm,
    BetaBernoulli,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    make_policy,
)
from decobandit.arm.gittins import discounted_table, normal_indices
from decobandit.policies.flgi import DISCOUNT
from decobandit.problem import States
from helpers.refusals import refused


def stopping_index(good: int, bad: int, discount: float) -> float:
    """The charge at which the best stopping rule breaks even: Beta(good, bad), long look-ahead."""
    depth = round(14.0 / (1.0 - discount))

    def gain(charge: float) -> float:
        value = np.zeros(depth + 2)
        for n in range(depth, -1, -1):
            g = np.arange(n + 1)
            p = (good + g) / (good + bad + n)
            later = discount * (p * value[1 : n + 2] + (1.0 - p) * value[: n + 1])
            first = p - charge + later
            value[: n + 1] = np.maximum(first, 0.0)
        return float(first[0])

    return float(brentq(gain, 0.0, 1.0, xtol=1e-9))


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_discounted_indices_solve_the_stopping_problem(discount: float) -> None:
    table = discounted_table(
        alpha=1.0, beta=1.0, reward_good=1.0, reward_bad=0.0, discount=discount, pulls=30
    )
    for n, g in ((0, 0), (1, 0), (1, 1), (6, 2), (30, 19)):
        wanted = stopping_index(1 + g, 1 + n - g, discount)
        assert table[n * (n + 1) // 2 + g] == pytest.approx(wanted, abs=5e-6)


def test_discounted_indices_are_those_of_gittins() -> None:
    # as printed, by discount, pulls and good outcomes: none, 1 of 2, 2 of 4; uniform prior
    published = {
        (0.9, 0, 0): 0.7029,
        (0.9, 2, 1): 0.6346,
        (0.9, 4, 2): 0.6010,
        (0.99, 0, 0): 0.8699,
    }
    for (discount, n, g), wanted in published.items():
        table = discounted_table(
            alpha=1.0, beta=1.0, reward_good=1.0, reward_bad=0.0, discount=discount, pulls=4
        )
        assert table[n * (n + 1) // 2 + g] == pytest.approx(wanted, abs=6e-5)


def test_rewards_shift_scale_and_turn_the_index() -> None:
    prior = {"discount": 0.9, "pulls": 3}
    plain = discounted_table(alpha=2.0, beta=1.0, reward_good=1.0, reward_bad=0.0, **prior)
    turned = discounted_table(alpha=1.0, beta=2.0, reward_good=0.5, reward_bad=2.5, **prior)
    for n in range(4):
        row = slice(n * (n + 1) // 2, (n + 1) * (n + 2) // 2)
        assert turned[row] == pytest.approx(0.5 + 2.0 * plain[row][::-1], abs=1e-12)


def block_chances(index: dict[tuple[int, int], float], pulls: list[int], good: list[int]) -> list:
    """Chances of the arms within a block of 4: all outcomes, ties evenly. Beta(1, 2) priors."""
    total = np.zeros(len(pulls))

    def go(n: tuple[int, ...], g: tuple[int, ...], left: int, weight: float) -> None:
        if left == 0:
            return
        score = [index[own] for own in zip(n, g, strict=True)]
        best = [k for k, x in enumerate(score) if x > max(score) - 1e-12]
        for k in best:
            own = weight / len(best)
            total[k] += own / 4
            p = (1 + g[k]) / (3 + n[k])
            more = (*n[:k], n[k] + 1, *n[k + 1 :])
            go(more, (*g[:k], g[k] + 1, *g[k + 1 :]), left - 1, own * p)
            go(more, g, left - 1, own * (1 - p))

    go(tuple(pulls), tuple(good), 4, 1.0)
    return total.tolist()


@pytest.mark.parametrize(
    ("pulls", "good"), [([0, 0, 0], [0, 0, 0]), ([5, 4, 2], [2, 2, 0]), ([3, 3, 1], [1, 1, 0])]
)
def test_units_are_drawn_as_the_rule_would_take_them(pulls: list[int], good: list[int]) -> None:
    problem = Problem(
        horizon=3,
        pulls_per_stage=4,
        repeat=True,
        arms=[Arm(name=str(k), prior=BetaBernoulli(1, 2)) for k in range(3)],
    )
    table = discounted_table(
        alpha=1.0, beta=2.0, reward_good=1.0, reward_bad=0.0, discount=DISCOUNT, pulls=12
    )
    index = {(n, g): float(table[n * (n + 1) // 2 + g]) for n in range(13) for g in range(n + 1)}
    wanted = np.array(block_chances(index, pulls, good))
    policy, rows = make_policy(problem, "flgi"), 20_000
    states = States.of_counts(problem, [pulls], [good]).rows([0] * rows)
    given = policy.allocate_many(0, states, np.random.default_rng(4))
    assert np.all(given.sum(axis=1) == 4)
    error = np.sqrt(wanted * (1.0 - wanted) / (4 * rows)) + 1e-12
    assert np.all(np.abs(given.mean(axis=0) / 4 - wanted) <= 4.0 * error)


def test_units_of_several_pulls_go_to_one_arm() -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=12, unit=3, repeat=True)
    policy, states = make_policy(problem, "flgi"), States.initial(problem, 500)
    given = policy.allocate_many(0, states, np.random.default_rng(1))
    assert np.all(given % 3 == 0)
    assert np.all(given.sum(axis=1) == 12)


def test_an_arm_that_is_not_allowed_gets_nothing() -> None:
    problem = Problem.uniform(arms=3, horizon=2, pulls_per_stage=6, repeat=True)
    policy, allowed = make_policy(problem, "flgi"), np.tile([True, False, True], (200, 1))
    states = replace(States.initial(problem, 200), allowed=allowed)
    given = policy.allocate_many(0, states, np.random.default_rng(1))
    assert np.all(given[:, 1] == 0)
    assert np.all(given[:, [0, 2]].sum(axis=1) == 6)


def test_what_it_does_not_serve_is_refused() -> None:
    changing = Problem(
        horizon=2,
        pulls_per_stage=3,
        repeat=True,
        arms=[Arm(name="a", reward=Reward(good=(1.0, 2.0))), Arm(name="b")],
    )
    with refused("unsupported", "policy"):
        make_policy(changing, "flgi")
    long = Problem.uniform(arms=2, horizon=100, pulls_per_stage=50, repeat=True)
    with refused("unsupported", "policy"):
        make_policy(long, "flgi")


# -- of normal arms -----------------------------------------------------------------------------


def measured(**settings: Any) -> Problem:
    arms = [
        Arm(name="known", prior=NormalNormal(0.4, 0.5), noise_sd=1.0),
        Arm(name="new", prior=NormalNormal(0.0, 1.0), noise_sd=2.0),
    ]
    return Problem(arms=arms, horizon=3, pulls_per_stage=2, repeat=True, **settings)


def test_units_of_normal_arms_are_drawn_as_the_rule_would_take_them() -> None:
    """The first of two goes to the larger index; the second to it again if its outcome is good."""
    problem = measured()
    ahead = {0: normal_indices(4.0, 6, DISCOUNT), 1: 2.0 * normal_indices(4.0, 6, DISCOUNT)}
    assert 0.0 + ahead[1][0] > 0.4 + ahead[0][0]
    # the mean of "new" after one outcome y: y / 5; y is N(0, sd sqrt(4 + 1)) from what is known
    least = 5.0 * (0.4 + ahead[0][0] - ahead[1][1])
    again = norm.sf(least / np.sqrt(5.0))
    wanted, rows = (1.0 + again) / 2.0, 40_000
    policy, states = make_policy(problem, "flgi"), States.initial(problem, rows)
    given = policy.allocate_many(0, states, np.random.default_rng(5))
    assert np.all(given.sum(axis=1) == 2)
    error = np.sqrt(wanted * (1.0 - wanted) / (2 * rows))
    assert given[:, 1].mean() / 2 == pytest.approx(wanted, abs=4.0 * error)


def test_units_of_normal_arms_obey_what_is_allowed_and_go_to_one_arm() -> None:
    problem = measured(unit=2).model_copy(update={"pulls_per_stage": 6})
    policy, states = make_policy(problem, "flgi"), States.initial(problem, 300)
    some = replace(states, allowed=np.tile([True, False], (300, 1)))
    given = policy.allocate_many(0, some, np.random.default_rng(2))
    assert np.all(given == [6, 0])
    free = policy.allocate_many(0, states, np.random.default_rng(2))
    assert np.all(free % 2 == 0)
    assert np.all(free.sum(axis=1) == 6)


def test_of_other_kinds_only_measurements_that_pay_the_same_are_served() -> None:
    counted = Problem(
        arms=[Arm(name=name, prior=GammaPoisson(2, 2)) for name in "ab"],
        horizon=2,
        pulls_per_stage=3,
        repeat=True,
    )
    with refused("unsupported", "policy"):
        make_policy(counted, "flgi")
    arms = [
        Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1, reward=Reward(factor=(1.0, 2.0)))
        for name in "ab"
    ]
    changing = Problem(arms=arms, horizon=2, pulls_per_stage=3, repeat=True)
    with refused("unsupported", "policy"):
        make_policy(changing, "flgi")
