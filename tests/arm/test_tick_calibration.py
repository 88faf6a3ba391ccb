"""Calibrated indices whose surcharges come in steps."""

import numpy as np
import pytest

from decobandit.arm import PricePath, TickCalibration, calibrated, calibration
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, terminal_table
from helpers.examples import deployed, heterogeneous, seasonal, tabled
from helpers.oracles import OneArm
from helpers.refusals import refused

PROBLEMS = [heterogeneous(6), seasonal(5), deployed(5), tabled(5)]


def interpolated(
    problem: Problem, group: int, base: np.ndarray, tick: float, stage: int, n: int, g: int
) -> float:
    """The largest crossing of the advantage of the oracle's recursion, drawn by chords."""
    arm = problem.arms[problem.groups[group].members[0]]
    weight = np.ones(problem.stages)
    if problem.terminal is not None:
        weight[-1] = problem.terminal.deploy
    best = max(max(np.max(each.reward.good), np.max(each.reward.bad)) for each in problem.arms)
    grid = best + tick * np.arange(-round(8 / tick), round(8 / tick))

    def gain(c: float) -> float:
        prices = base + c * weight
        return OneArm(problem, arm, prices).index(stage, n, g) - prices[stage] - 1e-12

    gains = np.array([gain(c) for c in grid])
    last = int(np.flatnonzero(gains > 0.0)[-1])
    return float(grid[last] + tick * gains[last] / (gains[last] - gains[last + 1]))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.n_arms}x{p.stages}")
def test_index_is_where_the_chords_of_the_oracle_cross_zero(problem: Problem) -> None:
    base = PricePath(kappa=0.2).prices(problem, None)
    found = TickCalibration(problem, base, tick=0.11)
    rng = np.random.default_rng(3)
    for _ in range(4):
        group = int(rng.integers(len(problem.groups)))
        stage = int(rng.integers(problem.horizon))
        n = int(rng.integers(stage + 1))
        g = int(rng.integers(n + 1))
        expected = interpolated(problem, group, base, 0.11, stage, n, g)
        assert found.index(stage, group, g, n - g) == pytest.approx(expected, abs=1e-9)
        _, crossings = found.crossings(stage, group, g, n - g)
        assert crossings[-1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.n_arms}x{p.stages}")
def test_tables_hold_the_index_of_every_state(problem: Problem) -> None:
    found = TickCalibration(problem, PricePath(kappa=0.3).prices(problem, None), tick=0.07)
    for stage in range(problem.horizon):
        table = found.stage_index(stage)
        for group in range(len(problem.groups)):
            for n in range(stage + 1):
                for g in range(n + 1):
                    index = found.index(stage, group, g, n - g)
                    assert table[group, n * (n + 1) // 2 + g] == pytest.approx(index, abs=1e-12)


@pytest.mark.parametrize(
    "prior",
    [BetaBernoulli(good=1, bad=1), BetaBernoulli(good=0.01, bad=0.02), BetaBernoulli(60, 25)],
)
def test_long_tables_hold_it_too(prior: BetaBernoulli) -> None:
    """By chunks of surcharges in threads: no state is left out, none is placed halfway."""
    horizon = 3 * calibration.MIN_THREADED_STAGES // 2
    problem = Problem(arms=(Arm(name="a", prior=prior),), horizon=horizon)
    found = calibrated(problem, PricePath(kappa=0.09, tick=0.02))
    rng = np.random.default_rng(5)
    for _ in range(60):
        stage = int(rng.integers(horizon))
        n = int(rng.integers(stage + 1))
        g = int(rng.integers(n + 1))
        place = n * (n + 1) // 2 + g
        assert found.stage_index(stage)[0, place] == pytest.approx(
            found.index(stage, 0, g, n - g), abs=1e-12
        )


@pytest.mark.parametrize("shift", [-3.0, 1e3])
@pytest.mark.parametrize("unit", [1e-9, 40.0])
def test_index_moves_with_the_rewards(shift: float, unit: float) -> None:
    def index(good: float, bad: float) -> float:
        arm = Arm(name="a", reward=Reward(good=good, bad=bad))
        problem = Problem(arms=(arm,), horizon=12)
        return calibrated(problem, PricePath(kappa=0.1, tick=0.05)).index(2, 0, 1, 1)

    moved = index((1.0 + shift) * unit, shift * unit)
    assert moved / unit - shift == pytest.approx(index(1.0, 0.0), abs=1e-9 + 1e-12 * abs(shift))


def test_long_tables_of_arms_that_do_not_grow_with_good_outcomes_are_refused() -> None:
    problem = Problem(
        arms=(Arm(name="a", reward=Reward(good=0.0, bad=1.0)),),
        horizon=calibration.LONG_STAGES + 1,
    )
    with refused("unsupported"):
        calibrated(problem, PricePath(tick=0.1)).stage_index(0)


def test_tables_of_last_rewards_with_the_same_largest_entry_differ() -> None:
    rising, falling = (
        Problem(arms=(Arm(name="a", terminal=terminal_table(3, value)),), horizon=3)
        for value in (lambda good, bad: good / 3.0, lambda good, bad: bad / 3.0)
    )
    for problem in (rising, falling):
        found = TickCalibration(problem, np.zeros(3), tick=0.07)
        index = found.index(0, 0, 0, 0)
        assert found.stage_index(0)[0, 0] == pytest.approx(index, abs=1e-12)
    assert index != pytest.approx(TickCalibration(rising, np.zeros(3), tick=0.07).index(0, 0, 0, 0))
