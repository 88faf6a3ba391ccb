"""Theorems 1 and 2: the gap of a policy is the sum of its shortfall and congestion."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from decobandit import make_policy
from decobandit.arm import OneArmValues
from decobandit.bounds import gap
from decobandit.policies import DecoPolicy, GreedyPolicy, Policy, ThompsonPolicy
from decobandit.policies.knowledge_gradient import KnowledgeGradientPolicy
from decobandit.policies.simple import EqualPolicy
from decobandit.prices import solve
from decobandit.problem import Problem, State
from helpers.examples import KINDS, at_stake, problems
from helpers.oracles import dual, good_chance
from helpers.program import deco as run_deco
from helpers.refusals import refused
from helpers.values import evaluated, gap_of

NAMES = {"policy", "upper_bound", "value", "gap", "shortfall", "congestion", "method", "stages"}


def by_enumeration(policy: Policy, relaxation: OneArmValues) -> tuple[list[float], list[float]]:
    """Expected shortfall and congestion by stage, over every sequence of outcomes."""
    problem, T = relaxation.problem, relaxation.problem.stages
    short, crowd = [0.0] * T, [0.0] * T

    def visit(t: int, state: State, chance: float) -> None:
        if t == T:
            return
        arms = policy.select(t, state)
        for arm, group in enumerate(problem.group_of_arm):
            index = relaxation.terms(t, int(group), (state.good[arm], state.bad[arm])).index
            excess = index - relaxation.prices[t]
            if arm in arms:
                short[t] += chance * max(-excess, 0.0)
            else:
                crowd[t] += chance * max(excess, 0.0)
        after = [(chance, state)]
        for arm in arms:
            p = good_chance(problem.arms[arm], state.pulls[arm], state.good[arm])
            after = [
                (w * q, s.after(arm, outcome))
                for w, s in after
                for q, outcome in ((p, True), (1.0 - p, False))
            ]
        for w, s in after:
            visit(t + 1, s, w)

    visit(0, State.fresh(problem.n_arms), 1.0)
    return short, crowd


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "deployed"])
def test_terms_are_those_of_every_sequence_of_outcomes(kind: str) -> None:
    problem = KINDS[kind](4)
    solution = solve(problem)
    relaxation = OneArmValues(problem, solution.prices)
    for policy in (make_policy(solution.problem, "deco", solution=solution), GreedyPolicy(problem)):
        found = gap_of(policy, solution=solution)
        short, crowd = by_enumeration(policy, relaxation)
        assert found.shortfall_by_stage == pytest.approx(short, abs=1e-12)
        assert found.congestion_by_stage == pytest.approx(crowd, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(problem=problems(max_horizon=4))
def test_upper_bound_minus_value_is_shortfall_plus_congestion(problem: Problem) -> None:
    solution = solve(problem, tol=1e-2)
    for policy in (
        make_policy(solution.problem, "deco", solution=solution),
        EqualPolicy(problem),
        GreedyPolicy(problem, ties="random"),
    ):
        found = gap_of(policy, solution=solution)
        assert found.method == "exact"
        # of two arms `evaluate` adds the same numbers in another order; else they are the same
        rounding = 1e-14 * at_stake(problem) if problem.n_arms == 2 else 0.0
        assert abs(found.value - evaluated(policy).value) <= rounding
        assert found.gap == pytest.approx(
            found.shortfall + found.congestion, abs=1e-11 * at_stake(problem)
        )
        assert found.by_arm is not None
        assert found.by_arm.sum() == pytest.approx(found.gap, abs=1e-11 * at_stake(problem))
        assert found.terms.min() >= 0.0


@pytest.mark.parametrize(("arms", "horizon"), [(3, 20), (5, 20), (2, 40)])
def test_identity_holds_to_nine_digits(arms: int, horizon: int) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    solution = solve(problem)
    found = gap_of(make_policy(solution.problem, "deco", solution=solution), solution=solution)
    assert abs(found.upper_bound - found.value - found.shortfall - found.congestion) < 1e-9


def test_any_prices_will_do() -> None:
    problem = Problem.uniform(arms=3, horizon=6)
    prices = np.linspace(0.2, 0.7, 6)
    solution = replace(solve(problem), multipliers=prices)
    short, crowd = by_enumeration(GreedyPolicy(problem), OneArmValues(problem, prices))
    found = gap(problem, GreedyPolicy(problem), solution=solution)
    assert found.upper_bound == pytest.approx(dual(problem, prices.tolist()), abs=1e-12)
    assert found.shortfall == pytest.approx(sum(short), abs=1e-12)
    assert found.congestion == pytest.approx(sum(crowd), abs=1e-12)
    assert found.gap == pytest.approx(sum(short) + sum(crowd), abs=1e-12)


def test_for_deco_an_arm_short_of_the_price_has_no_rival() -> None:
    # Theorem 2 on every path: never both terms at one stage with one pull
    problem = Problem.uniform(arms=3, horizon=6)
    solution = solve(problem)
    policy = DecoPolicy(problem, solution.prices)
    relaxation = policy.relaxation
    rng = np.random.default_rng(1)
    for _ in range(200):
        state = State.fresh(3)
        for t in range(6):
            (arm,) = policy.select(t, state)
            excess = [
                relaxation.terms(t, 0, (state.good[a], state.bad[a])).index - solution.prices[t]
                for a in range(3)
            ]
            shortfall = max(-excess[arm], 0.0)
            congestion = sum(max(excess[a], 0.0) for a in range(3) if a != arm)
            assert min(shortfall, congestion) <= 1e-12
            state = state.after(arm, bool(rng.random() < 0.5))


@pytest.mark.parametrize("kind", ["uniform", "several pulls", "deployed", "tabled"])
def test_simulated_terms_agree_with_exact_ones(kind: str) -> None:
    problem = KINDS[kind](6)
    solution = solve(problem)
    policy = EqualPolicy(problem)
    exact = gap_of(policy, solution=solution, method="exact")
    found = gap_of(policy, solution=solution, method="simulated", draws=4000, per_draw=3)
    assert found.method == "simulated"
    assert found.value == pytest.approx(exact.value, abs=4.5 * found.value_se)
    assert found.gap == pytest.approx(found.shortfall + found.congestion, abs=1e-9)
    assert (np.abs(found.terms - exact.terms) <= 4.5 * found.terms_se + 1e-12).all()


def test_a_policy_of_unknown_chances_is_simulated() -> None:
    problem = Problem.uniform(arms=3, horizon=4, pulls_per_stage=2)
    solution = solve(problem)
    assert gap(problem, ThompsonPolicy(problem), solution=solution, draws=50).method == "simulated"
    with refused("unsupported", "policy"):
        gap(problem, ThompsonPolicy(problem), solution=solution, method="exact")


def test_ties_drawn_by_a_policy_that_is_asked_are_followed() -> None:
    problem = Problem.uniform(arms=3, horizon=4)
    policy = KnowledgeGradientPolicy(problem, ties="random")
    exact, drawn = (gap(problem, policy, method=way) for way in ("exact", "simulated"))
    assert abs(drawn.value - exact.value) < 4.5 * drawn.value_se


def test_a_large_problem_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decobandit.bounds.gaps.MAX_STATES", 100)
    problem = Problem.uniform(arms=4, horizon=12)
    solution = solve(problem)
    assert gap(problem, "deco", solution=solution, draws=50).method == "simulated"


def test_settings_are_checked() -> None:
    problem = Problem.uniform(arms=2, horizon=3)
    solution = solve(problem)
    with refused("invalid_argument", "method"):
        gap(problem, "deco", solution=solution, method="guessed")
    with refused("invalid_argument", "solution"):
        gap_of(GreedyPolicy(Problem.uniform(arms=2, horizon=4)), solution=solution)


def test_command_prints_the_terms_of_every_stage() -> None:
    tree = run_deco("gap", "--policy", "deco", "--arms", 3, "--horizon", 20, "--json").json
    assert set(tree) >= NAMES
    assert tree["method"] == "exact"
    assert [each["stage"] for each in tree["stages"]] == list(range(20))
    assert abs(tree["upper_bound"] - tree["value"] - tree["shortfall"] - tree["congestion"]) < 1e-9
    assert tree["shortfall"] == pytest.approx(sum(each["shortfall"] for each in tree["stages"]))
    shown = run_deco("gap", "--arms", 3, "--horizon", 40)
    assert shown.code == 0
    assert "arms worth the price that were not pulled" in shown.out
    wrong = run_deco("gap", "--arms", 3, "--horizon", 4, "--method", "guessed")
    assert (wrong.code, wrong.out) == (2, "")
    assert "method: 'guessed'" in wrong.err
