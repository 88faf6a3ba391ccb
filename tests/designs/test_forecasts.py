"""What a plan promises before anyone is enrolled, checked by other roads to the same number."""

import json
from pathlib import Path

import numpy as np
import pytest

from decobandit import Design, optimum
from decobandit.bounds import compare_by_simulation, compare_exactly
from decobandit.designs import forecast, operating_characteristics
from decobandit.designs.forecasts import PATH_STATES
from decobandit.policies import Context, make_policy
from decobandit.problem import Arm, BetaBernoulli, NormalNormal, Problem, Reward, Rules, Scenario
from decobandit.problem.model import Terminal
from decobandit.problem.problem_files import Format, format_problem, parse_problem
from decobandit.trials import create_trial
from helpers.policies import Bench
from helpers.refusals import refused
from helpers.values import evaluated

SMALL = Problem(
    horizon=12, arms=(Arm(name="old", prior=BetaBernoulli(good=3, bad=2)), Arm(name="new"))
)


@pytest.fixture(scope="module")
def small() -> dict[str, object]:
    return {each.policy: each for each in forecast(SMALL).policies}


def test_values_of_a_small_plan_are_those_of_exact_evaluation(small) -> None:
    bench = Bench(SMALL, path_states=PATH_STATES)
    for name in ("deco", "deco-calibrated", "fh-gittins"):
        assert small[name].method == "exact"
        assert small[name].value == pytest.approx(evaluated(bench.policy(name)).value, abs=1e-9)


def test_the_bound_is_above_the_optimum_and_no_policy_passes_it() -> None:
    found = forecast(SMALL)
    best = optimum(SMALL).value
    assert found.upper_bound >= best - 1e-9
    assert found.best_bound.value == pytest.approx(best, rel=1e-12)  # few states: the optimum
    for each in found.policies:
        assert each.value <= best + 4 * each.value_se + 1e-9
        gap = 100 * (best - each.value) / best
        assert each.gap_percent == pytest.approx(gap)


def test_no_dual_is_solved_where_it_takes_long_and_no_policy_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*given: object, **settings: object) -> None:
        raise AssertionError("the dual was solved")

    monkeypatch.setattr("decobandit.policies.base.solve", fail)
    found = forecast(Problem.uniform(arms=2, horizon=1200), ["thompson"], draws=50)
    assert (found.upper_bound, found.best_bound) == (None, None)
    assert found.to_dict()["best_bound_is"] is None
    assert all(each.gap_percent is None for each in found.policies)
    assert any("bound is left out" in note for note in found.notes)


def test_comparisons_plans_and_trials_have_the_same_best_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("decobandit.joint.exact_optimum.MAX_QUICK_STATES", 10.0)  # no optimum:
    monkeypatch.setattr("decobandit.joint.exact_optimum.MAX_START_STATES", 500.0)  # some stages
    context = Context(SMALL)
    trial = create_trial(SMALL, policy="deco", db=tmp_path / "one.db")
    found = [
        compare_exactly(context, ["greedy"]).bound,
        compare_by_simulation(context, ["greedy"], draws=50).bound,
        forecast(SMALL, ["greedy"]).best_bound,
        trial.settings.best_bound,
    ]
    assert found == [found[0]] * 4
    assert found[0].kind == "joint"
    assert optimum(SMALL).value <= found[0].value <= context.solution.upper_bound


def test_equal_allocation_earns_the_mean_of_the_prior_means(small) -> None:
    # six pulls of each arm, whatever is seen: 6 * 3/5 + 6 * 1/2
    assert small["equal"].value == pytest.approx(6.6, abs=4 * small["equal"].value_se + 1e-9)
    assert small["deco"].over_equal == pytest.approx(
        small["deco"].value - 6.6, abs=4 * small["deco"].over_equal_se + 1e-9
    )


def test_equal_allocation_is_always_there_and_last() -> None:
    found = forecast(SMALL, ["equal", "greedy"])
    assert [each.policy for each in found.policies] == ["greedy", "equal"]
    assert found.policies[-1].over_equal == 0.0


def test_simulated_values_agree_with_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {each.policy: each for each in forecast(SMALL, ["deco"]).policies}
    monkeypatch.setattr("decobandit.designs.forecasts.EXACT_STATES", 1)
    for each in forecast(SMALL, ["deco"], draws=400).policies:
        assert each.method == "simulated"
        assert each.value == pytest.approx(exact[each.policy].value, abs=5 * each.value_se)
        known = exact[each.policy].over_equal
        assert each.over_equal == pytest.approx(known, abs=5 * each.over_equal_se + 1e-9)


def test_what_would_take_long_is_left_out_with_a_note() -> None:
    large = Problem.uniform(arms=2, horizon=150)
    found = forecast(large, ["deco", "fh-gittins", "deco-rolling"], draws=50)
    assert [each.policy for each in found.policies] == ["deco", "equal"]
    assert [note.split()[0] for note in found.notes] == ["fh-gittins", "deco-rolling"]


def test_values_under_rules_are_those_of_the_design_averaged_over_the_prior() -> None:
    # exact operating characteristics are polynomials of the two rates: Gauss's rule is exact
    rules = Rules(control="arm-1", burn_in=1, floor=0.2, stop={"superiority": 0.85})
    nodes, weights = np.polynomial.legendre.leggauss(6)
    rates, weights = (nodes + 1.0) / 2.0, weights / 2.0
    scenarios = [
        {"name": f"{i}-{j}", "truth": [float(rates[i]), float(rates[j])]}
        for i in range(6)
        for j in range(6)
    ]
    problem = Problem.uniform(arms=2, horizon=9)
    design = Design(**rules.model_dump(), policies=["greedy", "equal"], scenarios=scenarios)
    result = operating_characteristics(problem, design)
    assert all(row.exact for one in result.scenarios for row in one.policies)
    good = np.array([[row.good for row in one.policies] for one in result.scenarios])
    greedy, equal = np.outer(weights, weights).reshape(-1) @ good
    found = forecast(problem, ["greedy"], rules=design, draws=20_000)
    assert [row.method for row in found.policies] == ["simulated"] * 2
    for row, value in zip(found.policies, (greedy, equal), strict=True):
        assert abs(row.value - value) < 4.0 * row.value_se < 0.1
    assert (
        abs(found.policies[0].over_equal - (greedy - equal)) < 4.0 * found.policies[0].over_equal_se
    )
    assert forecast(problem, ["greedy"]).policies[0].value > greedy + 1.0  # none stops early


def test_an_unknown_policy_is_refused() -> None:
    with refused("invalid_argument", "policy"):
        forecast(SMALL, ["best"])


def test_a_plan_is_plain_values() -> None:
    tree = forecast(SMALL, ["deco"]).to_dict()
    assert json.loads(json.dumps(tree, allow_nan=False)) == tree
    assert [each["policy"] for each in tree["policies"]] == ["deco", "equal"]


TABLE = ((0.0,), (0.0, 1.0), (0.0, 1.0, 2.0), (0.0, 1.0, 2.0, 3.0))
ODD = (
    Arm(name='a "quoted" \\ name', prior=BetaBernoulli(good=0.5, bad=1.25)),
    Arm(name="ü'", reward=Reward(good=(1.0, 2.0, 3.0), bad=-0.5)),
)
PROBLEMS = {
    "deployment": Problem(horizon=3, arms=ODD, terminal=Terminal(deploy=2.5)),
    "tables": Problem(horizon=3, pulls_per_stage=2, arms=(*ODD, Arm(name="<b>", terminal=TABLE))),
    "measurements in windows": Problem(
        horizon=3,
        arms=[
            Arm(name="a", prior=NormalNormal(mean=0.5, sd=1.0), noise_sd=2.0),
            Arm(name="b", prior=NormalNormal(0.0, 1.0), noise_sd=2.0, available=[(1, 3)]),
        ],
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("format", ["toml", "json"])
def test_files_hold_the_same_problem(name: str, format: Format) -> None:
    problem = PROBLEMS[name]
    assert parse_problem(format_problem(problem, format=format), format=format) == problem


def test_what_auto_picks_is_shown_once() -> None:
    picked = make_policy(SMALL).name
    names = ["auto", picked, "greedy"]
    assert [row.policy for row in forecast(SMALL, names).policies] == [picked, "greedy", "equal"]
    for listed, shown in ((names, [picked, "greedy"]), (["auto", "greedy"], [picked, "greedy"])):
        design = Design(policies=tuple(listed), scenarios=(Scenario(name="0", truth=(0.5, 0.5)),))
        rows = operating_characteristics(SMALL, design).scenarios[0].policies
        assert [row.policy for row in rows] == shown
