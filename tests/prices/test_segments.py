"""Segments: bounds, optimum, values and simulation against plain recursions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.helpers.refusals import refused

from decobandit import (
    Arm,
    BetaBernoulli,
    Design,
    DirichletCategorical,
    MarkovArm,
    MarkovState,
    NormalNormal,
    Problem,
    RandomHorizon,
    Reward,
    Segment,
    bound,
    evaluate,
    forecast,
    gap,
    operating_characteristics,
    optimum,
    save_problem,
    simulate,
    solve,
)
from decobandit.designs.reporting import study_design
from decobandit.prices import segments as segment_duals
from decobandit.studies import StudyError, load_study

PARTS = (Segment("EU", 0.3), Segment("US", 0.7))


def site(horizon: Any = 6, segments: Any = PARTS, **settings: Any) -> Problem:
    old = Arm(name="old", prior=BetaBernoulli(3, 2), priors={"US": BetaBernoulli(30, 20)})
    return Problem(arms=[old, Arm(name="new")], horizon=horizon, segments=segments, **settings)


def joint_optimum(problem: Problem, costs: Any = None, money: float = 0.0) -> float:
    """Follow the calendar, the outcomes of all segments and the money, stage by stage."""
    weights = problem.survival
    names = [segment.name for segment in problem.segments]
    priors = [[(a.prior.good, a.prior.bad) for a in problem.segment(g).arms] for g in names]
    rewards = [(arm.reward.good, arm.reward.bad) for arm in problem.arms]
    arms = range(problem.n_arms)

    def after(state: Any, g: int, a: int, outcome: int) -> Any:
        rows = [list(row) for row in state]
        good, bad = rows[g][a]
        rows[g][a] = (good + outcome, bad + 1 - outcome)
        return tuple(map(tuple, rows))

    @cache
    def value(t: int, state: Any, left: float) -> float:
        if t == problem.horizon:
            return 0.0
        total = 0.0
        for g, segment in enumerate(problem.segments):
            worths = [] if costs is None else [value(t + 1, state, left)]
            for a in arms:
                if costs is not None and costs[a] > left:
                    continue
                rest = left if costs is None else left - costs[a]
                good, bad = (x + y for x, y in zip(priors[g][a], state[g][a], strict=True))
                p = good / (good + bad)
                worth = [
                    weights[t] * rewards[a][1 - x] + value(t + 1, after(state, g, a, x), rest)
                    for x in (0, 1)
                ]
                worths.append(p * worth[1] + (1 - p) * worth[0])
            total += segment.share * max(worths)
        return total

    start = tuple(tuple((0, 0) for _ in arms) for _ in names)
    return value(0, start, money)


ENDS = RandomHorizon(law="uniform", least=2, most=5)


@pytest.mark.parametrize(
    "problem",
    [
        site(),
        site(horizon=ENDS),
        Problem(
            arms=[
                Arm(name="a", prior=BetaBernoulli(1, 2), reward=Reward(good=1, bad=-1)),
                Arm(name="b", reward=Reward(good=0.5, bad=-2), priors={"EU": BetaBernoulli(5, 1)}),
            ],
            horizon=5,
            segments=PARTS,
        ),
    ],
)
def test_optimum_and_bounds_against_the_joint_process(problem: Problem) -> None:
    best, exact, bounds = joint_optimum(problem), optimum(problem), solve(problem)
    assert exact.value == pytest.approx(best, abs=1e-12)
    assert exact.own_clock_value <= best + 1e-12
    assert bounds.upper_bound >= best - 1e-12
    assert evaluate(problem, "optimal").value == pytest.approx(exact.own_clock_value, abs=1e-12)
    assert evaluate(problem, "deco").value <= exact.own_clock_value + 1e-12
    assert exact.own_clock_value <= bounds.own_clock_bound <= bounds.upper_bound + 1e-12


def test_the_calendar_is_worth_something() -> None:
    """The case by which a bound of the own clock was found too small."""
    arms = [Arm(name="old", prior=BetaBernoulli(30, 20)), Arm(name="new")]
    exact = optimum(Problem(arms=arms, horizon=12, segments=PARTS)).segments[0]
    assert exact["value"] == pytest.approx(2.1865, abs=5e-5)
    assert exact["own_clock_value"] == pytest.approx(2.1785, abs=5e-5)
    assert exact["own_clock_value"] < exact["value"]


def test_bounds_are_means_of_duals_of_known_numbers() -> None:
    problem = site(horizon=7)
    tree = solve(problem, tol=1e-9).to_dict()
    for part in tree["segments"]:
        arms = problem.segment(part["name"]).arms
        chances = binom(7, part["share"]).pmf(range(8))
        duals = [
            0.0,
            *(solve(Problem(arms=arms, horizon=n), tol=1e-9).upper_bound for n in range(1, 8)),
        ]
        assert part["upper_bound"] == pytest.approx(chances @ duals, rel=1e-6)
    assert tree["upper_bound"] == pytest.approx(sum(x["upper_bound"] for x in tree["segments"]))


@pytest.mark.parametrize("good", [1.0, -1.0])
def test_few_duals_bound_the_others(monkeypatch: pytest.MonkeyPatch, good: float) -> None:
    """Between the numbers of visitors whose dual is solved, and beyond them."""
    reward = Reward(good=good, bad=-0.5)
    arms = [Arm(name="a", prior=BetaBernoulli(2, 3), reward=reward), Arm(name="b", reward=reward)]
    problem = Problem(arms=arms, horizon=40, segments=PARTS)
    every = solve(problem).upper_bound
    monkeypatch.setattr(segment_duals, "MOST_DUALS", 3)
    monkeypatch.setattr(segment_duals, "TAIL", 0.1)
    few = solve(problem).upper_bound
    chances = binom(40, 0.3).pmf(range(41)), binom(40, 0.7).pmf(range(41))
    exact = [optimum(Problem(arms=arms, horizon=n)).value if n else 0.0 for n in range(41)]
    assert sum(law @ exact for law in chances) <= every <= few + 1e-9
    assert few == pytest.approx(every, rel=0.05)


CHAIN = MarkovArm(
    first="new",
    states={
        "new": MarkovState(mean=0.5, next={"good": (0.5, "worn"), "bad": (0.5, "new")}),
        "worn": MarkovState(mean=0.2, next={"stay": (1.0, "worn")}),
    },
)
CLASSES = DirichletCategorical([1, 1, 2])


@pytest.mark.parametrize(
    "arms",
    [
        [Arm(name="a", prior=CHAIN), Arm(name="b")],
        [
            Arm(name="a", prior=CLASSES, reward=Reward(values=[0, -1, 2])),
            Arm(name="b", prior=CHAIN),
        ],
    ],
)
def test_other_outcomes(arms: list[Arm]) -> None:
    problem = Problem(arms=arms, horizon=4, segments=PARTS)
    exact, bounds = optimum(problem), solve(problem)
    assert exact.own_clock_value <= exact.value + 1e-12 <= bounds.upper_bound + 2e-12
    assert bounds.own_clock_bound <= bounds.upper_bound


def test_measurements_and_several_pulls() -> None:
    arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1.0) for name in "abc"]
    problem = Problem(arms=arms, horizon=10, segments=PARTS, pulls_per_stage=2)
    result = simulate(problem, ["greedy"], draws=200, rng=3)
    value, bounds = result.results[0], solve(problem)
    assert value["value"] - 6 * value["value_se"] <= bounds.upper_bound
    with refused("unsupported"):
        optimum(problem)


@pytest.mark.parametrize("horizon", [9, ENDS])
def test_one_segment_of_everyone_is_the_problem(horizon: Any) -> None:
    plain = Problem(arms=[Arm(name="a", prior=BetaBernoulli(3, 2)), Arm(name="b")], horizon=horizon)
    whole = plain.model_copy(update={"segments": (Segment("all", 1.0),)})
    bounds = solve(whole)
    assert bounds.upper_bound == bounds.own_clock_bound == solve(plain).upper_bound
    assert optimum(whole).value == optimum(plain).value
    assert evaluate(whole, "deco").value == evaluate(plain, "deco").value
    one = simulate(whole, ["deco"], draws=50, rng=4).results[0]
    assert one["value"] == simulate(plain, ["deco"], draws=50, rng=4).results[0].value


def test_errors_are_those_of_independent_segments() -> None:
    problem = site(horizon=20)
    result = simulate(problem, ["deco", "equal"], draws=400, rng=5)
    parts = [result["EU"].results[0], result["US"].results[0]]
    total = result.results[0]
    assert total["value"] == pytest.approx(sum(part.value for part in parts))
    assert total["value_se"] == pytest.approx(np.hypot(*(part.value_se for part in parts)))
    assert result["EU"].settings["seed"] != result["US"].settings["seed"]
    exact = evaluate(problem, "deco").value
    assert abs(total["value"] - exact) < 7 * total["value_se"]


def test_gaps_and_all_bounds() -> None:
    problem = site(horizon=8)
    loss, bounds, exact = gap(problem, "deco"), bound(problem), optimum(problem)
    assert loss.gap == pytest.approx(loss.upper_bound - loss.value)
    own = bounds["EU"][0].value + bounds["US"][0].value
    assert bounds.own_clock_bound == pytest.approx(own)
    assert exact.value <= bounds.best_bound <= bounds.trivial
    frame = bounds.to_frame(kind="pandas")
    assert frame["segment"].tolist() == ["EU", "US", "all"]


def test_one_truth_for_all_or_one_by_segment() -> None:
    problem = site()
    same = evaluate(problem, "greedy", truth=[0.4, 0.6])
    own = evaluate(problem, "greedy", truth={"EU": [0.4, 0.6], "US": [0.4, 0.6]})  # type: ignore[arg-type]
    assert same.value == own.value
    with refused("invalid_argument", "truth"):
        evaluate(problem, "greedy", truth={"EU": [0.4, 0.6]})  # type: ignore[arg-type]


# -- budgets --------------------------------------------------------------------------------------

COSTS = (1.0, 2.0)


def paid(budget: float, horizon: int = 4) -> Problem:
    arms = [
        Arm(name="old", cost=COSTS[0], priors={"US": BetaBernoulli(2, 1)}),
        Arm(name="new", cost=COSTS[1], prior=BetaBernoulli(3, 1)),
    ]
    return Problem(arms=arms, horizon=horizon, segments=PARTS, budget=budget)


@pytest.mark.parametrize("budget", [1.0, 3.0, 4.5, 20.0])
def test_segments_share_a_budget(budget: float) -> None:
    problem = paid(budget)
    best = joint_optimum(problem, COSTS, budget)
    bounds, value = solve(problem), evaluate(problem, "deco")
    assert value.value <= best + 1e-12
    assert best <= bounds.upper_bound + 1e-12
    assert bounds.own_clock_bound <= bounds.upper_bound + 1e-12
    assert bounds.budget == pytest.approx(budget)
    with refused("unsupported", "segments"):
        optimum(problem)


def test_money_that_is_spent_is_within_the_budget() -> None:
    problem = paid(12.0, horizon=20)
    result = simulate(problem, ["deco"], draws=50, rng=2, keep_episodes=True)
    most = 0.0
    for name in ("EU", "US"):
        episodes = result[name].results[0].episodes  # type: ignore[index]
        number = episodes["draw"] * 10 + episodes["episode"]
        most += np.bincount(number, np.array(COSTS)[episodes["arm"]]).max()
    assert 0.0 < most <= 12.0 + 1e-9


# -- refusals -------------------------------------------------------------------------------------


def test_what_belongs_to_one_problem_is_refused() -> None:
    problem = site()
    with refused("invalid_argument", "solution"):
        evaluate(problem, "deco", solution=solve(problem.segment("EU")))
    with refused("invalid_argument", "true_horizon"):
        simulate(problem, ["deco"], true_horizon=7)
    with refused("unsupported", "segments"):
        optimum(problem, keep=True)


def test_designs_by_segment_and_in_all() -> None:
    scenarios = [{"name": "null", "truth": [0.4, 0.4]}, {"name": "one", "truth": [0.3, 0.6]}]
    design = Design(policies=["equal"], draws=4000, seed=3, scenarios=scenarios)
    result = operating_characteristics(site(horizon=40), design)
    tree = result.to_dict()
    for place, scenario in enumerate(tree["scenarios"]):
        (row,) = scenario["policies"]
        parts = [part["scenarios"][place]["policies"][0] for part in tree["segments"]]
        assert row["size"] == pytest.approx(sum(part["size"] for part in parts))
        assert row["size"] == pytest.approx(40.0, abs=1e-9)  # exact: no trial stops early
        assert row["reject_at_most"] == pytest.approx(sum(part["reject"] for part in parts))
    assert tree["segments"][0]["seed"] == 3
    assert len({part["seed"] for part in tree["segments"]}) == 2


def test_studies_plans_and_reports_take_one_segment(tmp_path: Path) -> None:
    save_problem(site(), tmp_path / "site.toml")
    study = tmp_path / "study.toml"
    study.write_text('policies = ["greedy"]\n[[problems]]\nfile = "site.toml"\n')
    with pytest.raises(StudyError, match=r"problem\.segment\(NAME\)"):
        load_study(study)
    with refused("unsupported", "segments"):
        forecast(site(), ["greedy"])
    scenarios = [{"name": "null", "truth": [0.4, 0.4]}]
    with refused("unsupported", "segments"):
        study_design(site(), Design(policies=["equal"], scenarios=scenarios))
