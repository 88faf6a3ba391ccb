"""Simulated batches: estimates against exact values, common draws, simple regret."""

import numpy as np
import pytest

from decobandit import BetaBernoulli, Problem, Reward, Terminal, gap, make_policy, simulate, solve
from decobandit.figures import batch_figure
from decobandit.figures.result_figures import expected_shares
from helpers.batch_oracles import random_problem
from helpers.batch_values import policy_value, value_at_truth
from helpers.refusals import refused

NAMES = ["deco", "deco-repriced", "greedy", "equal", "ucb1"]
ONLY_DEPLOYED = Problem.uniform(
    arms=2,
    horizon=2,
    pulls_per_stage=4,
    unit=2,
    repeat=True,
    reward=Reward(good=0.0),
    terminal=Terminal(deploy=1.0),
)


def served(problem: Problem) -> list[str]:
    """Bounds on success probabilities need the same rewards everywhere."""
    return [name for name in NAMES if name != "ucb1" or problem is ONLY_DEPLOYED]


@pytest.mark.parametrize("kind", ["plain", "deployment", "tables", "only deployed"])
def test_every_estimate_meets_the_exact_value(kind: str) -> None:
    rng = np.random.default_rng(8)
    problems = (
        [ONLY_DEPLOYED]
        if kind == "only deployed"
        else [random_problem(rng, kind) for _ in range(3)]
    )
    for problem in problems:
        found = simulate(problem, served(problem), draws=2500, per_draw=2, rng=5)
        for result in found.results:
            exact = policy_value(make_policy(problem, result.policy))
            for method, estimate in result.estimates.by_method.items():
                off = abs(estimate.value - exact)
                assert off < 4.5 * estimate.value_se + 1e-9, (result.policy, method)
            assert found.upper_bound is not None
            assert exact <= found.upper_bound + 1e-9


def test_values_at_a_given_truth() -> None:
    truth = (0.7, 0.4)
    for name in ("greedy", "deco"):
        policy = make_policy(ONLY_DEPLOYED, name)
        exact = value_at_truth(policy, truth)
        (result,) = simulate(ONLY_DEPLOYED, policy, draws=4000, truth=truth, per_draw=1).results
        assert result.value == pytest.approx(exact, abs=4.5 * result.value_se)
        assert result.regret == pytest.approx(0.7 - result.value)


def test_regret_is_simple_regret_where_only_the_deployment_pays() -> None:
    found = simulate(ONLY_DEPLOYED, "equal", draws=2000, per_draw=1).results[0]
    assert found.regret == pytest.approx(2 / 3 - found.value)  # the larger of two uniforms
    assert found.curve is not None
    assert np.all(np.abs(found.curve.regret[:2]) < 1e-12)
    assert found.curve.regret[2] == pytest.approx(found.regret, abs=4 * found.curve.regret_se[2])


def test_gap_terms_reduce_the_error() -> None:
    problem = Problem.uniform(
        arms=4,
        horizon=4,
        prior=BetaBernoulli(20, 20),
        pulls_per_stage=20,
        unit=5,
        repeat=True,
        reward=Reward(good=0.0),
        terminal=Terminal(deploy=1.0),
    )
    estimates = simulate(problem, "equal", draws=2000, per_draw=1).results[0].estimates.by_method
    assert estimates["gap"].value_se < 0.6 * estimates["expected"].value_se
    assert estimates["regression"].value_se < 1.02 * estimates["gap"].value_se


@pytest.mark.parametrize("name", ["deco-repriced", "thompson", "top-two", "rho"])
def test_the_same_for_any_number_of_workers(name: str) -> None:
    one, two = (
        simulate(ONLY_DEPLOYED, name, draws=300, per_draw=2, workers=workers).results[0]
        for workers in (1, 2)
    )
    assert one.value == two.value
    assert np.array_equal(one.estimates.contributions, two.estimates.contributions)


def test_more_stages_than_planned() -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    (longer,) = simulate(problem, "deco", draws=500, true_horizon=4).results
    (planned,) = simulate(problem, "deco", draws=500).results
    assert longer.curve is not None
    assert planned.curve is not None
    assert longer.curve.regret.size == 4
    # the same draws, outcomes and policy up to the planned end
    assert longer.curve.regret[1] == pytest.approx(planned.curve.regret[1], abs=1e-12)


def test_an_allotment_that_is_no_batch_is_refused() -> None:
    policy = make_policy(ONLY_DEPLOYED, "equal")
    policy.allocate_many = lambda stage, states, rng: np.full((len(states), 2), 4)  # type: ignore[method-assign]
    with refused("invalid_argument", "policy"):
        simulate(ONLY_DEPLOYED, policy, draws=10)


def test_the_gap_by_stage_adds_up() -> None:
    policy = make_policy(ONLY_DEPLOYED, "greedy")
    found = gap(ONLY_DEPLOYED, policy, method="simulated", draws=4000, per_draw=1)
    assert found.method == "simulated"
    assert found.gap == pytest.approx(found.shortfall + found.congestion)
    exact = found.upper_bound - policy_value(policy)
    assert found.gap == pytest.approx(exact, abs=4.5 * found.value_se)
    assert len(found.shortfall_by_stage) == 3
    known = gap(ONLY_DEPLOYED, policy)
    assert known.method == "exact"
    assert known.gap == pytest.approx(exact, abs=1e-9)
    assert known.shortfall + known.congestion == pytest.approx(exact, abs=1e-9)


def test_shares_of_the_figure_add_up_and_go_to_the_better_arm() -> None:
    policy = make_policy(ONLY_DEPLOYED, "greedy")
    shares = expected_shares(policy, truth=(0.2, 0.9), episodes=300)
    assert shares.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert shares[0].tolist() == [0.5, 0.5]  # nothing is known
    assert shares[1, 0] > 0.6  # the better arm stands first
    figure = batch_figure(solve(ONLY_DEPLOYED), policy)
    assert [axes.get_ylabel() for axes in figure.axes] == ["share of the batch", "price of a pull"]
