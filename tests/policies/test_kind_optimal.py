"""The optimal policy of small problems whose outcomes are finitely many."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from decobandit import (
    Arm,
    DirichletCategorical,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    evaluate,
    make_policy,
    optimum,
)
from decobandit.problem import States
from helpers.refusals import refused

GRADES = Reward(values=[0, 1, 3])
MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 1.0, "next": {"fine": [0.7, "new"], "worn": [0.3, "old"]}},
        "old": {"mean": 0.2, "next": {"fine": [1.0, "old"]}},
    },
)
PROBLEMS = {
    "classes": Problem.uniform(
        arms=3, horizon=4, prior=DirichletCategorical([1, 1, 1]), reward=GRADES
    ),
    "two pulls": Problem(
        horizon=3,
        pulls_per_stage=2,
        arms=[
            *(
                Arm(name=name, prior=DirichletCategorical([1, 1, 1]), reward=GRADES)
                for name in "ac"
            ),
            Arm(name="b", prior=DirichletCategorical([2, 1, 2]), reward=GRADES),
        ],
    ),
    "own": Problem(horizon=6, arms=[Arm(name="m", prior=MACHINE), Arm(name="c"), Arm(name="d")]),
    "deployed": Problem(
        horizon=3,
        arms=[
            Arm(name=name, prior=DirichletCategorical([1, 2]), reward=Reward(values=[0, 2]))
            for name in "ab"
        ],
        terminal=Terminal(deploy=5),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_policy_earns_the_optimum(name: str) -> None:
    problem = PROBLEMS[name]
    best = optimum(problem).value
    assert evaluate(problem, "optimal").value == pytest.approx(best, abs=1e-12)
    assert evaluate(problem, "greedy").value <= best + 1e-12


def test_values_are_those_of_a_recursion_by_hand() -> None:
    """A machine that wears out beside a sure 0.5: the value of each pull, then the best ones."""
    sure = MarkovArm(first="s", states={"s": {"mean": 0.5, "next": {"any": [1.0, "s"]}}})
    problem = Problem(horizon=5, arms=[Arm(name="m", prior=MACHINE), Arm(name="s", prior=sure)])

    @cache
    def pulls(new: bool, left: int) -> tuple[float, float]:
        if left == 0:
            return 0.0, 0.0
        later = {state: max(pulls(state, left - 1)) for state in (True, False)}
        own = 1.0 + 0.7 * later[True] + 0.3 * later[False] if new else 0.2 + later[False]
        return own, 0.5 + later[new]

    policy = make_policy(problem, "optimal")
    for text, new, stage in (
        ("new/0,s/0", True, 0),
        ("old/1,s/1", False, 2),
        ("new/1,s/3", True, 4),
    ):
        state = State.parse(text, problem)
        np.testing.assert_allclose(
            policy.indices(stage, state), pulls(new, 5 - stage), rtol=0, atol=1e-12
        )


def test_what_has_no_optimum_is_refused_with_the_reason() -> None:
    normal = Problem.uniform(arms=2, horizon=3, prior=NormalNormal(0, 1), noise_sd=1.0)
    with refused("unsupported", "policy"):
        make_policy(normal, "optimal")
    large = Problem.uniform(
        arms=4, horizon=30, prior=DirichletCategorical([1, 1, 1]), reward=GRADES
    )
    with refused("too_large"):
        make_policy(large, "optimal")
    policy = make_policy(PROBLEMS["own"], "optimal")
    with refused("invalid_argument", "state"):
        policy.choose(State.parse("old/0,0/0,0/0", PROBLEMS["own"]))
    states = States.initial(PROBLEMS["own"], 1)
    with refused("unsupported", "policy"):
        policy.probabilities(0, replace(states, allowed=np.array([[True, True, False]])))
