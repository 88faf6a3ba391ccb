"""The Gymnasium environment: its form by Gymnasium's checker, its returns by exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    InvalidArgument,
    Problem,
    RandomHorizon,
    Terminal,
    evaluate,
    make_policy,
)
from decobandit.problem import States
from decobandit.simulation.environment import ID, BanditEnv

MACHINE = Chain([[0.8, 0.2], [0.1, 0.9]], [[1.0, 0.0], [0.7, 0.3]], [1.0, 0.0], [0.4, -0.1])
PROBLEMS = {
    "single pulls": Problem.uniform(3, 6),
    "several arms": Problem.uniform(4, 4, pulls_per_stage=2),
    "batches and a deployment": Problem.uniform(
        2, 3, pulls_per_stage=4, repeat=True, unit=2, terminal=Terminal(deploy=5.0)
    ),
    "random end": Problem.uniform(2, RandomHorizon(law="geometric", mean=4, most=8)),
    "chains": Problem.uniform(3, 5, prior=MACHINE),
    "budget": Problem(
        horizon=5,
        budget=4.0,
        arms=[
            Arm(name="dear", prior=BetaBernoulli(2, 1), cost=2.0),
            Arm(name="cheap", cost=0.5),
        ],
    ),
    "windows": Problem(horizon=5, arms=[Arm(name="always"), Arm(name="late", available=(2, 5))]),
}


def registered(problem: Problem) -> Any:
    return gymnasium.make(ID, problem=problem)


@pytest.mark.parametrize(
    "name", ["single pulls", "several arms", "batches and a deployment", "chains"]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_accepts_the_environment(name: str) -> None:
    check_env(registered(PROBLEMS[name]).unwrapped, skip_render_check=True)


def player(problem: Problem, name: str) -> Callable[[dict[str, Any]], Any]:
    """Return actions of a policy for observations."""
    policy = make_policy(problem, name)

    def act(observation: dict[str, Any]) -> Any:
        left = observation.get("left")
        spent = None if left is None else problem.budget - left
        stage = int(observation["stage"][0])
        states = States(problem, observation["statistics"][None], spent=spent).at(stage)
        pulls = policy.allocate_many(stage, states, None)[0]
        if problem.repeat:
            return np.repeat(np.arange(problem.n_arms), pulls // problem.unit)
        if problem.pulls_per_stage > 1:
            return np.where(pulls, 1.0, -1.0)
        return int(pulls.argmax()) if pulls.any() else problem.n_arms

    return act


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mean_return_of_a_policy_is_its_exact_value(name: str) -> None:
    problem = PROBLEMS[name]
    env, act = BanditEnv(problem), player(problem, "greedy")
    returns = []
    for episode in range(1500):
        observation, _ = env.reset(seed=episode)
        total, ended = 0.0, False
        while not ended:
            observation, reward, ended, _, _ = env.step(act(observation))
            total += reward
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - evaluate(problem, "greedy").value) < 4.0 * error


def test_masks_say_what_can_be_pulled_and_paid() -> None:
    env = BanditEnv(PROBLEMS["windows"])
    assert env.reset(seed=1)[0]["action_mask"].tolist() == [1, 0]
    with pytest.raises(InvalidArgument) as error:
        env.step(1)
    assert error.value.field == "action"
    paying = BanditEnv(PROBLEMS["budget"])
    paying.reset(seed=1)
    paying.step(0)
    observation = paying.step(0)[0]
    assert observation["left"].tolist() == [0.0]
    assert observation["action_mask"].tolist() == [0, 0]
    assert paying.step(2)[1] == 0.0  # no pull, no reward


def test_problems_may_be_tables_and_seeds_repeat() -> None:
    table = {"horizon": 4, "arms": [{"name": "a"}, {"name": "b"}]}
    runs = []
    for _ in range(2):
        env = BanditEnv(table)
        env.reset(seed=7)
        runs.append([env.step(k % 2)[1] for k in range(4)])
    assert runs[0] == runs[1]
