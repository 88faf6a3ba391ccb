"""The price path of the calibrated index is chosen by what it earns."""

from pathlib import Path

import numpy as np
import pytest

from decobandit.arm import Calibration, PricePath
from decobandit.arm.calibration import reward_scale
from decobandit.joint import optimum
from decobandit.paper import table1
from decobandit.paper.experiments import published
from decobandit.policies import (
    DEFAULT_POLICY,
    CalibratedPolicy,
    Context,
    calibrated,
    make_policies,
    make_policy,
)
from decobandit.policies.calibrated import (
    DEFAULT,
    TABLE_STAGES,
    choose_path,
    default_path,
    ticked_path,
)
from decobandit.prices import solve
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Problem,
    RandomHorizon,
    Reward,
    Terminal,
    best_mean_per_pull,
)
from decobandit.studies import csv_text
from decobandit.trials import create_trial, open_trial
from helpers.examples import seasonal
from helpers.values import evaluated


@pytest.mark.parametrize(("arms", "horizon"), [(3, 12), (3, 19), (3, 25), (5, 20), (15, 14)])
def test_calibrated_index_loses_at_most_two_fifths_of_what_fh_gittins_loses(
    arms: int, horizon: int
) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    chosen = choose_path(problem)
    value = evaluated(CalibratedPolicy(problem, chosen.path)).value
    best = optimum(problem).value
    assert chosen.value == value
    assert best - value <= 0.4 * (best - evaluated(make_policy(problem, "fh-gittins")).value)


def test_no_dual_is_solved_for_the_choice_of_a_path() -> None:
    same = [Problem.uniform(arms=3, horizon=horizon) for horizon in (12, 60)]
    for problem in (*same, seasonal(6), DEPLOYED[2]):
        context = Context(problem)
        make_policies(context, [DEFAULT_POLICY])
        assert not context.solved


def changing(seed: int, arms: int, horizon: int) -> Problem:
    """Every stage has a reward of its own, the same for all arms."""
    rng = np.random.default_rng(seed)
    own = Reward(good=rng.uniform(0.2, 2.0, horizon).round(2).tolist(), bad=0.0)
    priors = rng.integers(1, 4, (arms, 2)).tolist()
    made = (
        Arm(name=f"{i}", prior=BetaBernoulli(*prior), reward=own) for i, prior in enumerate(priors)
    )
    return Problem(arms=tuple(made), horizon=horizon)


def test_where_rewards_change_paths_follow_what_the_best_arm_earns() -> None:
    """Six random problems together: less than two fifths of the loss under a flat path."""
    chosen, flat = 0.0, 0.0
    for seed in range(6):
        problem = changing(seed, arms=3, horizon=9)
        best, path = optimum(problem).value, choose_path(problem).path
        chosen += best - evaluated(CalibratedPolicy(problem, path)).value
        flat += best - evaluated(make_policy(problem, "fh-gittins")).value
    assert 0.0 <= chosen <= 0.4 * flat


ENDS = [
    RandomHorizon(law="geometric", mean=20, most=40),
    RandomHorizon(law="uniform", least=4, most=16),
    RandomHorizon(law="poisson", mean=6, most=12),
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("priors", [[(1, 1), (2, 1)], [(1, 1)] * 2])
def test_with_a_random_end_little_is_lost_and_no_state_is_solved_by_itself(
    end: RandomHorizon, priors: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(calibration: object, group: int) -> None:
        raise AssertionError("indices of a stage without ticks take seconds")

    monkeypatch.setattr(Calibration, "_rows", refuse)
    arms = tuple(Arm(name=f"{k}", prior=BetaBernoulli(*prior)) for k, prior in enumerate(priors))
    problem = Problem(arms=arms, horizon=end)
    best = optimum(problem).value
    value = evaluated(make_policy(problem, "deco-calibrated")).value
    assert best * (1 - 1e-5) <= value <= best * (1 + 1e-12)


@pytest.mark.parametrize(
    ("record", "asks"),
    [({"theta": 0.4, "kappa": 0.1}, True), ({"theta": 0.0, "kappa": 0.1, "best": 0.4}, False)],
)
def test_a_recorded_path_is_taken_as_it_is(record: dict[str, float], asks: bool) -> None:
    """Older records may have a multiple of prices, which are then asked for."""
    problem = seasonal(6)
    context = Context(problem, parameters=record)
    (made,) = make_policies(context, [DEFAULT_POLICY])
    assert made.record() == record
    assert context.solved == asks
    assert isinstance(made, CalibratedPolicy)
    followed = context.solution.prices if asks else best_mean_per_pull(problem)
    fading = 0.1 * reward_scale(problem) * np.sqrt(np.arange(6, 0, -1) / 6)
    assert made.calibration.base == pytest.approx(0.4 * followed + fading, abs=1e-12)


def test_flat_path_is_kept_where_nothing_earns_more() -> None:
    problem = Problem.uniform(arms=3, horizon=6)
    assert choose_path(problem).path == PricePath()


def test_longer_problems_are_compared_by_simulation() -> None:
    long = Problem.uniform(arms=2, horizon=calibrated.MOST_STAGES + 12)
    chosen = choose_path(long)
    assert (chosen.method, chosen.value) == ("simulated", None)
    assert chosen.path == ticked_path(*DEFAULT, long.horizon)
    # the exact road, on a problem that it can still take
    value, flat = (
        evaluated(CalibratedPolicy(long, path)).value for path in (chosen.path, PricePath())
    )
    assert value > flat
    assert choose_path(long) == chosen  # the same draws each time
    short = Problem.uniform(arms=2, horizon=8)
    assert choose_path(short, limit_states=10).method == "simulated"


def test_flat_path_is_taken_where_it_earns_more_on_common_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibrated, "DEFAULT", (12.0, 0.2))  # a premium far too large
    assert choose_path(Problem.uniform(arms=5, horizon=60)).path == PricePath()


def test_a_premium_fades_in_proportion_to_the_horizon() -> None:
    long = Problem.uniform(arms=5, horizon=160)
    assert choose_path(long).path == ticked_path(*DEFAULT, 160)
    assert ticked_path(0.8, 0.16, 64) == PricePath(kappa=0.1, tick=0.02)


def test_beyond_tables_the_path_is_flat_where_rewards_stay_the_same() -> None:
    long = Problem.uniform(arms=3, horizon=TABLE_STAGES + 1)
    chosen = choose_path(long)
    assert (chosen.path, chosen.method) == (PricePath(), "default")
    assert choose_path(Problem.uniform(arms=3, horizon=TABLE_STAGES)).path != PricePath()
    assert default_path(seasonal(TABLE_STAGES + 1)).kappa > 0.0  # knots would not serve it


def test_beyond_tables_a_single_decision_and_a_table_are_the_same_number() -> None:
    arms = [
        Arm(name="a", prior=BetaBernoulli(good=1.3, bad=2.0), reward=Reward(good=2.0, bad=-1.0)),
        Arm(name="b", prior=BetaBernoulli(good=1, bad=1), reward=Reward(good=0.0, bad=1.5)),
    ]
    policy = make_policy(Problem(arms=arms, horizon=240), "deco-calibrated")
    for stage in (0, 1, 57, 200, 239):
        table = policy.stage_index(stage)
        for n in {0, stage // 3, stage}:
            good = np.arange(n + 1)
            for arm in (0, 1):
                own = policy.indices_of(stage, arm, np.stack([good, n - good], axis=1))
                row = table[arm, n * (n + 1) // 2 + good]
                assert own == pytest.approx(row, abs=1e-14)
                stats = np.array([[n // 2, n - n // 2]], dtype=float)
                assert policy.index(stage, arm, stats)[0] == own[n // 2]


def test_what_cannot_be_simulated_gets_the_default_path() -> None:
    listed = seasonal(calibrated.SIMULATED_STAGES + 1)
    chosen = choose_path(listed)
    assert chosen.method == "default"
    assert chosen.path == default_path(listed)


def test_table1_row_is_in_order_and_below_the_bound() -> None:
    first = published().table1[0]
    (row,) = table1._rows(first, quick=True)
    assert (first.arms, first.horizon, first.bf, first.deco) == (3, 10, 6.409, 6.411)
    assert row.optimum == pytest.approx(6.409642857142857, abs=1e-12)
    assert row.rolling_deco is not None
    assert max(row.deco, row.rolling_deco) <= row.fh_gittins <= row.deco_calibrated <= row.optimum
    assert row.optimum < row.upper_bound == pytest.approx(6.716877801660787, rel=1e-6)
    text = table1.section([row]).to_markdown("deco reproduce table1")
    assert "6.411" in text
    assert f"{row.deco:.6f}" in text
    assert csv_text(table1.Row, [row]).splitlines()[1].startswith("3,10,6.409,,6.411,6.409642857")


# -- where an arm is deployed -------------------------------------------------------------------


def deployed(
    arms: int, horizon: int, reward: float, deploy: float, prior: BetaBernoulli
) -> Problem:
    own = Reward(good=reward, bad=0.0)
    made = tuple(Arm(name=f"{i}", prior=prior, reward=own) for i in range(arms))
    return Problem(arms=made, horizon=horizon, terminal=Terminal(deploy=deploy))


DEPLOYED = [
    deployed(3, 8, 0.1, 20.0, BetaBernoulli(good=1, bad=1)),
    deployed(2, 6, 0.05, 5.0, BetaBernoulli(good=0.5, bad=2.5)),
    deployed(2, 7, 1.0, 2.0, BetaBernoulli(good=2.0, bad=0.7)),
    deployed(3, 5, 0.3, 50.0, BetaBernoulli(good=1.4, bad=1.1)),
]


@pytest.mark.parametrize("problem", DEPLOYED)
def test_with_a_deployment_the_default_is_not_beaten_by_the_knowledge_gradient(
    problem: Problem,
) -> None:
    value = evaluated(make_policy(problem)).value
    for rival in ("knowledge-gradient", "fh-gittins", "deco-calibrated"):
        assert value >= evaluated(make_policy(problem, rival)).value - 1e-12


def test_a_tuned_path_is_made_again_from_its_record() -> None:
    made = make_policy(DEPLOYED[0], "deco-calibrated")
    again = Context(DEPLOYED[0], parameters=made.record(), fixed_solution=solve(DEPLOYED[0]))
    (same,) = make_policies(again, ["deco-calibrated"])
    assert evaluated(same).value == evaluated(made).value
    assert same.arm_index(0, 0, (0, 0)).path is not None


def test_a_trial_with_a_deployment_replays_what_the_default_decided(tmp_path: Path) -> None:
    trial = create_trial(DEPLOYED[0], name="pilot", db=tmp_path / "trials.db")
    for outcome in (1, 0, 1):
        trial.tell(trial.ask().id, outcome)
    assert trial.replay().ok
    assert open_trial("pilot", db=tmp_path / "trials.db").replay().ok
