"""The prices that DeCo plays depend on the problem alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    Problem,
    evaluate,
    make_policy,
    solve,
)
from decobandit.policies import DecoPolicy
from decobandit.prices import at_canonical_prices
from decobandit.prices.canonical import WEIGHT, WIDTH, canonical_prices

UNEQUAL = [BetaBernoulli(1, 1), BetaBernoulli(2, 1), BetaBernoulli(1, 3), BetaBernoulli(0.5, 0.7)]
CLASSES = [DirichletCategorical(counts=(1, 1, 1)), DirichletCategorical(counts=(2, 1, 1))]


def _arms(priors: list, **more: object) -> list[Arm]:
    return [Arm(name=f"arm {i}", prior=prior, **more) for i, prior in enumerate(priors)]


PROBLEMS = {
    "(3, 20)": Problem.uniform(arms=3, horizon=20),
    "(5, 20)": Problem.uniform(arms=5, horizon=20),
    "(10, 15)": Problem.uniform(arms=10, horizon=15),
    "unequal": Problem(arms=_arms(UNEQUAL), horizon=12),
    "batches": Problem.uniform(arms=3, horizon=4, pulls_per_stage=3, repeat=True),
    "classes": Problem(arms=_arms(CLASSES, reward={"values": [0, 1, 3]}), horizon=6),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_value_of_deco_does_not_move_with_the_tolerance(name: str) -> None:
    problem, values = PROBLEMS[name], []
    for tol in (1e-3, 1e-4, 1e-6):
        canonical_prices.cache_clear()
        values.append(evaluate(problem, make_policy(problem, "deco", tol=tol)).value)
    assert np.ptp(values) <= 1e-9


def _charged_dual(problem: Problem, prices: np.ndarray, spread: float, means: np.ndarray) -> float:
    """The function that canonical prices minimise, state by state: arms of equal priors."""
    T, d, prior = problem.horizon, WIDTH * spread, problem.arms[0].prior

    @cache
    def value(t: int, good: int, bad: int) -> float:
        if t == T:
            return 0.0
        p = (prior.good + good) / (prior.good + prior.bad + good + bad)
        rest = value(t + 1, good, bad)
        after = p * value(t + 1, good + 1, bad) + (1 - p) * value(t + 1, good, bad + 1)
        z = p + after - rest - prices[t]
        x = min(max(z / d, 0.0), 1.0)
        return rest + x * z - 0.5 * d * x * x

    penalty = 0.5 * WEIGHT / spread * float(((prices - means) ** 2).sum())
    return problem.n_arms * value(0, 0, 0) + float(prices.sum()) + penalty


@pytest.mark.parametrize(("arms", "horizon"), [(2, 7), (3, 6), (6, 5)])
def test_canonical_prices_minimise_the_smoothed_dual(arms: int, horizon: int) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    prices, spread = canonical_prices(problem), np.sqrt(1 / 12)
    assert prices is not None
    best = _charged_dual(problem, prices, spread, np.full(horizon, 0.5))
    rng = np.random.default_rng(1)
    for size in (1e-2, 1e-4, 1e-6):
        for _ in range(20):
            other = prices + size * rng.normal(size=horizon)
            assert _charged_dual(problem, other, spread, np.full(horizon, 0.5)) > best


def test_two_classes_have_the_prices_of_good_and_bad() -> None:
    priors = [BetaBernoulli(2, 1), BetaBernoulli(1, 2), BetaBernoulli(1, 1)]
    classes = [DirichletCategorical(counts=(prior.bad, prior.good)) for prior in priors]
    same = Problem(arms=_arms(classes, reward={"values": [0, 1]}), horizon=9)
    prices = canonical_prices(Problem(arms=_arms(priors), horizon=9))
    assert canonical_prices(same) == pytest.approx(prices, abs=1e-7)


def test_batches_of_one_pull_have_the_prices_of_single_pulls() -> None:
    single, batches = (
        canonical_prices(Problem(arms=_arms(UNEQUAL), horizon=8, repeat=repeat))
        for repeat in (False, True)
    )
    assert batches == pytest.approx(single, abs=1e-7)


@pytest.mark.parametrize("name", PROBLEMS)
def test_canonical_prices_prove_nearly_the_smallest_bound(name: str) -> None:
    solution = solve(PROBLEMS[name], tol=1e-5)
    played = at_canonical_prices(solution)
    assert played.lower_bound == solution.lower_bound
    assert played.relative_gap <= 1e-4


def test_order_and_rewards_of_arms_do_not_matter() -> None:
    base = canonical_prices(Problem(arms=_arms(UNEQUAL), horizon=8))
    assert base is not None
    turned = canonical_prices(Problem(arms=_arms(UNEQUAL[::-1]), horizon=8))
    raised = Problem(arms=_arms(UNEQUAL, reward={"good": 105.0, "bad": 100.0}), horizon=8)
    assert turned == pytest.approx(base, abs=1e-7)
    assert canonical_prices(raised) == pytest.approx(100.0 + 5.0 * base, abs=1e-6)


def test_deco_of_a_solution_plays_canonical_prices() -> None:
    problem = PROBLEMS["(3, 20)"]
    solution = solve(problem, tol=1e-2)
    assert np.array_equal(
        make_policy(solution.problem, "deco", solution=solution).prices, canonical_prices(problem)
    )
    assert np.array_equal(DecoPolicy(problem, solution.prices).prices, solution.prices)


def test_problems_with_many_states_are_played_at_the_prices_of_the_search() -> None:
    solution = solve(Problem.uniform(arms=2, horizon=300), tol=1e-2)
    assert at_canonical_prices(solution) is solution
