"""Two arms over dense arrays: published numbers, and the general recursion on small problems."""

import pytest

from decobandit import Arm, BetaBernoulli, Problem, Reward, evaluate, make_policy
from decobandit.evaluation.forward import Forward
from decobandit.problem import TieRule


def test_the_optimal_policy_of_binary_bandit() -> None:
    # BinaryBandit.jl, README: K = 2, T = 60, uniform priors, ties split by halves
    problem = Problem.uniform(arms=2, horizon=60)
    policy = make_policy(problem, "optimal", ties="random")
    assert evaluate(problem, policy).value == pytest.approx(38.562343246635564, abs=1e-11)
    found = evaluate(problem, policy, truth=[0.3, 0.5])
    assert found.value == pytest.approx(27.667781619675154, abs=1e-9)
    assert found.variance == pytest.approx(23.650456467947016, abs=1e-9)


UNLIKE = Problem(
    horizon=7,
    arms=[
        Arm(
            name="a",
            prior=BetaBernoulli(2, 3),
            reward=Reward(good=[1.0, 2, 1, 1, 3, 1, 1], bad=-0.5),
        ),
        Arm(name="b", prior=BetaBernoulli(1, 1), reward=Reward(good=1.5, bad=0.0)),
    ],
)


@pytest.mark.parametrize("problem", [Problem.uniform(arms=2, horizon=9), UNLIKE])
@pytest.mark.parametrize("ties", ["least-pulled", "last", "random"])
@pytest.mark.parametrize("name", ["greedy", "thompson", "optimal"])
@pytest.mark.parametrize("truth", [None, (0.2, 0.7)])
def test_dense_arrays_come_to_the_same_as_the_general_recursion(
    problem: Problem, ties: TieRule, name: str, truth: tuple[float, float] | None
) -> None:
    policy = make_policy(problem, name, ties=ties)
    found = evaluate(problem, policy, truth=truth)
    total = Forward(policy, truth, 10**6, None).run()
    assert found.stage_rewards == pytest.approx(total.rewards, abs=1e-9)
    assert found.probability == pytest.approx(1.0, abs=1e-12)
    if truth is not None:
        assert found.variance == pytest.approx(total.variance, abs=1e-8)
        assert found.arm_pulls == pytest.approx(total.pulls, abs=1e-8)
        assert found.best_arm_probability == pytest.approx(total.best_arm, abs=1e-8)


def test_under_a_null_there_is_no_best_arm_to_find() -> None:
    problem = Problem.uniform(arms=2, horizon=5)
    found = evaluate(problem, "greedy", truth=[0.4, 0.4])
    assert found.null
    assert found.to_dict()["best_arm_probability"] is None
