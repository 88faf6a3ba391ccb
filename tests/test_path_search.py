"""The price path of the calibrated index is chosen by what it earns."""

import numpy as np
import pytest

from decobandit import path_search
from decobandit.calibration import PricePath
from decobandit.dual import solve
from decobandit.evaluation import evaluate
from decobandit.joint_optimum import optimum
from decobandit.paper import published, table1
from decobandit.path_search import DEFAULT_PREMIUM, choose_path, premium_path
from decobandit.policies.calibrated import CalibratedPolicy, fh_gittins
from decobandit.problem import Problem
from examples import seasonal


@pytest.mark.parametrize(("arms", "horizon"), [(3, 20), (5, 20), (15, 20)])
def test_calibrated_index_loses_at_most_three_fifths_of_what_fh_gittins_loses(
    arms: int, horizon: int
) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    prices = solve(problem).prices
    chosen = choose_path(problem, prices)
    value = evaluate(CalibratedPolicy(problem, chosen.path, prices)).value
    best = optimum(problem).value
    assert chosen.value == value
    assert best - value <= 0.6 * (best - evaluate(fh_gittins(problem)).value)


def test_flat_path_is_kept_where_nothing_earns_more() -> None:
    problem = Problem.uniform(arms=3, horizon=6)
    assert choose_path(problem, solve(problem).prices).path == PricePath()


def test_longer_problems_are_compared_by_simulation() -> None:
    long = Problem.uniform(arms=5, horizon=path_search.MOST_STAGES + 12)
    prices = solve(long).prices
    chosen = choose_path(long, prices)
    assert (chosen.method, chosen.value) == ("simulated", None)
    assert not chosen.path.flat
    # the exact road, on a problem that it can still take
    value, flat = (
        evaluate(CalibratedPolicy(long, path, prices, sweeps=512)).value
        for path in (chosen.path, PricePath())
    )
    assert value > flat
    assert choose_path(long, prices) == chosen  # the same draws each time
    short = Problem.uniform(arms=2, horizon=8)
    assert choose_path(short, solve(short).prices, limit_states=10).method == "simulated"


def test_a_premium_fades_in_proportion_to_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_search, "SIMULATED_STAGES", 60)
    monkeypatch.setattr(path_search, "PREMIUMS", (0.0, 0.8))
    long = Problem.uniform(arms=5, horizon=240)
    assert choose_path(long, np.zeros(240)).path == premium_path(0.8, 240)
    assert premium_path(0.8, 64) == PricePath(kappa=0.1)


def test_what_cannot_be_simulated_gets_the_default_path() -> None:
    listed = seasonal(path_search.SIMULATED_STAGES + 1)
    chosen = choose_path(listed, np.zeros(listed.stages))
    assert chosen.method == "default"
    assert chosen.path == premium_path(DEFAULT_PREMIUM, listed.horizon)


def test_table1_row_is_in_order_and_below_the_bound() -> None:
    first = published.table1()[0]
    (row,) = table1.run([first])
    assert (first.arms, first.horizon, first.bf, first.deco) == (3, 10, 6.409, 6.411)
    assert row.optimum == pytest.approx(6.409642857142857, abs=1e-12)
    assert row.rolling_deco is not None
    assert max(row.deco, row.rolling_deco) <= row.fh_gittins <= row.deco_calibrated <= row.optimum
    assert row.optimum < row.upper_bound == pytest.approx(6.716877801660787, rel=1e-6)
    text = table1.to_markdown([row])
    assert "6.411" in text
    assert f"{row.deco:.6f}" in text
    assert table1.to_csv([row]).splitlines()[1].startswith("3,10,6.409,,6.411,6.409642857")
