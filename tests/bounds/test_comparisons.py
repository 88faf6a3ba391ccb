"""Several policies beside one bound: the answers of each, and refusals before the long work."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from decobandit.bounds import (
    bound,
    compare_by_simulation,
    compare_exactly,
    compare_gaps,
    follow,
    follow_by_name,
    gap,
    gaps,
)
from decobandit.evaluation import evaluate
from decobandit.policies import Context, indices_of_arm, recommend, recommend_each
from decobandit.prices import DualSolution, solve
from decobandit.problem import BetaBernoulli, Problem
from decobandit.simulation import simulate
from helpers.refusals import refused

PROBLEM = Problem.uniform(arms=3, horizon=6)
NAMES = ("deco", "greedy")


def test_a_comparison_is_what_each_policy_earns_beside_the_bound() -> None:
    found = compare_exactly(Context(PROBLEM), NAMES, bound_draws=0)
    best = bound(PROBLEM, solution=solve(PROBLEM), draws=0)[0]
    assert found.bound == best
    for entry, name in zip(found.to_dict()["policies"], NAMES, strict=True):
        value = evaluate(PROBLEM, name).value
        assert (entry["policy"], entry["value"]) == (name, value)
        share = 100 * (best.value - value) / best.value
        assert entry["certified_gap_percent"] == pytest.approx(share)
    known = compare_exactly(Context(PROBLEM), NAMES, truth=(0.1, 0.2, 0.3))
    assert known.bound is None
    assert "certified_gap_percent" not in known.to_dict()["policies"][0]


def test_a_simulated_comparison_is_a_simulation_with_a_bound_where_beliefs_are_right() -> None:
    found = compare_by_simulation(Context(PROBLEM), NAMES, draws=40, rng=3, bound_draws=0)
    alone = simulate(PROBLEM, NAMES, draws=40, rng=3, solution=solve(PROBLEM))
    tree = found.to_dict()
    assert [entry["value"] for entry in tree["results"]] == [one.value for one in alone.results]
    assert tree["best_bound"] == bound(PROBLEM, solution=solve(PROBLEM), draws=0)[0].value
    wrong = compare_by_simulation(
        Context(PROBLEM), NAMES, draws=40, truth_prior=BetaBernoulli(good=2, bad=5)
    )
    assert wrong.bound is None
    assert "best_bound" not in wrong.to_dict()


def test_gaps_episodes_and_recommendations_are_those_of_single_calls() -> None:
    context, solution = Context(PROBLEM), solve(PROBLEM)
    gaps = [gap(PROBLEM, name, solution=solution).to_dict() for name in NAMES]
    assert [each.to_dict() for each in compare_gaps(context, NAMES)] == gaps
    episode = follow(PROBLEM, "greedy", solution=solution, rng=4).to_dict()
    both = follow_by_name(context, "greedy", rng=4, expected=True).to_dict()
    assert both.items() >= episode.items()
    assert both["expected_running_loss"][-1] == pytest.approx(gaps[1]["gap"])
    state = "1/1,0/1,0/0"
    single = [recommend(PROBLEM, state, name).to_dict() for name in NAMES]
    assert [each.to_dict() for each in recommend_each(context, NAMES, state)] == single


def unsolved(problem: Problem, tol: float) -> DualSolution:
    raise AssertionError("the long work has begun")


def test_policies_that_reach_too_many_states_are_refused_before_the_dual_is_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps, "evaluate", partial(evaluate, limit_states=1000))
    context = Context(Problem.uniform(arms=5, horizon=60), solver=unsolved)
    with refused("too_large"):
        compare_exactly(context, ["greedy"], bound=True)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: compare_exactly(c, ["deco", "nobody"]), "no policy is called 'nobody'"),
        (lambda c: compare_exactly(c, NAMES, bound_draws=3), "bound draws: 3"),
        (lambda c: compare_exactly(c, NAMES, truth=(0.5,)), "truth: 1 given"),
        (lambda c: compare_by_simulation(c, NAMES, draws=1), "draws: 1"),
        (lambda c: compare_by_simulation(c, NAMES, true_horizon=0), "true_horizon: 0"),
        (
            lambda c: compare_by_simulation(
                c, NAMES, truth=(0.1, 0.1, 0.1), truth_prior=BetaBernoulli(good=1, bad=1)
            ),
            "give one of the two",
        ),
        (lambda c: compare_gaps(c, NAMES, method="guessed"), "method: 'guessed'"),
        (lambda c: compare_gaps(c, NAMES, per_draw=0), "per_draw: 0"),
        (lambda c: follow_by_name(c, "deco", rng=-1), "seed: -1"),
        (lambda c: follow_by_name(c, "deco", truth=(2.0, 0.1, 0.1)), "2.0 is not allowed"),
        (lambda c: bound(c.problem, weight=2.0), "weight: 2.0"),
        (lambda c: recommend_each(c, NAMES, "7/6,0/0,0/0"), "good cannot exceed"),
        (lambda c: indices_of_arm(c, NAMES, "arm-9"), "no arm is called 'arm-9'"),
        (lambda c: indices_of_arm(c, NAMES, stage=6), "stage: 6"),
    ],
)
def test_settings_are_refused_before_the_dual_is_solved(
    call: Callable[[Context], Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        call(Context(PROBLEM, solver=unsolved))
