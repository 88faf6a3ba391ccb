"""Calibrated indices: where the advantage of a pull crosses zero."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from decobandit.arm import Calibration, PricePath, calibration
from decobandit.prices import solve
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, Terminal
from decobandit.support import machine
from helpers.exact_index import exact_indices
from helpers.examples import deployed, heterogeneous, seasonal, tabled
from helpers.oracles import OneArm
from helpers.reference import REFERENCE
from helpers.refusals import refused

PROBLEMS = [heterogeneous(7), seasonal(6), deployed(6), Problem.uniform(arms=2, horizon=8)]


def bisected(problem: Problem, group: int, base: np.ndarray, stage: int, n: int, g: int) -> float:
    """The largest crossing, by plain bisection on the recursion of the oracle."""
    arm = problem.arms[problem.groups[group].members[0]]
    weight = np.ones(problem.stages)
    if problem.terminal is not None:
        weight[-1] = problem.terminal.deploy

    def pull_is_worth_it(c: float) -> bool:
        prices = base + c * weight
        return OneArm(problem, arm, prices).index(stage, n, g) >= prices[stage] - 1e-12

    grid = np.linspace(-3.0, 3.0, 601)
    last = max(i for i, c in enumerate(grid) if pull_is_worth_it(c))
    low, high = grid[last], grid[last + 1]
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if pull_is_worth_it(middle) else (low, middle)
    return float(low)


@pytest.mark.parametrize(
    ("good", "bad", "remaining", "index"), REFERENCE["fh_gittins_index"]["values"]
)
def test_flat_path_gives_the_published_gittins_indices(
    good: float, bad: float, remaining: int, index: float
) -> None:
    arm = Arm(name="a", prior=BetaBernoulli(good=good, bad=bad))
    problem = Problem(arms=(arm,), horizon=remaining)
    found = Calibration(problem, np.zeros(remaining)).index(0, 0, 0, 0)
    assert found == pytest.approx(index, abs=6e-7)  # the reference has six digits


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.n_arms}x{p.horizon}")
@pytest.mark.parametrize("path", [PricePath(), PricePath(theta=0.6), PricePath(kappa=0.2)], ids=str)
def test_index_is_the_crossing_found_by_bisection(problem: Problem, path: PricePath) -> None:
    base = path.prices(problem, solve(problem, tol=1e-3).prices)
    found = Calibration(problem, base)
    rng = np.random.default_rng(3)
    for _ in range(4):
        group = int(rng.integers(len(problem.groups)))
        stage = int(rng.integers(problem.stages))
        n = int(rng.integers(min(stage, problem.horizon) + 1))
        g = int(rng.integers(n + 1))
        expected = bisected(problem, group, base, stage, n, g)
        assert found.index(stage, group, g, n - g) == pytest.approx(expected, abs=1e-8)


def test_with_terminal_tables_each_crossing_is_one() -> None:
    problem = tabled(5)
    found = Calibration(problem, np.zeros(5))
    for stage, n, g in ((0, 0, 0), (2, 1, 1), (3, 3, 1), (4, 2, 0)):
        for group in range(len(problem.groups)):
            arm = problem.arms[problem.groups[group].members[0]]
            _, crossings = found.crossings(stage, group, g, n - g)
            assert crossings
            for c in crossings:
                below, above = (
                    OneArm(problem, arm, np.full(5, x)).index(stage, n, g) - x
                    for x in (c - 1e-6, c + 1e-6)
                )
                assert below > -1e-12  # as good as none
                assert above < -1e-8


@pytest.mark.parametrize("path", [PricePath(), PricePath(kappa=0.2)], ids=str)
def test_exact_tables_hold_the_index_of_every_state(path: PricePath) -> None:
    problem = heterogeneous(9)
    found = Calibration(problem, path.prices(problem, None))
    for stage in range(problem.stages):
        table = found.stage_index(stage)
        for group in range(len(problem.groups)):
            for n in range(stage + 1):
                for g in range(n + 1):
                    index = found.index(stage, group, g, n - g)
                    assert table[group, n * (n + 1) // 2 + g] == pytest.approx(index, abs=1e-9)


def test_tables_by_sweeps_agree_with_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(arms=heterogeneous(24).arms[:2], horizon=24)  # good is better in both
    exact = Calibration(problem, np.zeros(24))
    tables = [exact.stage_index(stage) for stage in range(24)]
    monkeypatch.setattr(calibration, "EXACT_STAGES", 0)
    monkeypatch.setattr(calibration, "FLAT_STAGES", 0)
    swept = Calibration(problem, np.zeros(24))
    for stage in range(24):
        np.testing.assert_allclose(swept.stage_index(stage), tables[stage], atol=3e-4)


def test_index_grows_with_the_horizon_and_with_good_outcomes() -> None:
    problem = Problem.uniform(arms=1, horizon=20)
    found = Calibration(problem, np.zeros(20))
    by_stage = [found.stage_index(stage)[0, 0] for stage in range(20)]
    assert all(early > late for early, late in pairwise(by_stage))
    row = found.stage_index(6)[0, 21:28]
    assert np.all(np.diff(row) > 0)


def test_long_horizons_with_terminal_tables_are_refused() -> None:
    problem = tabled(401)
    with refused("unsupported"):
        Calibration(problem, np.zeros(401)).stage_index(0)


def test_a_path_around_decos_prices_needs_them() -> None:
    with refused("invalid_argument", "theta"):
        PricePath(theta=0.5).prices(Problem.uniform(arms=2, horizon=3), None)


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e9])
def test_index_is_in_the_unit_of_the_rewards(unit: float) -> None:
    def index(reward: float) -> float:
        arm = Arm(name="a", reward=Reward(good=reward, bad=0.0))
        problem = Problem(arms=(arm,), horizon=12)
        return Calibration(problem, np.zeros(12)).index(2, 0, 1, 1)

    assert index(unit) / unit == pytest.approx(index(1.0), rel=1e-9)


@pytest.mark.parametrize("group", [0, 1])
def test_swept_tables_are_shared_and_solved_ones_are_others(
    monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    problem = Problem(arms=heterogeneous(60).arms[:2], horizon=60)
    solved = Calibration(problem, np.zeros(60)).stage_index(4)
    monkeypatch.setattr(calibration, "FLAT_STAGES", 0)
    swept, again = (Calibration(problem, np.zeros(60), sweeps=300) for _ in range(2))
    assert np.array_equal(swept.stage_index(4), again.stage_index(4))
    assert swept._span.tables[group] is again._span.tables[group]
    assert 0.0 < np.abs(swept.stage_index(4)[group] - solved[group]).max() < 1e-2


def test_a_table_that_does_not_fit_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda: 1_000_000)
    problem = Problem.uniform(arms=2, horizon=120)
    with refused("too_large"):
        Calibration(problem, np.zeros(120)).stage_index(0)
    with refused("too_large"):
        solve(Problem.uniform(arms=2, horizon=400))


def test_problems_with_the_same_arms_share_a_table() -> None:
    horizon = 50
    few, many = (
        Calibration(Problem.uniform(arms=arms, horizon=horizon), np.zeros(horizon))
        for arms in (2, 7)
    )
    assert np.array_equal(few.stage_index(4), many.stage_index(4))
    assert few._span.tables[0] is many._span.tables[0]
    other = Calibration(Problem.uniform(arms=2, horizon=horizon), np.full(horizon, 0.1))
    assert other.stage_index(4)[0] == pytest.approx(few.stage_index(4)[0] - 0.1, abs=1e-10)


def one_arm_deployed(horizon: int, reward: float, deploy: float, prior: BetaBernoulli) -> Problem:
    arm = Arm(name="a", prior=prior, reward=Reward(good=reward, bad=0.0))
    return Problem(arms=(arm,), horizon=horizon, terminal=Terminal(deploy=deploy))


@pytest.mark.parametrize(
    ("problem", "kappa"),
    [
        (one_arm_deployed(3, 0.1, 20.0, BetaBernoulli(good=1, bad=1)), 0.0),
        (one_arm_deployed(5, 0.3, 5.0, BetaBernoulli(good=0.6, bad=2.2)), 0.2),
        (one_arm_deployed(4, 0.05, 50.0, BetaBernoulli(good=2.5, bad=0.4)), 0.1),
    ],
)
def test_with_a_deployment_index_and_table_are_the_largest_crossing(
    problem: Problem, kappa: float
) -> None:
    base = PricePath(kappa=kappa).prices(problem, None)
    made = Calibration(problem, base)
    several = 0
    for t in range(problem.horizon):
        for n in range(t + 1):
            for g in range(n + 1):
                single, crossings = made.crossings(t, 0, g, n - g)
                several += not single
                in_table = made.stage_index(t)[0, n * (n + 1) // 2 + g]
                assert in_table == pytest.approx(crossings[-1], abs=1e-9)
                assert in_table > bisected(problem, 0, base, t, n, g) - 1e-7  # on a coarser grid
    assert several > 0


def test_a_crossing_between_two_points_of_the_grid_is_found() -> None:
    # 3/80 and 123/280: the advantage is zero from 27/80 on, and positive just below the last
    problem = one_arm_deployed(3, 0.1, 20.0, BetaBernoulli(good=1, bad=1))
    single, crossings = Calibration(problem, np.zeros(4)).crossings(1, 0, 0, 1)
    assert not single
    assert crossings == pytest.approx([3 / 80, 123 / 280], abs=1e-9)


def states_within(pulls: int) -> list[tuple[int, int]]:
    return [(n, g) for n in range(pulls + 1) for g in range(n + 1)]


@pytest.mark.parametrize("seed", range(6))
def test_index_and_table_are_the_largest_price_at_which_a_pull_is_as_good_as_none(
    seed: int,
) -> None:
    """With deployments, small or changing rewards and price paths, in exact fractions."""
    rng = np.random.default_rng(seed)
    T, deploy = int(rng.integers(2, 6)), float(rng.choice([1, 5, 20, 300]))
    alpha, beta = (Fraction(int(n), 4) for n in rng.integers(1, 12, 2))
    good, bad = [(np.full(T, 0.125), np.zeros(T)), rng.integers(-3, 6, (2, T)) / 4.0][seed % 2]
    base = np.append(rng.integers(0, 4, T), 0.0) / 8.0 * (seed % 3 == 0)
    reward = Reward(good=good.tolist(), bad=bad.tolist())
    arm = Arm(name="a", prior=BetaBernoulli(good=float(alpha), bad=float(beta)), reward=reward)
    problem = Problem(arms=(arm,), horizon=T, terminal=Terminal(deploy=deploy))

    def mean(state: tuple[int, int]) -> Fraction:
        return (alpha + state[0]) / (alpha + beta + sum(state))

    def earned(t: int, state: tuple[int, int]) -> Fraction:
        p = mean(state)
        return Fraction(good[t]) * p + Fraction(bad[t]) * (1 - p) - Fraction(base[t])

    wanted = exact_indices(
        lambda s: [(mean(s), (s[0] + 1, s[1])), (1 - mean(s), (s[0], s[1] + 1))],
        earned,
        T,
        deploy=Fraction(deploy),
        mean=mean,
    )
    found = Calibration(problem, base)
    for t in range(T):
        for i, (n, g) in enumerate(states_within(t)):
            index = float(wanted(t, (g, n - g)))
            assert found.index(t, 0, g, n - g) == pytest.approx(index, abs=1e-9)
            assert found.stage_index(t)[0, i] == pytest.approx(index, abs=1e-9)


def test_longer_tables_hold_largest_crossings_where_indices_do_not_grow() -> None:
    """A deployment, beyond the horizons that are solved state by state: against single states."""
    problem = one_arm_deployed(60, 0.1, 20.0, BetaBernoulli(good=1, bad=1))
    found = Calibration(problem, np.zeros(61))
    for t, n, g in ((0, 0, 0), (12, 5, 1), (30, 9, 8), (58, 40, 3), (59, 2, 1)):
        single = found.index(t, 0, g, n - g)
        assert found.stage_index(t)[0, n * (n + 1) // 2 + g] == pytest.approx(single, abs=1e-3)
