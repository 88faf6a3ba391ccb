"""Budgets: by joint recursion, by an LP, and by what every episode spends."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Design,
    DirichletCategorical,
    NormalNormal,
    Problem,
    Reward,
    bound,
    evaluate,
    gap,
    load_solution,
    make_policy,
    operating_characteristics,
    optimum,
    recommend,
    save_solution,
    simulate,
    solve,
)
from decobandit.policies import Context
from decobandit.problem import problem_from_dict, problem_to_dict
from decobandit.trials.settings import settings_from
from helpers.experiments import Experiment, best, relaxed
from helpers.refusals import refused

PRIORS, COSTS = [(1, 1), (2, 1), (1, 2)], [1.0, 2.0, 0.5]


def problem_of(
    budget: float, horizon: int = 6, costs: object = COSTS, **settings: object
) -> Problem:
    arms = [
        Arm(name=name, prior=BetaBernoulli(*prior), cost=cost)
        for name, prior, cost in zip("abc", PRIORS, costs, strict=True)
    ]
    return Problem(horizon=horizon, arms=arms, budget=budget, **settings)


@pytest.mark.parametrize("budget", [0.4, 1.0, 3.0, 5.0, 8.0, 20.0])
def test_optimum_and_dual_are_those_of_recursion_and_lp(budget: float) -> None:
    problem = problem_of(budget)
    plain = Experiment(PRIORS, 6, costs=COSTS, budget=budget)
    solution = solve(problem, tol=1e-6)
    assert optimum(problem).value == pytest.approx(best(plain), abs=1e-12)
    assert solution.upper_bound >= relaxed(plain) - 1e-9
    assert solution.upper_bound == pytest.approx(relaxed(plain), rel=2e-6, abs=1e-9)
    value = evaluate(problem, "auto").value
    assert 0.93 * best(plain) <= value <= best(plain) + 1e-12


def test_published_case() -> None:
    problem = problem_of(5.0)
    assert optimum(problem).value == pytest.approx(2.8849206349206353, abs=1e-12)
    assert solve(problem, tol=1e-9).upper_bound == pytest.approx(3.2425173611111098, abs=1e-8)
    kinds = {own.kind: own.value for own in bound(problem)}
    assert kinds["optimum"] == pytest.approx(2.8849206349206353, abs=1e-12)
    assert set(kinds) == {"optimum", "lagrangian"}


def test_costs_that_change_over_the_stages() -> None:
    """The dual against an LP with these costs; episodes by their own sums."""

    costs = [(1.0, 1.0, 1.0, 2.0, 2.0, 2.0), (2.0,) * 6, (0.0, 0.5, 0.5, 0.5, 0.5, 0.0)]
    problem = problem_of(4.0, costs=costs)
    solution = solve(problem, tol=1e-6)
    plain = Experiment(PRIORS, 6, costs=costs, budget=4.0)
    assert solution.upper_bound == pytest.approx(relaxed(plain), rel=2e-6)
    found = simulate(problem, ["deco", "greedy"], draws=100, keep_episodes=True)
    table = np.array(costs)
    for result in found.results:
        episodes = result.episodes
        assert episodes is not None
        episode = episodes["draw"] * 10 + episodes["episode"]
        spent = np.bincount(episode, table[episodes["arm"], episodes["stage"]])
        assert spent.max() <= 4.0 + 1e-9
    with refused("unsupported", "cost"):
        optimum(problem)
    with refused("unsupported", "cost"):
        evaluate(problem, "greedy")


MODELS = {
    "beta": {"prior": BetaBernoulli(1, 1)},
    "classes": {"prior": DirichletCategorical([1, 1, 1]), "reward": Reward(values=[0, 1, 2])},
    "normal": {"prior": NormalNormal(0.5, 1), "noise_sd": 1.0},
}


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("model", MODELS)
def test_no_episode_overspends(model: str, batch: int) -> None:
    settings = {} if batch == 1 else {"pulls_per_stage": batch, "unit": 2, "repeat": True}
    costs = np.array([1.0, 2.0, 0.25])
    arms = [Arm(name=f"arm {c}", cost=float(c), **MODELS[model]) for c in costs]
    problem = Problem(horizon=8, arms=arms, budget=7.0, **settings)
    names = ["deco", "greedy"] + ["thompson"] * (batch == 1)
    solution = solve(problem)
    found = simulate(problem, names, draws=50, per_draw=2, solution=solution, keep_episodes=True)
    for result in found.results:
        episodes = result.episodes
        assert episodes is not None
        pulls = episodes.get("pulls", np.ones(len(episodes["arm"])))
        episode = episodes["draw"] * 2 + episodes["episode"]
        spent = np.bincount(episode, costs[episodes["arm"]] * pulls)
        assert 0.0 < spent.max() <= 7.0 + 1e-9
        most = np.bincount(episode * 8 + episodes["stage"], pulls)
        assert most.max() <= batch
        best_estimate = result.estimates.best
        assert best_estimate.value < solution.upper_bound + 5 * best_estimate.value_se


def test_deco_spends_what_there_is() -> None:
    """At the first price of money alone a fifth of the budget would be left."""
    problem = problem_of(45.0, horizon=50)
    found = simulate(problem, ["deco", "greedy"], draws=200, per_draw=1, rng=3, keep_episodes=True)
    deco = found.results[0]
    assert deco.episodes is not None
    spent = np.bincount(deco.episodes["draw"], np.array(COSTS)[deco.episodes["arm"]])
    assert spent.mean() > 0.9 * 45.0
    assert found.difference("deco", "greedy").value > 0.0


def test_exact_values_are_those_of_simulation() -> None:
    problem = problem_of(5.0)
    for name in ("deco", "greedy", "deco-rolling"):
        estimate = simulate(problem, name, draws=400, rng=2).results[0].estimates.best
        assert abs(evaluate(problem, name).value - estimate.value) < 5 * estimate.value_se


def test_random_end_windows_and_shortlists_combine_with_a_budget() -> None:
    """Each against the plain LP with the same feature."""
    weights = [0.9**t for t in range(6)]
    problem = problem_of(3.0)
    random = problem.model_copy(update={"horizon": {"survival": weights}})
    assert solve(random, tol=1e-6).upper_bound <= solve(problem, tol=1e-6).upper_bound
    windows = [(0, 3), None, (2, 6)]
    arms = [
        arm.model_copy(update={"available": None if own is None else (own,)})
        for arm, own in zip(problem.arms, windows, strict=True)
    ]
    late = problem.model_copy(update={"arms": arms})
    plain = Experiment(PRIORS, 6, costs=COSTS, budget=3.0, windows=windows)
    assert optimum(late).value == pytest.approx(best(plain), abs=1e-10)
    assert solve(late, tol=1e-6).upper_bound == pytest.approx(relaxed(plain), rel=2e-6)
    kept = problem.model_copy(update={"terminal": {"deploy": 4.0, "deploy_arms": 2}})
    plain = Experiment(PRIORS, 6, costs=COSTS, budget=3.0, deploy=4.0, deploy_arms=2)
    assert optimum(kept).value == pytest.approx(best(plain), abs=1e-10)
    assert solve(kept, tol=1e-6).upper_bound == pytest.approx(relaxed(plain), rel=2e-6)


def test_files_solutions_and_recommendations(tmp_path: object) -> None:
    problem = problem_of(5.0)
    assert problem_from_dict(problem_to_dict(problem)) == problem
    solution = solve(problem)
    save_solution(solution, f"{tmp_path}/s.json")
    again = load_solution(f"{tmp_path}/s.json")
    assert again.budget_price == solution.budget_price
    assert solution.to_dict()["budget_price"] == solution.budget_price
    spent = recommend(problem, "1/1,1/2,0/0", "deco")  # everything is spent
    assert spent.chosen == ()
    assert spent.to_dict()["arm"] is None
    assert make_policy(problem, "auto").name in ("deco", "greedy")


def test_what_does_not_keep_to_a_budget_refuses() -> None:
    problem = problem_of(5.0)
    with refused("unsupported", "budget"):
        settings_from(Context(problem), policy="deco")  # as the command line makes a trial
    with refused("unsupported", "policy"):
        make_policy(problem, "equal")
    with refused("unsupported", "budget"):
        gap(problem, "deco")
    with refused("unsupported", "budget"):
        operating_characteristics(
            problem, Design(scenarios=[{"name": "a", "truth": [0.2, 0.3, 0.4]}])
        )


@pytest.mark.parametrize(
    ("costs", "budget", "field"),
    [
        ([1.0, None], 3.0, "arms.1.cost"),
        ([1.0, 1.0], None, "arms.0.cost"),
        ([-1.0, 1.0], 3.0, "arms.0.cost"),
        ([[1.0, 2.0], 1.0], 3.0, "arms.0.cost"),
        ([1.0, 1.0], 0.0, "budget"),
    ],
)
def test_costs_that_do_not_fit_are_refused(costs: list[object], budget: object, field: str) -> None:
    arms = [{"name": name, "cost": cost} for name, cost in zip("ab", costs, strict=True)]
    with refused("invalid_problem", field):
        problem_from_dict({"horizon": 4, "arms": arms, "budget": budget})
