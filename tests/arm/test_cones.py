"""Terms near the states of a trial: those of the relaxation, in any order, from any thread."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import decobandit.arm.one_arm_values
from decobandit.arm import Cones, OneArmValues
from decobandit.prices import dual_value
from decobandit.problem import Arm, BetaBernoulli, Problem, remaining_problem
from helpers.examples import KINDS, largest_reward, random_prices, random_state
from helpers.oracles import OneArm
from helpers.refusals import refused

Asked = tuple[int, int, int, int]  # stage, group, good, bad
HORIZON = 40


def ten_priors(horizon: int) -> Problem:
    arms = [
        Arm(name=f"{k}", prior=BetaBernoulli(good=1 + 0.3 * k, bad=2.5 - 0.2 * k))
        for k in range(10)
    ]
    return Problem(arms=tuple(arms), horizon=horizon)


PROBLEMS = {"ten priors": ten_priors, **KINDS}


@pytest.fixture(params=["as it is", "tiny cones"])
def cones(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The second: many checkpoints at a horizon that is quickly swept."""
    if request.param == "tiny cones":
        monkeypatch.setattr(decobandit.arm.one_arm_values, "SHORTEST", 2)
    return str(request.param)


def random_asks(problem: Problem, number: int, seed: int) -> list[Asked]:
    """Any state of any group at any stage, the last ones and the outermost included."""
    rng = np.random.default_rng(seed)
    asks = []
    for _ in range(number):
        stage = int(rng.integers(problem.stages))
        pulls = int(rng.choice([0, stage, rng.integers(stage + 1)]))
        good = int(rng.choice([0, pulls, rng.integers(pulls + 1)]))
        asks.append((stage, int(rng.integers(len(problem.groups))), good, pulls - good))
    return asks


def walked_asks(problem: Problem, seed: int) -> list[Asked]:
    """All arms at every stage of an episode, as a trial asks for them."""
    rng = np.random.default_rng(seed)
    arms, groups = problem.n_arms, problem.group_of_arm.tolist()
    good, bad, asks = [0] * arms, [0] * arms, []
    for stage in range(problem.stages):
        asks += [(stage, groups[arm], good[arm], bad[arm]) for arm in range(arms)]
        favourite = 0 if rng.random() < 0.6 else int(rng.integers(arms))
        (good if rng.random() < 0.7 else bad)[favourite] += 1
    return asks


def assert_same(problem: Problem, prices: list[float], asks: list[Asked]) -> None:
    cones, relaxation = Cones(problem, prices), OneArmValues(problem, prices)
    unit = 1e-12 * largest_reward(problem)
    for ask in asks:
        found, expected = cones.terms(*ask[:2], ask[2:]), relaxation.terms(*ask[:2], ask[2:])
        assert found.expected_reward == pytest.approx(expected.expected_reward, abs=unit)
        assert found.value_of_information == pytest.approx(expected.value_of_information, abs=unit)


@pytest.mark.usefixtures("cones")
@pytest.mark.parametrize("kind", PROBLEMS)
def test_terms_are_those_of_the_relaxation_in_any_order(kind: str) -> None:
    problem = PROBLEMS[kind](HORIZON)
    assert_same(problem, random_prices(problem, 1), random_asks(problem, 300, 2))


@pytest.mark.usefixtures("cones")
@pytest.mark.parametrize("kind", PROBLEMS)
def test_terms_are_those_of_the_relaxation_along_an_episode(kind: str) -> None:
    problem = PROBLEMS[kind](HORIZON)
    assert_same(problem, random_prices(problem, 3), walked_asks(problem, 4))


def test_terms_at_long_horizons_are_those_of_the_relaxation() -> None:
    arms = (Arm(name="a", prior=BetaBernoulli(good=0.6, bad=1.7)), Arm(name="b"))
    problem = Problem(arms=arms, horizon=620)
    prices = np.linspace(0.8, 0.7, 620)
    cones, relaxation = Cones(problem, prices), OneArmValues(problem, prices)
    walk = [ask for ask in walked_asks(problem, 5) if ask[0] % 7 == 0]
    for ask in sorted(walk, reverse=True):  # the relaxation sweeps backward
        assert cones.terms(*ask[:2], ask[2:]).index == pytest.approx(
            relaxation.terms(*ask[:2], ask[2:]).index, abs=1e-12
        )


@pytest.mark.usefixtures("cones")
@pytest.mark.parametrize("kind", PROBLEMS)
def test_terms_and_values_are_those_of_the_recursion(kind: str) -> None:
    problem = PROBLEMS[kind](9)
    prices = random_prices(problem, 6)
    cones = Cones(problem, prices)
    unit = 1e-12 * largest_reward(problem) * problem.stages
    for k, group in enumerate(problem.groups):
        arm = OneArm(problem, problem.arms[group.members[0]], prices)
        for stage in (0, 3, 8, 5, problem.stages - 1, problem.stages):
            for n in range(stage + 1):
                for g in range(n + 1):
                    value = cones.value(stage, k, (g, n - g))
                    assert value == pytest.approx(arm.value(stage, n, g), abs=unit)
                    if stage < problem.stages:
                        index = cones.terms(stage, k, (g, n - g)).index
                        assert index == pytest.approx(arm.index(stage, n, g), abs=unit)


@pytest.mark.usefixtures("cones")
@pytest.mark.parametrize("kind", PROBLEMS)
def test_values_and_prices_bound_what_is_left_as_its_own_dual_does(kind: str) -> None:
    problem = PROBLEMS[kind](HORIZON)
    prices = np.array(random_prices(problem, 7))
    cones, rng = Cones(problem, prices), np.random.default_rng(8)
    for stage in (0, 1, 13, 33, HORIZON - 1):
        state = random_state(problem, stage, rng)
        arms = zip(problem.group_of_arm.tolist(), state.good, state.bad, strict=True)
        bound = math.fsum(cones.value(stage, arm[0], arm[1:]) for arm in arms)
        bound += float(problem.pulls[stage:] @ prices[stage:])
        left = remaining_problem(problem, stage, state)
        assert bound == pytest.approx(dual_value(left, prices[stage:]).value, rel=1e-11)


def test_the_last_digit_depends_on_nothing_asked_before(cones: str) -> None:
    problem = ten_priors(HORIZON if cones == "tiny cones" else 130)
    prices = random_prices(problem, 9)
    asks = random_asks(problem, 200, 10)
    there, back = Cones(problem, prices), Cones(problem, prices)
    first = {ask: there.terms(*ask[:2], ask[2:]) for ask in asks}
    assert {ask: back.terms(*ask[:2], ask[2:]) for ask in reversed(asks)} == first
    assert {ask: there.terms(*ask[:2], ask[2:]) for ask in asks} == first


def test_threads_may_share_it() -> None:
    problem = ten_priors(130)
    prices = random_prices(problem, 11)
    asks = random_asks(problem, 400, 12)
    alone, shared = Cones(problem, prices), Cones(problem, prices)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda ask: shared.terms(*ask[:2], ask[2:]), asks))
    assert found == [alone.terms(*ask[:2], ask[2:]) for ask in asks]


def test_an_ask_at_a_late_stage_leaves_the_earlier_ones_alone() -> None:
    problem = Problem.uniform(arms=3, horizon=200)
    cones = Cones(problem, [0.6] * 200)
    assert min(cones._kept[0]) == 200
    cones.terms(150, 0, (20, 10))
    assert min(cones._kept[0]) > 150
    cones.terms(20, 0, (1, 0))
    assert 20 < min(cones._kept[0]) < 60


def test_a_first_ask_that_fails_leaves_nothing_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = (Arm(name="a"), Arm(name="b", prior=BetaBernoulli(good=2, bad=1)))
    cones = Cones(Problem(arms=arms, horizon=9), [0.6] * 9)
    with monkeypatch.context() as patch:
        patch.setattr("decobandit.arm.one_arm_values.sweep_back", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cones.terms(0, 1, (0, 0))
    again = Cones(cones.problem, cones.prices).terms(0, 1, (0, 0))
    assert cones.terms(0, 1, (0, 0)) == again


@pytest.mark.parametrize("good_and_bad", [(-1, 1), (1, -1), (3, 0), (2, 1)])
def test_impossible_states_are_refused(good_and_bad: tuple[int, int]) -> None:
    cones = Cones(Problem.uniform(arms=2, horizon=5), [0.5] * 5)
    for ask in (cones.terms, cones.value):
        with refused("invalid_argument", "stats"):
            ask(2, 0, good_and_bad)


def test_stages_are_those_of_the_problem() -> None:
    cones = Cones(Problem.uniform(arms=2, horizon=5), [0.5] * 5)
    for stage in (-1, 5):
        with refused("invalid_argument", "stage"):
            cones.terms(stage, 0, (0, 0))
    with refused("invalid_argument", "stage"):
        cones.value(6, 0, (0, 0))


@pytest.mark.parametrize("prices", [[], [0.5] * 2, [0.5] * 4, [0.5, math.nan, 0.5]])
def test_prices_are_one_finite_number_per_stage(prices: list[float]) -> None:
    with refused("invalid_argument", "prices"):
        Cones(Problem.uniform(arms=2, horizon=3), prices)


def test_by_hand() -> None:
    """A fresh arm Beta(1, 1), prices (., 3/5, 3/5): index 7/12, value 0 beyond the first price.

    V_1 is 1/6 after a good outcome and 0 else, see test_deco.py; at a first price of 1/2 the fresh
    arm is worth 7/12 - 1/2 = 1/12 more than nothing.
    """
    cones = Cones(Problem.uniform(arms=2, horizon=3), [0.5, 0.6, 0.6])
    terms = cones.terms(0, 0, (0, 0))
    assert terms.expected_reward == pytest.approx(1 / 2, rel=1e-15)
    assert terms.value_of_information == pytest.approx(1 / 12, rel=1e-14)
    assert cones.value(1, 0, (1, 0)) == pytest.approx(1 / 6, rel=1e-14)
    assert cones.value(0, 0, (0, 0)) == pytest.approx(1 / 12, rel=1e-14)
