"""Ctrl-C in a solve: heard between the legs of a pass, and answered with bounds that hold."""

import math
import os
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from decobandit import evaluate
from decobandit.bounds import compare_by_simulation
from decobandit.policies import Context
from decobandit.prices import band_market as market_module
from decobandit.prices import solve
from decobandit.prices.band_market import BandMarket, rough_lower, rough_upper
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, arms_of
from decobandit.support import workers
from helpers.examples import KINDS, at_stake, random_prices
from helpers.oracles import dual, occupancy_lp
from helpers.program import deco_at_terminal, json_object
from helpers.values import information_bound


def short_legs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STATES_AT_ONCE", 1)


@pytest.fixture
def strikes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Legs of one stage; SIGINT when as many have begun as the list holds in its first entry."""
    short_legs(monkeypatch)
    left: list[int] = []

    def strike() -> None:
        if left:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(workers, "heed_interrupt", strike)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield left
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ["seasonal", "tabled"])
def test_legs_do_not_change_a_single_digit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = KINDS[name](9)
    whole = solve(problem, tol=1e-6)
    short_legs(monkeypatch)
    cut = solve(problem, tol=1e-6)
    assert (cut.upper_bound, cut.lower_bound) == (whole.upper_bound, whole.lower_bound)
    assert np.array_equal(cut.prices, whole.prices)


@pytest.mark.parametrize("leg", [1, 7, 20, 30, 45, 60, 101, 155])
def test_interrupt_within_a_pass(leg: int, strikes: list[int]) -> None:
    """Whichever pass it strikes, backward or forward: both bounds hold, and say what they are."""
    problem = KINDS["seasonal"](12)
    minimum = occupancy_lp(problem)
    strikes.append(leg)
    solution = solve(problem, tol=0.0)
    assert solution.interrupted
    assert solution.lower_bound <= minimum + 1e-9 * minimum
    assert solution.upper_bound >= minimum - 1e-9 * minimum
    value = dual(problem, solution.prices)
    assert solution.upper_bound == pytest.approx(value, abs=1e-12 * at_stake(problem))


@pytest.mark.parametrize("leg", [1, 5, 10])
def test_interrupt_of_a_long_problem_before_its_first_bounds(
    leg: int, strikes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market_module, "SHORT_STATES", 0)
    problem = KINDS["tabled"](8)
    minimum = occupancy_lp(problem)
    strikes.append(leg)
    solution = solve(problem, tol=1e-9)
    assert solution.interrupted
    assert not solution.converged
    assert solution.lower_bound <= minimum <= solution.upper_bound
    assert dual(problem, solution.prices) <= solution.upper_bound + 1e-12 * at_stake(problem)
    assert solution.oracle_calls <= 3  # no pass after the interrupt


@pytest.mark.parametrize(
    "work",
    [
        lambda problem: evaluate(problem, "deco"),
        information_bound,
        lambda problem: compare_by_simulation(Context(problem), ["equal"], bound=True, draws=2),
    ],
)
def test_whoever_needs_the_prices_is_interrupted_with_the_search(
    work: Callable[[Problem], object], strikes: list[int]
) -> None:
    """The search alone would answer with the prices that it has, 20 legs after its start."""
    problem = KINDS["seasonal"](12)
    strikes.append(20)
    with pytest.raises(KeyboardInterrupt):
        work(problem)


# -- bounds without a pass ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(KINDS))
def test_rough_bounds_hold(name: str) -> None:
    problem = KINDS[name](7)
    minimum, arms = occupancy_lp(problem), arms_of(problem)
    rounding = 1e-11 * at_stake(problem)
    assert rough_lower(arms, problem.pulls) <= minimum + rounding
    rng = np.random.default_rng(7)
    for _ in range(5):
        prices = np.array(random_prices(problem, rng))
        upper = rough_upper(arms, problem.pulls, prices)
        assert dual(problem, prices) <= upper
        assert minimum <= upper


@pytest.mark.parametrize(("good", "bad"), [(1.0, 0.0), (-0.3, 0.9), (0.4, 0.4)])
def test_expected_gain_is_an_integral_over_the_prior(good: float, bad: float) -> None:
    arm = Arm(name="a", prior=BetaBernoulli(2.5, 0.7), reward=Reward(good=good, bad=bad))
    mu = np.array([-0.5, 0.1, 0.4, 0.55, 0.95, 1.3])
    for price in mu:
        arms = arms_of(Problem(arms=(arm,), horizon=1))
        gain = rough_upper(arms, np.zeros(1), np.array([price]))
        kink = (price - bad) / (good - bad) if good != bad else 0.5
        expected, _ = quad(
            lambda p, price=price: max(bad + p * (good - bad) - price, 0.0) * beta.pdf(p, 2.5, 0.7),
            0.0,
            1.0,
            points=[min(max(kink, 0.01), 0.99)],
            epsabs=1e-11,
            limit=200,
        )
        assert gain == pytest.approx(expected, abs=2e-8)  # the density has a pole at 1


def test_rough_lower_bound_by_hand() -> None:
    """Two pulls a stage of one arm of mean 0.8 and three of mean 0.5."""
    arms = [Arm(name="good", prior=BetaBernoulli(4, 1))]
    arms += [Arm(name=f"{k}", prior=BetaBernoulli(1, 1)) for k in range(3)]
    problem = Problem(arms=tuple(arms), horizon=5, pulls_per_stage=2)
    assert rough_lower(arms_of(problem), problem.pulls) == pytest.approx(5 * 1.3, abs=1e-14)


# -- the program --------------------------------------------------------------------------------


def test_ctrl_c_in_a_problem_of_five_thousand_stages() -> None:
    """While coarser problems are solved; a pass over all stages would take seconds."""
    stopped = deco_at_terminal(
        "solve", "--arms", 20, "--horizon", 5000, "--json", interrupt_at="coarse start"
    )
    assert stopped.code == 0
    answer = json_object(stopped.out)
    assert (answer["interrupted"], answer["converged"]) == (True, False)
    # the minimum is between 4838.00 and 4838.49
    assert 2499.999 < answer["lower_bound"] < 4838.49  # at least what is earned without learning
    assert 4838.0 < answer["upper_bound"] < 4900.0
    assert math.isfinite(answer["relative_gap"])
    assert "interrupted" in stopped.err


def test_market_is_short_by_its_states() -> None:
    assert BandMarket(arms_of(Problem.uniform(arms=3, horizon=50)), np.ones(50)).short
