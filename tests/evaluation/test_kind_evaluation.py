"""Exact values, gaps and truths of arms with finitely many states, by recursions of their own."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from decobandit import evaluate, gap, make_policy, optimum, simulate, solve
from decobandit.evaluation import states_ahead
from decobandit.policies import IndexPolicy, Policy
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Chain,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    State,
    TieRule,
    terminal_table,
)
from helpers.histories import (
    APART,
    GRADES,
    MIXED,
    OTHER,
    PROBLEMS,
    TRUTH,
    by_histories,
)
from helpers.refusals import refused

SINGLE = [name for name, problem in PROBLEMS.items() if not problem.repeat]


def served(*policies: str) -> list[tuple[str, str]]:
    """Problems with policies; FH-Gittins does not share batches of other outcomes."""
    return [
        (name, policy)
        for name in PROBLEMS
        for policy in policies
        if policy != "fh-gittins" or name in SINGLE
    ]


@pytest.mark.parametrize(("name", "policy"), served("deco", "fh-gittins", "greedy", "equal"))
def test_value_is_that_of_all_histories(name: str, policy: str) -> None:
    problem = PROBLEMS[name]
    found = evaluate(problem, policy)
    assert found.value == pytest.approx(by_histories(problem, policy, None)[0], abs=1e-10)
    assert found.probability == pytest.approx(1.0)
    assert sum(found.group_pulls) == pytest.approx(problem.horizon * problem.pulls_per_stage)


class LastArms(Policy):
    """Pulls the arms that stand last, at every other stage those before them."""

    name = "last-arms"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        arms, number = self.problem.n_arms, round(self.problem.pulls[stage])
        return tuple((arms - 1 - stage % 2 - i) % arms for i in range(number))


class LastKind(IndexPolicy):
    """Values arms by their position."""

    name = "last-kind"

    def values(self, stage: int, states: Any, rng: object = None) -> np.ndarray:
        return np.tile(np.arange(float(self.problem.n_arms)), (len(states), 1))


@pytest.mark.parametrize("make", [LastArms, LastKind])
@pytest.mark.parametrize("name", [*SINGLE, "apart"])
def test_outside_policies_are_followed_arm_by_arm(name: str, make: Any) -> None:
    """Their symmetry is not declared."""
    problem = {**PROBLEMS, "apart": APART}[name]
    policy = make(problem)
    found = evaluate(problem, policy)
    assert not found.merged
    assert found.value == pytest.approx(by_histories(problem, policy, None)[0], abs=1e-10)
    assert gap(problem, policy).value == pytest.approx(found.value, abs=1e-9)


SYMMETRIC = ("deco", "fh-gittins", "greedy", "equal", "bayes-ucb", "knowledge-gradient", "optimal")


@pytest.mark.parametrize("policy", SYMMETRIC)
@pytest.mark.parametrize("ties", ["least-pulled", "most-pulled", "first", "last"])
def test_ties_between_groups_that_alternate(policy: str, ties: TieRule) -> None:
    made = make_policy(APART, policy, ties=ties)
    found = evaluate(APART, made)
    assert found.value == pytest.approx(by_histories(APART, made, None)[0], abs=1e-10)


@pytest.mark.parametrize("policy", ["fh-gittins", "greedy"])
def test_value_and_variance_at_a_truth_are_those_of_all_histories(policy: str) -> None:
    found = evaluate(MIXED, policy, truth=TRUTH)
    first, second = by_histories(MIXED, policy, TRUTH)
    assert found.value == pytest.approx(first, abs=1e-10)
    assert found.variance == pytest.approx(second - first**2, abs=1e-10)
    assert found.regret is None  # own states: no arm is best
    assert found.to_dict()["truth"] == [[0.2, 0.5, 0.3], 0.4, None]


def test_regret_at_a_truth_and_the_chance_of_the_best_arm() -> None:
    problem = Problem(arms=[GRADES, OTHER], horizon=3)
    found = evaluate(problem, "greedy", truth=[[0, 1, 0], [1, 0]])  # worth 1 and 0.5, certainly
    # grades is expected to be worth 1.25, other 1: grades first, then 1.2, 1.167
    assert found.value == pytest.approx(3.0)
    assert found.regret == pytest.approx(0.0)
    assert found.best_arm_probability == pytest.approx(1.0)


def test_random_ties_are_followed_by_their_shares() -> None:
    problem = Problem(arms=[OTHER, OTHER.model_copy(update={"name": "b"})], horizon=2)
    means = {ties: evaluate(problem, "greedy", ties=ties).value for ties in ("first", "random")}
    assert means["first"] == pytest.approx(means["random"])  # equal arms: who is first is the same
    at = evaluate(problem, "greedy", ties="random", truth=[[1, 0], [0, 1]])
    # half begin with the bad one, whose mean falls to 0.875 < 1: then the other; half earn 2 + 2
    assert at.value == pytest.approx(0.5 * (0.5 + 2) + 0.5 * 4)


@pytest.mark.parametrize("name", ["mixed", "deployed", "equal"])
def test_optimum_is_above_every_policy_and_below_the_bound(name: str) -> None:
    best = optimum(PROBLEMS[name]).value
    assert evaluate(PROBLEMS[name], "deco").value <= best + 1e-9
    assert best <= solve(PROBLEMS[name]).upper_bound + 1e-9


@pytest.mark.parametrize(("name", "policy"), served("deco", "fh-gittins", "equal"))
def test_gap_is_the_sum_of_losses_by_stage(name: str, policy: str) -> None:
    problem = PROBLEMS[name]
    prices = solve(problem, tol=0.05)
    found = gap(problem, policy, solution=prices)
    assert found.method == "exact"
    assert found.value == pytest.approx(evaluate(problem, policy, solution=prices).value, abs=1e-12)
    assert found.shortfall + found.congestion == pytest.approx(found.gap, abs=1e-9)
    assert found.running_loss[-1] == pytest.approx(found.gap, abs=1e-9)
    assert found.by_arm is not None
    assert found.by_arm.sum() == pytest.approx(found.gap, abs=1e-9)


def test_simulated_gap_agrees_with_the_exact_one() -> None:
    prices = solve(MIXED)
    exact = gap(MIXED, "greedy", solution=prices)
    drawn = gap(MIXED, "greedy", solution=prices, method="simulated", draws=2000, per_draw=2)
    assert drawn.method == "simulated"
    assert drawn.value == pytest.approx(exact.value, abs=4 * drawn.value_se)
    for t in range(MIXED.horizon):
        error = 4 * drawn.congestion_by_stage_se[t] + 1e-9
        assert drawn.congestion_by_stage[t] == pytest.approx(
            exact.congestion_by_stage[t], abs=error
        )
    assert drawn.shortfall + drawn.congestion == pytest.approx(drawn.gap, abs=1e-9)


def test_gap_of_measurements_and_counts_is_simulated() -> None:
    arms = [
        Arm(name="lab", prior=NormalNormal(1, 1), noise_sd=1),
        Arm(name="n", prior=GammaPoisson(2, 2)),
    ]
    found = gap(Problem(arms=arms, horizon=6), "greedy", draws=3000, per_draw=1)
    assert found.method == "simulated"
    # on a grid up to what that adds to the bound, and the errors of both
    assert found.shortfall + found.congestion == pytest.approx(
        found.gap, abs=4 * found.value_se + 2e-3
    )
    with refused("unsupported"):
        gap(Problem(arms=arms, horizon=6), "greedy", method="exact")
    with refused("unsupported"):
        evaluate(Problem(arms=arms, horizon=6), "greedy")


def test_policies_that_draw_are_refused_and_sizes_foretold() -> None:
    with refused("unsupported", "policy"):
        evaluate(Problem(arms=[GRADES, OTHER], horizon=3), "thompson")
    with refused("too_large"):
        evaluate(MIXED, "equal", limit_states=5)


# -- truth in simulations -----------------------------------------------------------------------


def test_simulation_at_a_truth_agrees_with_the_exact_value() -> None:
    exact = evaluate(MIXED, "greedy", truth=TRUTH)
    drawn = simulate(MIXED, "greedy", truth=TRUTH, draws=4000, per_draw=1).results[0]
    assert drawn.value == pytest.approx(exact.value, abs=4 * drawn.value_se)
    plain = drawn.estimates.by_method["plain"].value_se
    assert plain == pytest.approx(math.sqrt((exact.variance or 0) / 4000), rel=0.05)


def test_truth_of_means_and_rates() -> None:
    arms = [
        Arm(name="lab", prior=NormalNormal(0, 1), noise_sd=1),
        Arm(name="n", prior=GammaPoisson(2, 2)),
    ]
    problem = Problem(arms=arms, horizon=10)
    found = simulate(problem, ["equal", "greedy"], truth=[0.5, 2.0], draws=2000, per_draw=1)
    equal, greedy = found.results
    assert equal.value == pytest.approx(5 * 0.5 + 5 * 2.0, abs=4 * equal.value_se)
    assert equal.estimates.by_method["expected"].value == pytest.approx(12.5)  # by the true means
    assert equal.regret == pytest.approx(20.0 - equal.value)
    assert greedy.regret == pytest.approx(0.0, abs=1e-9)  # the better one looks better throughout
    assert found.settings["truth"] == [0.5, 2.0]
    for truth, said in (
        ([0.5], "1 given; must be 2"),
        ([0.5, -1], "truth of n: .* zero or more"),
        (["x", 1], "truth of lab: .* must be a finite number"),
    ):
        with pytest.raises(ValueError, match=said):
            simulate(problem, "equal", truth=truth)
    with refused("invalid_argument", "truth"):
        evaluate(Problem(arms=[GRADES], horizon=1), "greedy", truth=[[0.5, 0.5]])


def test_controls_leave_the_value_where_it_is_and_narrow_its_error() -> None:
    problem = Problem(arms=[GRADES, OTHER], horizon=6)
    exact = evaluate(problem, "greedy").value
    found = simulate(problem, "greedy", draws=3000, per_draw=2).results[0]
    plain = found.estimates.by_method["plain"]
    fitted = found.estimates.by_method["regression"]
    assert fitted.value == pytest.approx(exact, abs=4 * fitted.value_se)
    assert fitted.value_se < 0.7 * plain.value_se
    assert np.isfinite(fitted.value_se)


def tabled(horizon: int) -> Problem:
    """An arm that pays 6 after one good outcome alone, 0.25 unpulled, beside classes."""
    table = terminal_table(
        horizon, lambda good, bad: {(1, 0): 6.0, (0, 0): 0.25}.get((good, bad), 0.0)
    )
    cure = Arm(name="cure", prior=BetaBernoulli(1, 1), reward=Reward(good=0, bad=0), terminal=table)
    classes = Arm(name="classes", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 1]))
    return Problem(arms=[cure, classes], horizon=horizon)


@pytest.mark.parametrize(
    ("policy", "value"),
    [("optimal", 3.5), ("equal", 3.5), ("greedy", 1.25), ("deco", 3.5), ("fh-gittins", 3.5)],
)
def test_tables_of_last_rewards_count_beside_other_outcomes(policy: str, value: float) -> None:
    problem = tabled(2)
    assert optimum(problem).value == pytest.approx(3.5)
    assert evaluate(problem, policy).value == pytest.approx(value)
    found = simulate(problem, policy, draws=400, rng=2).results[0]
    assert abs(found.value - value) < 4 * found.value_se
    assert found.value_se < 0.2


def test_variance_at_a_truth_has_last_rewards_of_tables() -> None:
    found = evaluate(tabled(2), "equal", truth=[0.5, [0.5, 0.5]])
    assert found.value == pytest.approx(3.5)
    assert found.variance == pytest.approx(9 + 0.25)


def test_announced_states_are_all_that_arms_in_their_places_can_reach() -> None:
    """Counted one by one: counts of three classes and of good and bad, before every stage."""
    three = Arm(
        name="a", prior=DirichletCategorical(counts=(1, 1, 1)), reward={"values": [0, 1, 2]}
    )
    problem = Problem(arms=[three, three.model_copy(update={"name": "b"})], horizon=4)
    level, total = {((0, 0, 0), (0, 0, 0))}, 0
    for _ in range(problem.horizon):
        total += len(level)
        level = {
            (*joint[:k], tuple(n + (c == i) for c, n in enumerate(joint[k])), *joint[k + 1 :])
            for joint, k, i in product(level, range(2), range(3))
        }
    assert states_ahead(problem) == total


def test_first_states_of_exchangeable_restless_arms_are_merged() -> None:
    """As many states as there are multisets: of 9 arms in 2 states, and in 1 of 2 afterwards."""
    chain = Chain(
        [[0.5, 0.5], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]], [1, 0], [0.1, 0.3], [0.5, 0.5]
    )
    problem = Problem.uniform(arms=9, horizon=1, prior=chain)
    found = evaluate(problem, "greedy")
    assert found.merged
    assert found.states == math.comb(9 + 1, 1)
    best = 0.0  # a pull costs .9 in state 0 and earns .3 in state 1, where a rest earns nothing
    for number in range(10):
        chance = math.comb(9, number) / 2**9  # of so many arms in state 1
        best += chance * (9 - number + 0.3 if number else 9 - 0.9)
    assert optimum(problem).value == pytest.approx(best, abs=1e-12)
    assert found.value <= best + 1e-12
