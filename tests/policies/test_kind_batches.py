"""Batches of arms of any kind: against good and bad outcomes, prior means, formulas."""

import numpy as np
import pytest
from scipy.stats import norm

from decobandit import (
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    evaluate,
    make_policy,
    recommend,
    simulate,
    solve,
)
from helpers.refusals import refused

SHARED = {"arms": 2, "horizon": 3, "pulls_per_stage": 4, "repeat": True, "unit": 2}
BINARY = Problem.uniform(**SHARED)
CLASSES = Problem.uniform(
    **SHARED, prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 1])
)
NORMAL = Problem.uniform(**SHARED, prior=NormalNormal(0, 1), noise_sd=2, terminal={"deploy": 10})


def test_simulated_batches_of_classes_earn_what_good_and_bad_ones_do_exactly() -> None:
    for name in ("deco", "greedy", "equal"):
        exact = evaluate(BINARY, name).value
        found = simulate(CLASSES, [name], draws=6000, per_draw=2, rng=1).results[0]
        assert found.value == pytest.approx(exact, abs=4.5 * found.value_se)


def test_every_pull_of_a_batch_counts_and_no_policy_beats_the_bound() -> None:
    problem = Problem.uniform(
        arms=3, horizon=2, prior=GammaPoisson(2, 1), pulls_per_stage=6, repeat=True, unit=2
    )
    solution = solve(problem)
    found = simulate(problem, ["equal", "deco"], draws=4000, solution=solution, rng=2).results
    assert found[0].value == pytest.approx(12 * 2.0, abs=4.5 * found[0].value_se)
    assert found[0].value < found[1].value <= solution.upper_bound + 4.5 * found[1].value_se


def test_thompson_sampling_gives_units_as_often_as_arms_are_best() -> None:
    policy, rng = make_policy(NORMAL, "thompson"), np.random.default_rng(3)
    state = State.parse("3/2,0/2", NORMAL)
    drawn = np.array([policy.allocate(state, rng=rng) for _ in range(2000)])
    assert set(drawn.sum(axis=1)) == {4}
    # prior of four pulls' weight: means 3/6 and 0, variances 4/6 each
    chance = norm.cdf(0.5 / np.sqrt(8 / 6))
    assert drawn[:, 0].mean() / 4 == pytest.approx(chance, abs=4.5 * 0.5 / np.sqrt(4000))


def test_recommendations_say_how_many_pulls_each_arm_gets() -> None:
    found = recommend(NORMAL, "3/2,-1/2", "deco")
    assert found.pulls is not None
    assert sum(found.pulls) == 4
    assert [arm.index for arm in found.arms] == [None, None]
    last = recommend(NORMAL, "9/8,-1/4", "deco")
    assert last.deploy
    assert last.pulls == (1, 0)


def test_what_does_not_share_batches_says_what_does() -> None:
    with refused("unsupported", "policy"):
        make_policy(NORMAL, "fh-gittins")
    own = MarkovArm(first="a", states={"a": MarkovState(mean=1.0, next={"on": (1.0, "a")})})
    with refused("unsupported", "policy"):
        make_policy(Problem.uniform(**SHARED, prior=own), "thompson")


def test_the_default_policy_serves_batches_of_every_kind() -> None:
    assert make_policy(NORMAL).name in ("deco", "greedy")
    state = State.parse("4.5/4,1/4", NORMAL)
    assert recommend(NORMAL, state).policy == make_policy(NORMAL).name


def test_units_of_sums_are_pulls_of_sums() -> None:
    """A unit of u measurements is one of mean u m, sd u s, noise sqrt(u) e; of counts one count."""
    shared = {"arms": 2, "horizon": 3, "repeat": True}
    for one, other in (
        (
            {"prior": NormalNormal(1, 0.5), "noise_sd": 2, "terminal": {"deploy": 12}},
            {"prior": NormalNormal(4, 2), "noise_sd": 4, "terminal": {"deploy": 3}},
        ),
        ({"prior": GammaPoisson(2, 1)}, {"prior": GammaPoisson(2, 0.25)}),
    ):
        units = Problem.uniform(**shared, pulls_per_stage=8, unit=4, **one)
        pulls = Problem.uniform(**shared, pulls_per_stage=2, **other)
        found = solve(units)
        # what rounding may take depends on the number of pulls
        assert found.upper_bound == pytest.approx(solve(pulls).upper_bound, rel=1e-11)
        policy = make_policy(units, "deco", solution=found)
        given = policy.allocate(State.parse("5/4,9/4", units))
        again = make_policy(pulls, "deco").allocate(State.parse("5/1,9/1", pulls))
        assert given == tuple(4 * n for n in again)


def test_large_batches_of_measurements_are_solved_in_little_memory() -> None:
    shop = Problem.uniform(
        arms=5,
        horizon=10,
        pulls_per_stage=500,
        unit=100,
        repeat=True,
        prior=NormalNormal(2, 1),
        noise_sd=8,
    )
    found = solve(shop, tol=1e-3)
    # if the means were known: 5000 pulls of the best of five, E max of five normals = 1.163
    assert 5000 * 2.0 < found.upper_bound < 5000 * (2.0 + 1.163)
    assert found.relative_gap < 1e-3


@pytest.mark.parametrize(
    ("prior", "horizon", "units", "unit", "deploy"),
    [
        (GammaPoisson(0.3, 1), 4, 2, 1, 0.0),
        (GammaPoisson(1, 3), 2, 2, 1, 0.0),
        (GammaPoisson(0.3, 0.3), 2, 3, 4, 0.0),
        (GammaPoisson(8, 1), 3, 3, 1, 1.0),
        (NormalNormal(1, 3), 2, 4, 1, 0.0),
    ],
)
def test_the_bound_of_one_arm_is_what_it_earns(
    prior: GammaPoisson | NormalNormal, horizon: int, units: int, unit: int, deploy: float
) -> None:
    # a row that ended too flat beyond its last state had a bound below the truth
    problem = Problem.uniform(
        arms=1,
        horizon=horizon,
        pulls_per_stage=units * unit,
        unit=unit,
        repeat=True,
        prior=prior,
        noise_sd=1.0 if isinstance(prior, NormalNormal) else None,
        terminal=Terminal(deploy=deploy) if deploy else None,
    )
    mean = prior.mean if isinstance(prior, NormalNormal) else prior.shape / prior.rate
    earned = (horizon * units * unit + deploy) * mean
    found = solve(problem)
    assert found.upper_bound >= earned * (1.0 - 1e-12)
    assert found.upper_bound == pytest.approx(earned, rel=1e-3)


@pytest.mark.parametrize("name", ["deco", "thompson", "greedy", "equal"])
def test_one_arm_is_chosen_at_the_deployment_and_none_of_a_batch(name: str) -> None:
    policy = make_policy(NORMAL, name)
    with refused("invalid_argument"):
        policy.choose(State.before(NORMAL), rng=np.random.default_rng(1))
    assert policy.choose(State.parse("9/8,-1/4", NORMAL), rng=np.random.default_rng(1)) == (0,)
