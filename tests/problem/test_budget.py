"""Budgets: by joint recursion, by an LP, and by what every episode spends."""

from typing import Any

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    bound,
    evaluate,
    follow,
    gap,
    load_solution,
    make_policy,
    optimum,
    recommend,
    retrace,
    save_solution,
    simulate,
    solve,
)
from decobandit.prices import dual_value
from decobandit.problem import problem_from_dict, problem_to_dict
from helpers.experiments import Experiment, best, relaxed
from helpers.refusals import refused
from helpers.values import information_bound

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


def test_the_dual_function_at_any_prices_is_above_the_optimum() -> None:
    problem, rng = problem_of(5.0), np.random.default_rng(1)
    solution = solve(problem, tol=1e-9)
    at = dual_value(problem, solution.prices, budget_price=solution.budget_price or 0.0)
    assert at.value == pytest.approx(solution.upper_bound, abs=1e-12)
    for _ in range(5):
        prices, money = rng.random(6), float(rng.random())
        value = dual_value(problem, prices, budget_price=money)
        assert value.value >= solution.upper_bound
        total = value.reward + value.gradient @ np.append(prices, money)
        assert value.value == pytest.approx(total, abs=1e-12)
    with refused("invalid_argument", "prices"):
        dual_value(problem, solution.prices, budget_price=-1.0)


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


def test_two_arms_are_followed_within_the_budget() -> None:
    """Equal allocation pays four pulls of each, whatever comes: eight of mean 1/2."""
    arms = [Arm(name="a", cost=1.0), Arm(name="b", cost=0.5)]
    problem = Problem(horizon=12, arms=arms, budget=6.0)
    assert evaluate(problem, "equal").value == pytest.approx(4.0, abs=1e-12)
    plain = Experiment([(1, 1), (1, 1)], 12, costs=[1.0, 0.5], budget=6.0)
    assert optimum(problem).value == pytest.approx(best(plain), abs=1e-12)
    estimate = simulate(problem, "greedy", draws=400, rng=2).results[0].estimates.best
    assert abs(evaluate(problem, "greedy").value - estimate.value) < 5 * estimate.value_se


BATCH = {"pulls_per_stage": 4, "repeat": True, "unit": 2, "horizon": 3}
CORNERS = [
    {},
    {"pulls_per_stage": 2},
    BATCH,
    {"terminal": Terminal(deploy=5.0)},
    {"horizon": {"survival": [0.9**t for t in range(5)]}},
]


@pytest.mark.parametrize("settings", CORNERS, ids=["1", "2", "batch", "deploy", "end"])
def test_the_terms_of_a_gap_add_up(settings: dict[str, Any]) -> None:
    """Exactly, and in simulations by the estimate `gap`."""
    problem = problem_of(5.0, **settings)
    for name in ("deco", "greedy", "equal"):
        exact = gap(problem, name)
        assert exact.method == "exact"
        assert exact.value == pytest.approx(evaluate(problem, name).value, abs=1e-12)
        assert exact.unspent is not None
        total = exact.shortfall + exact.congestion + exact.unspent
        assert total == pytest.approx(exact.gap, abs=1e-12)
        assert exact.running_loss[-1] == pytest.approx(exact.gap, abs=1e-12)
        drawn = gap(problem, name, method="simulated", draws=200, rng=4)
        assert abs(drawn.value - exact.value) < 7 * drawn.value_se
        assert drawn.unspent == pytest.approx(exact.unspent, abs=0.1)
        assert set(drawn.to_dict()) >= {"shortfall", "congestion", "unspent"}


def test_what_is_unspent_is_that_of_all_paths() -> None:
    """Pulls and money by a plain walk through every path of greedy."""
    problem = problem_of(5.0)
    solution, policy = solve(problem), make_policy(problem, "greedy")
    made, spent = np.zeros(6), 0.0

    def walk(stage: int, good: tuple[int, ...], bad: tuple[int, ...], chance: float) -> None:
        nonlocal spent
        if stage == 6 or not chance:
            return
        arms = policy.select(stage, State.of_counts(good, bad))
        if not arms:
            return walk(stage + 1, good, bad, chance)
        (k,) = arms
        made[stage] += chance
        spent += chance * COSTS[k]
        p = (PRIORS[k][0] + good[k]) / (sum(PRIORS[k]) + good[k] + bad[k])
        more = [n + (j == k) for j, n in enumerate(good)]
        less = [n + (j == k) for j, n in enumerate(bad)]
        walk(stage + 1, tuple(more), bad, chance * p)
        walk(stage + 1, good, tuple(less), chance * (1 - p))

    walk(0, (0, 0, 0), (0, 0, 0), 1.0)
    expected = solution.multipliers @ (1.0 - made) + (solution.budget_price or 0.0) * (5.0 - spent)
    assert gap(problem, "greedy", solution=solution).unspent == pytest.approx(expected, abs=1e-12)


def test_an_episode_and_its_pulls_have_the_same_loss() -> None:
    for name in ("deco", "thompson", "deco-rolling"):
        problem = problem_of(3.0)
        episode = follow(problem, name, rng=3)
        spent = sum(COSTS[arm] for arms in episode.pulled for arm in arms)
        assert spent <= 3.0
        history = [
            (arms[0], int(outcomes[0])) if arms else (None, None)
            for arms, outcomes in zip(episode.pulled, episode.outcomes, strict=True)
        ]
        again = retrace(problem, history)
        assert again.running_loss == pytest.approx(episode.running_loss, abs=1e-12)
        price = solve(problem).budget_price or 0.0
        assert episode.unspent is not None
        assert episode.unspent[-1] >= price * (3.0 - spent) - 1e-12
        assert "unspent" in episode.to_dict()
    with refused("invalid_argument", "history"):
        retrace(Problem.uniform(arms=2, horizon=3), [(None, None)])


def test_random_end_windows_and_shortlists_combine_with_a_budget() -> None:
    """Each against the plain LP with the same feature."""
    weights = [0.9**t for t in range(6)]
    problem = problem_of(3.0)
    random = problem.model_copy(update={"horizon": {"survival": weights}})
    ended = Experiment(PRIORS, 6, weights=weights, costs=COSTS, budget=3.0)
    assert solve(random, tol=1e-6).upper_bound == pytest.approx(relaxed(ended), rel=2e-6)
    assert optimum(random).value == pytest.approx(best(ended), abs=1e-10)
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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"horizon": 3, "pulls_per_stage": 4, "unit": 2, "repeat": True},
        {"horizon": 4, "pulls_per_stage": 2},
        {"terminal": Terminal(deploy=4.0, deploy_arms=2), "horizon": 4},
    ],
    ids=["single", "batch", "several", "shortlist"],
)
@pytest.mark.parametrize("budget", [1.0, 3.0, 9.0])
def test_information_bound_lies_between_optimum_and_dual(
    budget: float, settings: dict[str, Any]
) -> None:
    """Costs paid at the price of money, in place of a knapsack in every scenario."""
    problem = problem_of(budget, **settings)
    solution, best = solve(problem, tol=1e-7), optimum(problem).value
    for weight in (0.0, 0.4, 1.0):
        found = information_bound(problem, solution=solution, draws=400, rng=5, weight=weight)
        assert found.information >= best - 5 * found.information_se
        if weight == 1.0:
            assert found.information <= solution.upper_bound + 1e-9


def test_known_outcomes_are_charged_by_hand() -> None:
    """One uniform arm, two stages, money for one pull: both pulls cost 1 at the price of money."""
    arm = Arm(name="a", cost=1.0)
    problem = Problem(horizon=2, arms=[arm], budget=1.0)
    solution = solve(problem, tol=1e-9)
    price = solution.budget_price
    assert price is not None
    found = information_bound(problem, solution=solution, draws=4000, rng=1, weight=0.0)
    gains = [(0.5, 2 / 3), (0.5, 1 / 3)]  # after a first outcome: the expected second reward
    expected = sum(p * max(0.5 - price + max(later - price, 0.0), 0.0) for p, later in gains)
    assert abs(found.information - price - expected) <= 5 * found.information_se + 1e-12


def test_what_does_not_keep_to_a_budget_refuses() -> None:
    problem = problem_of(5.0)
    with refused("unsupported", "policy"):
        make_policy(problem, "ucb1")


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


def test_exact_values_of_two_arms_keep_to_the_budget() -> None:
    """Two arms are followed by a recursion of their own, which does not know of money."""
    arms = [Arm(name="a", cost=1.0), Arm(name="b", cost=2.0, prior=BetaBernoulli(2, 1))]
    problem = Problem(arms=arms, horizon=8, budget=6.0)
    for name in ("deco", "greedy"):
        estimate = simulate(problem, name, draws=400, rng=2).results[0].estimates.best
        value = evaluate(problem, name).value
        assert abs(value - estimate.value) < 7 * estimate.value_se
        assert value <= optimum(problem).value + 1e-12


@pytest.mark.parametrize("name", ["deco", "greedy"])
def test_the_variance_at_a_truth_is_that_of_all_paths(name: str) -> None:
    """Paths differ in their number of pulls, so that moments are not around one middle."""
    problem, truth = problem_of(5.0), (0.3, 0.6, 0.2)
    policy = make_policy(problem, name)
    ends = list[tuple[float, int]]()

    def walk(stage: int, good: tuple[int, ...], bad: tuple[int, ...], probability: float) -> None:
        if stage == 6:
            return ends.append((probability, sum(good)))
        arms = policy.select(stage, State.of_counts(good, bad))
        if not arms:
            return walk(stage + 1, good, bad, probability)
        (k,) = arms
        more = tuple(n + (j == k) for j, n in enumerate(good))
        less = tuple(n + (j == k) for j, n in enumerate(bad))
        walk(stage + 1, more, bad, probability * truth[k])
        walk(stage + 1, good, less, probability * (1 - truth[k]))

    walk(0, (0, 0, 0), (0, 0, 0), 1.0)
    weights, rewards = np.array(ends).T
    exact = evaluate(problem, name, truth=truth)
    assert exact.value == pytest.approx(weights @ rewards, abs=1e-12)
    assert exact.variance == pytest.approx(
        weights @ rewards**2 - (weights @ rewards) ** 2, abs=1e-12
    )


@pytest.mark.parametrize("pulls", [1, 2])
@pytest.mark.parametrize("deploy", [0.0, 4.0])
@pytest.mark.parametrize("policy", ["greedy", "deco"])
def test_random_ties_do_not_overspend(policy: str, deploy: float, pulls: int) -> None:
    """Exact values against episodes; before a deployment ties go by pulls, whatever the rule."""
    arms = [Arm(name=name, cost=cost) for name, cost in zip("abc", (1.0, 2.0, 1.0), strict=True)]
    end = Terminal(deploy=deploy) if deploy else None
    problem = Problem(arms=arms, horizon=3, pulls_per_stage=pulls, budget=4.0, terminal=end)
    found = evaluate(problem, policy, ties="random")
    assert found.value == pytest.approx(evaluate(problem, policy, ties="first").value, abs=1e-12)
    assert found.value <= optimum(problem).value + 1e-12
    (result,) = simulate(problem, [policy], draws=2000, ties="random").results
    estimate = result.estimates.by_method["plain"]
    assert found.value == pytest.approx(estimate.value, abs=5 * estimate.value_se)
    at_truth = evaluate(problem, policy, ties="random", truth=(0.3, 0.5, 0.5))
    assert at_truth.probability == pytest.approx(1.0, abs=1e-12)
    assert float(np.dot(at_truth.arm_pulls, (1.0, 2.0, 1.0))) <= 4.0 + 1e-9
