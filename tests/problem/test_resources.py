"""Resources of a stage: model and files, bounds, policies and values against slow oracles."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    Problem,
    Terminal,
    evaluate,
    follow,
    gap,
    load_problem,
    load_solution,
    make_policy,
    optimum,
    recommend,
    save_problem,
    save_solution,
    simulate,
    solve,
)
from decobandit.designs.playing import Endings, play
from decobandit.designs.playing import follow as follow_design
from decobandit.paper.restless import random_chain
from decobandit.policies import Context, RuledPolicy
from decobandit.policies.allocation import check_pulls
from decobandit.prices import dual_value
from decobandit.problem import RandomHorizon, Rules, States, problem_from_dict
from decobandit.problem.arms import numbered
from decobandit.trials.settings import settings_from
from helpers.refusals import refused
from helpers.resource_oracles import best_value, relaxed_value
from helpers.values import information_bound

PRIORS = ((1, 1), (2, 1), (1, 2), (3, 3))


def binary(seed: int, arms: int = 3, horizon: int = 4, **settings: object) -> Problem:
    """Bernoulli arms with random uses of two resources, of which one changes over the stages."""
    rng = np.random.default_rng(seed)
    members = [
        Arm(
            name=f"a{k}",
            prior=BetaBernoulli(*PRIORS[k % 4]),
            uses={"nurse": float(rng.integers(0, 3)), "bed": round(float(rng.uniform(0, 2)), 2)},
        )
        for k in range(arms)
    ]
    nurses = rng.integers(1, 4, size=horizon).astype(float).tolist()
    resources = {"nurse": nurses, "bed": round(float(rng.uniform(1, 3)), 2)}
    return Problem(horizon=horizon, arms=members, resources=resources, **settings)


def restless(seed: int, arms: int = 3, horizon: int = 4, states: int = 3) -> Problem:
    """Chains with random uses; the last two are equal."""
    rng = np.random.default_rng(seed)
    chains = [random_chain(rng, states) for _ in range(arms - 1)]
    uses = [{"nurse": 1.0 + k % 2, "bed": float(rng.uniform(0, 2))} for k in range(arms - 1)]
    members = [
        Arm(name=f"c{k}", prior=chains[min(k, arms - 2)], uses=uses[min(k, arms - 2)])
        for k in range(arms)
    ]
    return Problem(horizon=horizon, arms=members, resources={"nurse": 2.0, "bed": 1.5})


# -- the model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_files_keep_resources_and_uses(tmp_path, suffix) -> None:
    arms = [Arm(name="a", uses={"nurse": 1, "lit-é": 0.5}), Arm(name="b")]
    problem = Problem(horizon=2, arms=arms, resources={"nurse": [1, 2], "lit-é": 1})
    assert problem.supply.tolist() == [[1, 1], [2, 1]]
    assert problem.uses.tolist() == [[1, 0.5], [0, 0]]
    save_problem(problem, tmp_path / f"ward.{suffix}")
    assert load_problem(tmp_path / f"ward.{suffix}") == problem


def test_every_arm_may_be_pulled_unless_pulls_are_limited() -> None:
    entry = {"name": "a", "count": 3, "uses": {"nurse": 1}}
    tree = {"horizon": 2, "arms": [entry], "resources": {"nurse": 2}}
    assert problem_from_dict(tree).pulls_per_stage == 3
    assert problem_from_dict(tree | {"pulls_per_stage": 2}).pulls_per_stage == 2
    assert Problem(**tree | {"arms": [Arm(name="a")]}).pulls_per_stage == 1
    assert "resources nurse" in problem_from_dict(tree).described()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"resources": {"nurse": [1, 2]}}, "resources.nurse"),
        ({"resources": {"nurse": -1}}, "resources.nurse"),
        ({"resources": {}}, "resources"),
        ({"resources": {"nurse": 1}, "uses": {"bed": 1}}, "arms.0.uses.bed"),
        ({"uses": {"bed": 1}}, "arms.0.uses.bed"),
        ({"resources": {"nurse": 1}, "uses": {"nurse": -1}}, "arms.0.uses.nurse"),
        ({"resources": {"nurse": 1}, "budget": 2.0, "cost": 1.0}, "budget"),
    ],
)
def test_resources_that_do_not_fit_are_refused(fields, field) -> None:
    arm = {"name": "a"} | {key: fields[key] for key in ("uses", "cost") if key in fields}
    rest = {key: fields[key] for key in fields if key not in arm}
    with refused("invalid_problem", field):
        problem_from_dict({"horizon": 3, "arms": [arm]} | rest)


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_optimum_is_that_of_a_plain_recursion(seed: int) -> None:
    for problem in (binary(seed), restless(seed, horizon=3)):
        assert optimum(problem).value == pytest.approx(best_value(problem), rel=1e-12)


def combined() -> list[Problem]:
    """Windows and a random end; batches of units."""
    arms = [
        Arm(name="a", uses={"bed": 1}, available=[0, 2]),
        Arm(name="b", prior=BetaBernoulli(2, 1), uses={"bed": 2}),
    ]
    ends = RandomHorizon(law="uniform", least=2, most=3)
    always = [arm.model_copy(update={"available": None}) for arm in arms]
    batches = {"repeat": True, "pulls_per_stage": 4, "unit": 2}
    return [
        Problem(horizon=ends, arms=arms, resources={"bed": 2}),
        Problem(horizon=2, arms=always, resources={"bed": [5, 4]}, **batches),
    ]


def test_windows_random_ends_and_batches_combine_with_resources() -> None:
    for problem in combined():
        assert optimum(problem).value == pytest.approx(best_value(problem), rel=1e-12)
        solution = solve(problem, tol=1e-9)
        assert solution.upper_bound == pytest.approx(relaxed_value(problem), rel=1e-8)


def test_a_deployment_uses_no_resources() -> None:
    arms = [Arm(name="a", uses={"bed": 1}), Arm(name="b", prior=BetaBernoulli(2, 1))]
    rest = {"horizon": 3, "terminal": Terminal(deploy=9.0)}
    problem = Problem(arms=arms, resources={"bed": 0.0}, **rest)
    solution = solve(problem, tol=1e-9)
    assert solution.upper_bound >= optimum(problem).value - 1e-9
    assert solution.lower_bound <= solution.upper_bound
    closed = [Arm(name="a", available=[]), arms[1]]
    assert optimum(problem).value == pytest.approx(optimum(Problem(arms=closed, **rest)).value)


# -- the dual -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_dual_minimum_is_the_value_of_the_occupancy_program(seed: int) -> None:
    for problem in (binary(seed, arms=5, horizon=6), restless(seed, arms=6, horizon=10)):
        best, solution = relaxed_value(problem), solve(problem, tol=1e-6)
        assert solution.lower_bound - 1e-9 <= best <= solution.upper_bound + 1e-9
        assert solution.upper_bound == pytest.approx(best, rel=1e-6)
        assert solution.lower_bound == pytest.approx(best, rel=1e-6)
        assert solution.resource_prices.min() >= 0.0


def test_equal_arms_at_half_their_demand_need_mixed_shares() -> None:
    chain = random_chain(np.random.default_rng(5), 5)
    arm = Arm(name="c", prior=chain, uses={"nurse": 1.0, "bed": 0.5})
    resources = {"nurse": 4.0, "bed": 2.5}
    problem = Problem(horizon=12, arms=numbered(arm, count=9), resources=resources)
    best, solution = relaxed_value(problem), solve(problem, tol=1e-6)
    assert solution.lower_bound - 1e-9 <= best <= solution.upper_bound + 1e-9
    assert solution.upper_bound == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kind", ["binary", "chains"])
def test_one_resource_for_all_pulls_is_the_plain_problem(kind: str) -> None:
    """Rewards are not negative, so that a policy that may wait need not."""
    chains = [random_chain(np.random.default_rng(k), 3, resting=False) for k in range(4)]
    priors = chains if kind == "chains" else [BetaBernoulli(*prior) for prior in PRIORS]
    arms = [Arm(name=f"a{k}", prior=prior) for k, prior in enumerate(priors)]
    users = [arm.model_copy(update={"uses": {"nurse": 2.0}}) for arm in arms]
    plain = Problem(horizon=6, arms=arms, pulls_per_stage=2)
    shared = Problem(horizon=6, arms=users, resources={"nurse": 4.0})
    first, second = solve(plain, tol=1e-8), solve(shared, tol=1e-8)
    assert second.upper_bound == pytest.approx(first.upper_bound, rel=3e-8)
    assert relaxed_value(shared) == pytest.approx(first.upper_bound, rel=3e-8)


def test_solution_files_keep_prices_by_resource(tmp_path) -> None:
    solution = solve(binary(3))
    save_solution(solution, tmp_path / "solution.json")
    again = load_solution(tmp_path / "solution.json")
    assert np.array_equal(again.resource_prices, solution.resource_prices)
    tree = solution.to_dict()["resource_prices"]
    assert {name: len(prices) for name, prices in tree.items()} == {"nurse": 4, "bed": 4}
    assert list(solution.tables()["stages"]())[-2:] == ["price of nurse", "price of bed"]
    text = (tmp_path / "solution.json").read_text().replace('"bed": [\n', '"cot": [\n')
    (tmp_path / "solution.json").write_text(text)
    with refused("invalid_problem"):
        load_solution(tmp_path / "solution.json")


# -- policies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [binary(0, arms=4), restless(1), *combined()])
def test_policies_earn_nearly_the_optimum_and_simulations_agree(problem: Problem) -> None:
    best = optimum(problem).value
    for name in ("deco", "greedy"):
        exact = evaluate(problem, name).value
        assert 0.85 * best <= exact <= best + 1e-9
        result = simulate(problem, [name], draws=500).results[0]
        assert abs(result.value - exact) <= 6 * result.value_se + 1e-9
    if not problem.repeat:
        assert 0.85 * best <= evaluate(problem, "deco-rolling").value <= best + 1e-9


@pytest.mark.parametrize("problem", [binary(2, arms=6, horizon=8), restless(2, 6, 8)])
def test_no_stage_uses_more_than_there_is(problem: Problem) -> None:
    names = ["deco", "greedy"] + ([] if problem.is_restless else ["thompson"])
    for policy in (make_policy(problem, name) for name in names):
        rng, states = np.random.default_rng(1), States.initial(problem, 40)
        for stage in range(problem.horizon):
            pulls = policy.allocate_many(stage, states, rng)
            assert np.all(pulls @ problem.uses <= problem.supply[stage] + 1e-9)
            assert pulls.sum() > 0
    wide = problem.model_copy(update={"resources": {"nurse": 99.0, "bed": 99.0}})
    everything = make_policy(wide, "greedy").allocate_many(0, States.initial(wide, 1))
    assert problem.overdrawn(0, everything).all()
    with refused("invalid_argument", "policy"):
        check_pulls("greedy", problem, 0, everything)


def test_an_arm_that_loses_by_a_pull_rests() -> None:
    harm = Chain([[1.0]], [[1.0]], [1.0], [0.5])
    arms = [Arm(name="a", prior=harm, uses={"bed": 1.0}), Arm(name="b", prior=harm)]
    problem = Problem(horizon=4, arms=arms, resources={"bed": 2.0})
    assert solve(problem).upper_bound == pytest.approx(8.0)
    for name in ("deco", "deco-rolling", "greedy"):
        assert evaluate(problem, name).value == pytest.approx(8.0)


def test_deco_on_one_resource_for_all_pulls_is_deco_on_the_plain_problem() -> None:
    arms = [Arm(name=f"a{k}", prior=BetaBernoulli(*prior)) for k, prior in enumerate(PRIORS)]
    users = [arm.model_copy(update={"uses": {"nurse": 2.0}}) for arm in arms]
    plain = Problem(horizon=6, arms=arms, pulls_per_stage=2)
    shared = Problem(horizon=6, arms=users, resources={"nurse": 4.0})
    for name in ("deco", "greedy"):
        expected = evaluate(plain, name).value
        assert evaluate(shared, name).value == pytest.approx(expected, rel=2e-3)


def test_recommendations_list_the_arms_of_a_stage() -> None:
    arms = [Arm(name=f"a{k}", prior=BetaBernoulli(k + 1, 1), uses={"bed": 1.0}) for k in range(4)]
    problem = Problem(horizon=3, arms=arms, resources={"bed": 2.0})
    result = recommend(problem, "0/0,0/0,0/0,0/0", "deco")
    assert set(result.chosen) == {"a2", "a3"}


@pytest.mark.parametrize("problem", [binary(0), restless(1), *combined()])
@pytest.mark.parametrize("name", ["deco", "greedy"])
def test_loss_is_shortfall_congestion_and_what_is_unused(name: str, problem: Problem) -> None:
    """Theorem 1 with prices of resources: the terms add up to the dual less the value."""
    solution = solve(problem, tol=1e-7)
    exact = gap(problem, name, solution=solution)
    assert exact.upper_bound == pytest.approx(solution.upper_bound, rel=1e-9)
    assert exact.unspent is not None
    assert min(exact.shortfall, exact.congestion, exact.unspent) >= -1e-12
    terms = exact.shortfall + exact.congestion + exact.unspent
    assert terms == pytest.approx(exact.upper_bound - exact.value, abs=1e-9)
    drawn = gap(problem, name, solution=solution, method="simulated", draws=2000, rng=3)
    assert np.all(np.abs(exact.terms - drawn.terms) <= 6 * drawn.terms_se + 1e-9)


@pytest.mark.parametrize("problem", [binary(0), restless(1), combined()[0]])
def test_losses_of_episodes_average_to_the_gap(problem: Problem) -> None:
    """Theorem 1 episode by episode; also of arms that move at rest."""
    policy, solution = make_policy(problem, "greedy"), solve(problem, tol=1e-7)
    episodes = [follow(problem, policy, solution=solution, rng=seed) for seed in range(400)]
    losses = np.array([episode.running_loss[-1] for episode in episodes])
    expected = gap(problem, "greedy", solution=solution).gap
    assert abs(losses.mean() - expected) <= 5 * losses.std() / np.sqrt(400) + 1e-9
    for episode in episodes[:20]:
        for stage, arms in enumerate(episode.pulled):
            pulls = np.bincount(arms, minlength=problem.n_arms)
            assert np.all(pulls @ problem.uses <= problem.supply[stage] + 1e-9)


@pytest.mark.parametrize("problem", [binary(0), binary(3), *combined()])
def test_information_bound_lies_between_optimum_and_dual(problem: Problem) -> None:
    solution, best = solve(problem, tol=1e-7), optimum(problem).value
    for weight in (0.0, 0.5, 1.0):
        found = information_bound(problem, solution=solution, draws=400, rng=2, weight=weight)
        assert found.information >= best - 5 * found.information_se
        if weight == 1.0:
            assert found.information <= solution.upper_bound + 1e-9


def summaries(ends: Endings) -> np.ndarray:
    """Pulls of every arm, and whether it stopped, by ending."""
    return np.column_stack([ends.pulls, ends.reason > 0]).astype(float)


RULES = [
    {},
    {"burn_in": 2, "stop": {"superiority": 0.9}},
    {"stop": {"superiority": 0.9}, "looks": {"first": 3, "every": 2}, "delay": 1},
]


@pytest.mark.parametrize("rules", RULES, ids=["none", "burn-in", "delay"])
@pytest.mark.parametrize("shape", [{}, {"repeat": True, "pulls_per_stage": 4, "unit": 2}])
@pytest.mark.parametrize("name", ["greedy", "deco"])
def test_designs_share_out_resources(name: str, shape: dict, rules: dict) -> None:
    """Followed and simulated; burn-in gets every arm its pulls, although both do not fit."""
    arms = [Arm(name="a", uses={"bed": 1.0}), Arm(name="b", uses={"bed": 2.0})]
    beds = 4.0 if shape else 2.0
    problem = Problem(horizon=6, arms=arms, resources={"bed": beds}, **shape)
    ruled, truth = RuledPolicy(make_policy(problem, name), Rules(**rules)), (0.3, 0.8)
    exact, drawn = follow_design(ruled, truth), play(ruled, truth, 10_000, (5,))
    mean = exact.weight @ summaries(exact)
    error = np.sqrt(exact.weight @ (summaries(exact) - mean) ** 2 / 10_000)
    assert np.all(np.abs(summaries(drawn).mean(axis=0) - mean) <= 5 * error + 1e-9)
    assert np.max(exact.pulls @ [1.0, 2.0]) <= 6 * beds
    if "burn_in" in rules:
        assert exact.pulls[exact.reason == 0].min() >= 2


@pytest.mark.parametrize("verb", ["trial", "dual_value"])
def test_other_verbs_refuse_resources(verb: str) -> None:
    problem = binary(0)
    calls = {
        "trial": lambda: settings_from(Context(problem), policy="deco"),
        "dual_value": lambda: dual_value(problem, np.zeros(4)),
    }
    with refused("unsupported", "resources"):
        calls[verb]()


def test_other_policies_refuse_resources() -> None:
    for name in ("equal", "knowledge-gradient"):
        with refused("unsupported", "policy"):
            make_policy(binary(0), name)
