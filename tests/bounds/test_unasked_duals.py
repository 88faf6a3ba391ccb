"""Comparisons without a dual: it is solved where a policy needs it, where quick, or on request."""

from typing import Any

import pytest

from decobandit import Problem, simulate
from decobandit.bounds import compare_by_simulation, compare_exactly
from decobandit.policies import Context
from helpers.program import deco

LONG = Problem.uniform(arms=2, horizon=1200)
SHORT = Problem.uniform(arms=2, horizon=5)
SAMPLING: Any = {"draws": 2, "per_draw": 1}


def unsolvable(problem: Problem) -> Context:
    """Whoever solves its dual fails."""

    def fail(*given: Any) -> Any:
        raise AssertionError("the dual was solved")

    return Context(problem, solver=fail)


def test_no_dual_is_solved_for_a_policy_that_needs_none() -> None:
    found = compare_by_simulation(unsolvable(LONG), ["thompson"], **SAMPLING)
    assert (found.bound, found.left_out) == (None, True)
    assert found.to_dict()["upper_bound"] is None
    assert set(found.simulation.results[0].estimates.by_method) <= {"plain", "expected", "range"}
    assert simulate(LONG, "thompson", **SAMPLING).upper_bound is None


def test_no_dual_is_solved_where_beliefs_are_wrong() -> None:
    found = compare_by_simulation(unsolvable(SHORT), ["equal"], truth=[0.2, 0.4], **SAMPLING)
    assert (found.bound, found.left_out) == (None, False)


@pytest.mark.parametrize(("policy", "bound"), [("thompson", None), ("deco", False)])
def test_a_quick_dual_and_one_that_a_policy_needs_give_a_bound(
    policy: str, bound: bool | None
) -> None:
    sampled = compare_by_simulation(Context(SHORT), [policy], bound=bound, **SAMPLING)
    assert sampled.bound is not None
    assert sampled.bound.kind == "optimum"
    assert not sampled.left_out


def test_a_bound_that_is_not_wanted_is_not_computed() -> None:
    exact = compare_exactly(unsolvable(SHORT), ["greedy"], bound=False)
    assert (exact.bound, exact.solution, exact.left_out) == (None, None, False)
    assert exact.results[0].value > 2.5
    assert simulate(SHORT, "greedy", bound=False, **SAMPLING).upper_bound is None


@pytest.mark.parametrize("asked", [{"bound": True}, {"bound_draws": 50}])
def test_a_bound_that_is_asked_for_is_computed(asked: Any) -> None:
    with pytest.raises(AssertionError, match="solved"):
        compare_by_simulation(unsolvable(LONG), ["thompson"], **asked, **SAMPLING)


def test_the_table_says_that_there_is_no_bound_and_how_to_have_one() -> None:
    run = deco("simulate", "--arms", 2, "--horizon", 1200, "--policy", "thompson", "--draws", 2)
    assert run.code == 0
    assert "bound: not computed" in run.out
    assert "--bound computes it" in run.out
