"""Standard errors of `simulate` against exact values: z-scores of many problems and seeds."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from benchmarks.error_cases import FAMILIES, Score, exact_value, scores

from decobandit import (
    Arm,
    BetaBernoulli,
    NormalNormal,
    Policy,
    Problem,
    Reward,
    Terminal,
    evaluate,
    gap,
    make_policy,
    simulate,
    solve,
)
from decobandit.simulation.estimators import MIN_DRAWS, term_errors
from helpers.program import deco
from helpers.refusals import refused

MAX_Z = 5.0


def z_scores(found: list[Score]) -> Any:
    return np.array([each.z for each in found])


@cache
def default_scores(family: str) -> list[Score]:
    """At the default size: two policies of three problems, five seeds each."""
    return [each for n in range(3) for each in scores(family, n, range(5), draws=1000, per_draw=10)]


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_differences_are_within_five_errors(family: str) -> None:
    z = z_scores(default_scores(family))
    assert np.abs(z).max() < MAX_Z
    assert np.sqrt(np.mean(z**2)) < 1.25


def test_errors_by_the_spread_are_neither_too_small_nor_too_large() -> None:
    every = [each for family in FAMILIES for each in default_scores(family)]
    z = z_scores([each for each in every if (each.what, each.kind) == ("value", "spread")])
    assert z.size > 150
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.15


@pytest.mark.parametrize(("draws", "per_draw"), [(12, 1), (40, 1), (200, 2)])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_within_five_errors_of_few_draws(family: str, draws: int, per_draw: int) -> None:
    z = z_scores(
        [
            each
            for number in (3, 4)
            for each in scores(family, number, range(12), draws=draws, per_draw=per_draw)
        ]
    )
    assert np.abs(z).max() < MAX_Z


def arm(name: str, good: float, bad: float, reward: tuple[float, float] = (1.0, 0.0)) -> Arm:
    return Arm(
        name=name, prior=BetaBernoulli(good, bad), reward=Reward(good=reward[0], bad=reward[1])
    )


ROUNDING = Problem(
    arms=[
        arm("a", 0.5, 0.5, (1.0, -1.0)),
        arm("b", 3.0, 3.0, (1.2, 0.2)),
        arm("c", 1e-6, 1e-6, (1.2, 0.2)),
    ],
    horizon=4,
)
SAFE = Problem(arms=[arm("safe", 1, 1, (0.7, 0.7)), arm("a", 1, 1), arm("b", 1, 1)], horizon=6)
OPPOSITE = Problem(arms=[arm("a", 0.001, 10.0), arm("b", 10.0, 0.001)], horizon=5)
CONSTANT = Problem(arms=[arm("a", 1, 2, (0.7, 0.7)), arm("b", 3, 1, (0.7, 0.7))], horizon=7)


@pytest.mark.parametrize(
    ("problem", "draws", "per_draw"),
    [(ROUNDING, 4000, 5), (SAFE, 1000, 10), (OPPOSITE, 300, 2), (CONSTANT, 200, 2)],
    ids=["rounding", "safe arm", "opposite priors", "constant rewards"],
)
def test_no_error_is_decided_by_rounding(problem: Problem, draws: int, per_draw: int) -> None:
    solution = solve(problem)
    policies = [make_policy(problem, name, solution=solution) for name in ("deco", "thompson")]
    exact = [exact_value(each) for each in policies]
    off = []
    for seed in range(20):
        found = simulate(
            problem,
            policies,
            draws=draws,
            per_draw=per_draw,
            rng=seed,
            solution=solution,
            workers=1,
        )
        for result, value in zip(found.results, exact, strict=True):
            for each in result.estimates.by_method.values():
                off.append((each.value - value) / each.value_se)
    assert np.abs(off).max() < MAX_Z
    assert np.std(off) < 1.2


def test_values_far_from_zero_are_not_known_better_than_their_digits() -> None:
    # rewards of a million that differ by rounding: an error of zero would be a wrong one
    problem = Problem(
        arms=[arm("a", 1, 1, (1e6 + 0.1, 1e6 + 0.1)), arm("b", 2, 1, (1e6 + 0.1, 1e6 + 0.1))],
        horizon=9,
    )
    exact = evaluate(problem, "greedy").value
    for seed in range(5):
        (found,) = simulate(problem, "greedy", draws=100, rng=seed).results
        assert abs(found.value - exact) < MAX_Z * found.value_se
        assert found.value_se < 1e-6


# -- too few draws ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["ordinary", "extreme priors", "deployments", "normal arms"])
def test_fewer_than_ten_draws_report_a_bound_by_the_range(family: str) -> None:
    rng = np.random.default_rng([list(FAMILIES).index(family), 5])
    problem = FAMILIES[family](rng)
    policy: Policy = make_policy(problem, "greedy")
    exact, off = exact_value(policy), []
    for seed in range(40):
        (found,) = simulate(problem, policy, draws=4, per_draw=1, rng=seed, workers=1).results
        best = found.estimates.best
        assert best.value_se_kind == "range"
        assert found.to_dict()["value_se_kind"] == "range"
        off.append((best.value - exact) / best.value_se)
    assert np.abs(off).max() < MAX_Z
    assert np.std(off) < 1.2


def test_bound_by_the_range_is_half_of_it_over_the_root_of_the_draws() -> None:
    problem = Problem.uniform(arms=3, horizon=400)
    (found,) = simulate(problem, "greedy", draws=4, per_draw=1).results
    assert found.value_se == pytest.approx(400 / (2 * np.sqrt(4)), rel=1e-9)
    assert found.curve is not None
    assert found.curve.regret_se[99] == pytest.approx(100 / (2 * np.sqrt(4)), rel=1e-9)


def test_ten_draws_are_enough_where_they_vary() -> None:
    problem = Problem.uniform(arms=3, horizon=40)
    kinds = {
        simulate(problem, "greedy", draws=4 * MIN_DRAWS, rng=seed)
        .results[0]
        .estimates.best.value_se_kind
        for seed in range(10)
    }
    assert kinds == {"spread"}


def test_program_says_where_there_are_too_few_draws_to_tell() -> None:
    asked = ["simulate", "--arms", "2", "--horizon", "5", "--policy", "greedy", "--draws"]
    assert "too few draws to tell" in deco(*asked, "5").out
    assert "±: one standard error" in deco(*asked, "200").out
    assert deco(*asked, "5", "--json").json["results"][0]["value_se_kind"] == "range"


# -- regret and gap terms by stage --------------------------------------------------------------

BY_STAGE = {
    "ordinary": Problem(arms=[arm("a", 1, 1), arm("b", 2, 3), arm("c", 1, 1)], horizon=6),
    "nearly certain": Problem(arms=[arm("a", 1e-4, 1e-3), arm("b", 8.0, 1e-3)], horizon=5),
    "safe arm": SAFE,
}


@pytest.mark.parametrize("name", BY_STAGE)
def test_regret_and_gap_terms_by_stage_are_within_five_errors(name: str) -> None:
    problem = BY_STAGE[name]
    solution = solve(problem)
    policy = make_policy(problem, "deco", solution=solution)
    exact, terms = evaluate(problem, policy), gap(problem, policy, solution=solution)
    assert terms.method == "exact"
    assert exact.regret is not None
    best = (exact.regret + exact.value) / problem.horizon  # rewards do not change with the stage
    regret = np.cumsum(best - np.array(exact.stage_rewards))
    off = []
    for seed in range(15):
        curve = simulate(problem, policy, rng=seed, solution=solution, workers=1).results[0].curve
        assert curve is not None
        off.append((curve.regret - regret) / curve.regret_se)
        found = gap(problem, policy, solution=solution, method="simulated", rng=seed, workers=1)
        for kind in ("shortfall_by_stage", "congestion_by_stage"):
            error = getattr(found, kind) - getattr(terms, kind)
            off.append(error / np.maximum(getattr(found, f"{kind}_se"), 1e-12))
    assert np.abs(np.concatenate(off)).max() < MAX_Z


def test_terms_that_were_never_drawn_have_an_error() -> None:
    rng = np.random.default_rng(4)
    x = np.where(rng.random((400, 2)) < [0.0, 0.1], 2.0, 0.0)
    errors = term_errors(x.sum(axis=0), (x**2).sum(axis=0), 400)
    assert errors[0] == pytest.approx(3.0 * 2.0 / 400, rel=0.2)
    wanted = x[:, 1].std(ddof=1) / 20.0
    assert wanted < errors[1] < 1.2 * wanted


def test_a_simulated_gap_needs_draws_that_tell_its_error() -> None:
    problem = Problem.uniform(arms=2, horizon=4)
    with refused("invalid_argument", "draws"):
        gap(problem, "greedy", method="simulated", draws=9)


def test_deployments_of_normal_arms_agree_with_quadrature() -> None:
    problem = Problem(
        arms=[
            Arm(name=n, prior=NormalNormal(m, 1.0), noise_sd=2.0)
            for n, m in (("a", 0.0), ("b", 0.3))
        ],
        horizon=1,
        terminal=Terminal(deploy=20.0),
    )
    exact = exact_value(make_policy(problem, "greedy"))
    off = [
        (each.value - exact) / each.value_se
        for seed in range(60)
        for each in simulate(problem, "greedy", draws=200, rng=seed, workers=1).results
    ]
    assert 0.75 < np.std(off) < 1.25
