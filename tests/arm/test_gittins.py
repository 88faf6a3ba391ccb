"""Finite-horizon Gittins indices as roots of a stopping problem, beside a plain recursion."""

from itertools import pairwise

import numpy as np
import pytest

from decobandit.arm import Calibration, KnotCalibration
from decobandit.arm import calibration as flat_tables
from decobandit.arm.calibration import flat_table
from decobandit.arm.kernels.gittins import flat_root, gain, index_by_left
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward
from helpers.examples import seasonal

PRIORS = [(1.0, 1.0), (0.3, 0.2), (0.01, 0.02), (7.5, 0.4), (0.6, 11.0), (40.0, 43.0), (1e3, 2e3)]


def plain_gain(a: float, b: float, left: int, c: float) -> tuple[float, float]:
    """What a pull at price c and the right to go on are worth, and the pulls to be expected."""
    value, pulls = np.zeros(left + 1), np.zeros(left + 1)
    worth, duration = value, pulls
    for k in range(left - 1, -1, -1):
        p = (a + np.arange(k + 1)) / (a + b + k)
        worth = p - c + p * value[1 : k + 2] + (1.0 - p) * value[: k + 1]
        duration = 1.0 + p * pulls[1 : k + 2] + (1.0 - p) * pulls[: k + 1]
        value, pulls = np.maximum(worth, 0.0), np.where(worth > 0.0, duration, 0.0)
    return float(worth[0]), float(duration[0])


def bisected(a: float, b: float, left: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if plain_gain(a, b, left, middle)[0] > 0.0 else (low, middle)
    return low


def positions(stages: int) -> list[tuple[int, int, int]]:
    """(t, n, g) in the order of a whole table."""
    return [(t, n, g) for t in range(stages) for n in range(t + 1) for g in range(n + 1)]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("left", [1, 2, 3, 7, 40, 160])
def test_gain_and_expected_pulls_are_those_of_the_plain_recursion(
    prior: tuple[float, float], left: int
) -> None:
    rng = np.random.default_rng(left)
    W = np.full(2 * left + 2, np.nan)
    mean = prior[0] / sum(prior)
    prices = [*rng.random(12), *(mean + rng.normal(0.0, 0.02, 6)), -0.1, 0.0, 1.0, 1.2]
    for c in prices:
        worth, pulls = gain(*prior, left, c, W)
        expected, duration = plain_gain(*prior, left, c)
        assert worth == pytest.approx(expected, abs=1e-10)
        assert pulls == pytest.approx(duration, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("guess", [0.0, 0.5, 1.0])
def test_newton_ends_on_the_index_from_any_guess(prior: tuple[float, float], guess: float) -> None:
    for left in (1, 2, 9, 60):
        W = np.full(2 * left + 2, np.nan)
        found = flat_root(*prior, left, guess, 1e-13, W)
        assert found == pytest.approx(bisected(*prior, left), abs=1e-11)


@pytest.mark.parametrize("prior", PRIORS)
def test_table_holds_the_bisected_index_of_every_state(prior: tuple[float, float]) -> None:
    table = flat_table(alpha=prior[0], beta=prior[1], reward_good=1.0, reward_bad=0.0, stages=12)
    for (t, n, g), found in zip(positions(12), table, strict=True):
        expected = bisected(prior[0] + g, prior[1] + n - g, 12 - t)
        assert found == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("good", "bad"), [(3.0, 1.0), (-0.5, 2.0), (0.7, 0.7)])
def test_rewards_and_a_base_price_move_and_stretch_the_index(good: float, bad: float) -> None:
    arm = Arm(name="a", prior=BetaBernoulli(good=1.5, bad=0.8), reward=Reward(good=good, bad=bad))
    found = Calibration(Problem(arms=(arm,), horizon=9), np.full(9, 0.25))
    for t, n, g in positions(9):
        a, b = 1.5 + g, 0.8 + n - g
        unit = bisected(a, b, 9 - t) if good >= bad else bisected(b, a, 9 - t)
        expected = min(good, bad) + abs(good - bad) * unit - 0.25
        assert found.stage_index(t)[0, n * (n + 1) // 2 + g] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    "stages", [flat_tables.SINGLE_THREAD_STAGES + 5, flat_tables.ALL_STAGES + 12]
)
def test_longer_tables_hold_the_index_of_single_states(stages: int) -> None:
    arm = Arm(name="a", prior=BetaBernoulli(good=0.7, bad=2.0))
    found = Calibration(Problem(arms=(arm,), horizon=stages), np.zeros(stages))
    rng = np.random.default_rng(5)
    for _ in range(60):
        t = int(rng.integers(stages))
        n = int(rng.integers(t + 1))
        g = int(rng.integers(n + 1))
        index = found.index(t, 0, g, n - g)
        assert found.stage_index(t)[0, n * (n + 1) // 2 + g] == pytest.approx(index, abs=1e-8)


@pytest.mark.parametrize(
    "posterior",
    [(35.0, 33.0), (49.0, 49.0), (96.02, 1.0), (20.5, 77.3), (113.0, 31.0), (150.5, 52.0)],
)
def test_cubics_between_roots_are_right_to_seven_digits(posterior: tuple[float, float]) -> None:
    steps = flat_tables.root_steps(int(sum(posterior) - 2.0))
    assert steps.size
    most = 404
    index, W = np.full(most + 32, np.nan), np.empty(2 * most + 64)
    index_by_left(*posterior, most, steps, flat_tables.LAST_STEP, W, index)
    ends = [int(first) + step for first, gap in steps for step in (-1, 0, 1, int(gap) // 2)]
    for left in (*ends, 299, 402, 404):
        assert plain_gain(*posterior, left, index[left] - 1e-7)[0] > 0.0
        assert plain_gain(*posterior, left, index[left] + 1e-7)[0] < 0.0


def test_roots_that_are_apart_begin_where_others_predict_them() -> None:
    for n in range(500):
        for (first, step), (second, longer) in pairwise(flat_tables.root_steps(n).tolist()):
            assert longer % step == 0
            assert (second - first) % longer == 0
            assert second - first >= 3 * longer


def test_rewards_that_change_take_the_general_road() -> None:
    problem = seasonal(6)
    found = Calibration(problem, np.zeros(problem.stages))
    assert found.stage_index(2)[0, 0] == pytest.approx(found.index(2, 0, 0, 0), abs=1e-9)
    assert found._row_indices


@pytest.mark.parametrize(
    ("arm", "horizon"),
    [
        (Arm(name="a"), 230),
        (Arm(name="a", prior=BetaBernoulli(good=0.5, bad=4.0)), 230),
        (
            Arm(
                name="a", prior=BetaBernoulli(good=30.0, bad=1.2), reward=Reward(good=-1.0, bad=2.0)
            ),
            300,
        ),
    ],
)
def test_indices_between_knots_are_near_roots_of_the_plain_recursion(
    arm: Arm, horizon: int
) -> None:
    """In states of all sizes, the corners of what can be reached included."""
    problem = Problem(arms=(arm,), horizon=horizon)
    knots, rng = KnotCalibration(problem), np.random.default_rng(5)
    alpha, beta = arm.prior.good, arm.prior.bad
    low, high = sorted((arm.reward.good, arm.reward.bad))
    swapped, errors = arm.reward.good < arm.reward.bad, []
    for left in (1, 2, 15, 17, 40, 100, horizon - 120, horizon - 1, horizon):
        most = horizon - left
        sizes = {0, min(1, most), most // 7, most}
        for good, n in {(int(rng.integers(n + 1)), n) for n in sizes} | {(0, most), (most, most)}:
            a, b = alpha + good, beta + n - good
            if swapped:
                a, b = b, a
            index = knots.index(horizon - left, 0, good, n - good)
            at = (index - low) / (high - low)
            # the advantage is convex in the price: two prices around the index bracket it
            error = 1.5e-3
            assert (
                plain_gain(a, b, left, at - error)[0] > 0.0 > plain_gain(a, b, left, at + error)[0]
            )
            worth, pulls = plain_gain(a, b, left, at)
            errors.append(abs(worth) / pulls)
    assert np.median(errors) < 1e-4
    exact = Calibration(problem, np.zeros(horizon)).crossings(0, 0, 0, 0)[1]
    assert knots.crossings(0, 0, 0, 0)[1] == exact
