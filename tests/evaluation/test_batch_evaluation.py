"""Exact values of policies in batches, against a recursion over dictionaries."""

import numpy as np
import pytest

from decobandit import Problem, Reward, Terminal, evaluate, make_policy, optimum
from decobandit.joint import ArmStates
from decobandit.policies import Policy
from decobandit.problem import State
from helpers.batch_oracles import random_problem
from helpers.batch_values import policy_value, value_at_truth
from helpers.program import deco as run_deco
from helpers.refusals import refused

SMALL = Problem.uniform(
    arms=2,
    horizon=2,
    pulls_per_stage=4,
    unit=2,
    repeat=True,
    terminal=Terminal(deploy=6.0),
    reward=Reward(good=1.0, bad=-0.5),
)


@pytest.mark.parametrize("kind", ["plain", "deployment", "tables"])
def test_values_are_those_of_the_recursion(kind: str) -> None:
    rng = np.random.default_rng(12)
    for _ in range(4):
        problem = random_problem(rng, kind)
        best = optimum(problem).value
        for name in ("deco", "greedy", "equal"):
            policy = make_policy(problem, name)
            found = evaluate(problem, policy)
            assert found.value == pytest.approx(policy_value(policy), abs=1e-9)
            assert found.value <= best + 1e-9
            assert found.probability == pytest.approx(1.0)
            pulls = problem.horizon * problem.pulls_per_stage
            assert sum(found.group_pulls) == pytest.approx(pulls)


class LastArm(Policy):
    """All pulls to the last arm, after more bad outcomes than good ones to the first."""

    name = "last-arm"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def select(self, stage: int, state: State, rng: object = None) -> tuple[int, ...]:
        units = self.problem.units if stage < self.problem.horizon else 1
        return (0 if state.bad[-1] > state.good[-1] else self.problem.n_arms - 1,) * units


@pytest.mark.parametrize("kind", ["plain", "deployment", "tables"])
def test_a_policy_that_is_not_symmetric_is_followed_arm_by_arm(kind: str) -> None:
    rng = np.random.default_rng(5)
    equal = Problem.uniform(arms=3, horizon=2, pulls_per_stage=2, repeat=True)
    for problem in (equal, random_problem(rng, kind), random_problem(rng, kind)):
        policy = LastArm(problem)
        assert evaluate(problem, policy).value == pytest.approx(policy_value(policy), abs=1e-9)


def test_moments_at_a_truth() -> None:
    truth = (0.7, 0.4)
    for name in ("greedy", "deco-repriced"):
        policy = make_policy(SMALL, name)
        found = evaluate(SMALL, policy, truth=truth)
        assert found.value == pytest.approx(value_at_truth(policy, truth), abs=1e-9)
        assert found.variance is not None
        assert found.arm_pulls is not None
        assert sum(found.arm_pulls) == pytest.approx(8.0)


def test_the_variance_of_equal_allocation_is_binomial() -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    found = evaluate(problem, "equal", truth=(0.7, 0.4))
    assert found.value == pytest.approx(4 * 0.7 + 4 * 0.4)
    assert found.variance == pytest.approx(4 * 0.7 * 0.3 + 4 * 0.4 * 0.6)
    # the better arm has more good outcomes of 4, or as many and half of the ties
    chance = sum(
        _binomial(a, 0.7) * _binomial(b, 0.4) * (1.0 if a > b else 0.5 * (a == b))
        for a in range(5)
        for b in range(5)
    )
    assert found.best_arm_probability == pytest.approx(chance)


def _binomial(x: int, p: float) -> float:
    return float([1, 4, 6, 4, 1][x] * p**x * (1 - p) ** (4 - x))


def test_policies_that_draw_are_refused() -> None:
    for policy in (make_policy(SMALL, "thompson"), make_policy(SMALL, "equal", ties="random")):
        with refused("unsupported", "policy"):
            evaluate(SMALL, policy)


def test_too_many_states_are_refused() -> None:
    with refused("too_large"):
        evaluate(SMALL, "equal", limit_states=10)


def test_the_command_compares_with_the_bound() -> None:
    run = run_deco(
        "evaluate",
        "--arms",
        2,
        "--horizon",
        2,
        "--batch",
        4,
        "--unit",
        2,
        "--policy",
        "deco,greedy",
        "--json",
    )
    assert [each["policy"] for each in run.json["policies"]] == ["deco", "greedy"]
    assert all(each["certified_gap_percent"] >= 0 for each in run.json["policies"])


def test_expected_rewards_are_found_for_the_pulls_that_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Greedy gives a whole batch to one arm, or splits ties evenly: no other number of units."""
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=20, repeat=True, unit=2)
    asked, all_expected = set[int](), ArmStates.all_expected

    def noted(arm: ArmStates, code: int, pulls: int, unit: int) -> np.ndarray:
        asked.add(pulls)
        return all_expected(arm, code, pulls, unit)

    monkeypatch.setattr(ArmStates, "all_expected", noted)
    policy, made = make_policy(problem, "greedy"), set[int]()
    evaluate(
        problem,
        policy,
        watch=lambda stage, occupied: made.update(
            int(n) for one in occupied for n in 2 * np.flatnonzero(one.masses.any(axis=0))
        ),
    )
    assert asked == made - {0}
    assert len(asked) < 10
