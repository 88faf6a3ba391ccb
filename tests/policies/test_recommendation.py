"""Recommendations: the numbers of a case computed by hand, their JSON form, and refusals."""

import json

import pytest

from decobandit.policies import DecoPolicy, Recommendation, recommend
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State
from helpers.refusals import refused

BY_HAND = Problem(
    arms=(Arm(name="known", prior=BetaBernoulli(good=51, bad=49)), Arm(name="unknown")), horizon=2
)


def policy_by_hand() -> DecoPolicy:
    """At these prices a fresh unknown arm has index 1/2 + 1/2 (2/3 - 1/2) = 7/12."""
    return DecoPolicy(BY_HAND, [0.55, 0.5])


def recommendation(policy: DecoPolicy, state: State) -> Recommendation:
    return recommend(policy.problem, state, policy)


def test_recommendation_gives_the_numbers_computed_by_hand() -> None:
    found = recommendation(policy_by_hand(), State.fresh(2))
    assert found.chosen == ("unknown",)
    assert (found.stage, found.price) == (0, 0.55)
    known, unknown = found.arms
    assert (known.name, known.posterior_good, known.posterior_bad) == ("known", 51, 49)
    assert unknown.index == pytest.approx(7 / 12, rel=1e-15)
    assert unknown.expected_reward == 0.5


def test_recommendation_reports_observations_and_posteriors() -> None:
    found = recommendation(policy_by_hand(), State.of_counts(good=(0, 0), bad=(0, 1)))
    assert (found.chosen, found.stage, found.price) == (("known",), 1, 0.5)
    unknown = found.arms[1]
    assert (unknown.good, unknown.bad) == (0, 1)
    assert (unknown.posterior_good, unknown.posterior_bad) == (1, 2)
    assert unknown.expected_reward == pytest.approx(1 / 3)
    assert unknown.value_of_information == 0.0


def test_recommendation_as_json_has_the_keys_that_were_promised() -> None:
    tree = json.loads(json.dumps(recommendation(policy_by_hand(), State.fresh(2)).to_dict()))
    assert set(tree) == {"policy", "arm", "chosen", "stage", "price", "deploy", "arms"}
    assert tree["arm"] == tree["chosen"][0] == "unknown"
    for arm in tree["arms"]:
        assert set(arm) == {
            "name",
            "good",
            "bad",
            "posterior_good",
            "posterior_bad",
            "expected_reward",
            "value_of_information",
            "index",
        }
        assert arm["index"] == arm["expected_reward"] + arm["value_of_information"]


def test_recommendation_of_several_pulls_names_them_best_first() -> None:
    arms = (
        Arm(name="low", reward=Reward(good=0.5)),
        Arm(name="high", reward=Reward(good=2.0)),
        Arm(name="middle"),
    )
    problem = Problem(arms=arms, horizon=1, pulls_per_stage=2)
    found = recommendation(DecoPolicy(problem, [0.0]), State.fresh(3))
    assert found.chosen == ("high", "middle")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State.of_counts(good=(0,), bad=(0,)), "1 arms; must be 2"),
        (State.of_counts(good=(2, -1), bad=(0, 1)), "cannot be negative"),
        (State.of_counts(good=(2, 1), bad=(0, 0)), "3 pulls in all; must be at most 2"),
        (State.of_counts(good=(1, 1), bad=(0, 0)), "all 2 stages have been played"),
    ],
)
def test_recommendation_refuses_states_that_cannot_occur(state: State, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recommendation(policy_by_hand(), state)


def test_recommendation_waits_for_the_end_of_a_stage() -> None:
    policy = DecoPolicy(Problem.uniform(arms=3, horizon=2, pulls_per_stage=2), [0.5, 0.5])
    with refused("invalid_argument"):
        recommendation(policy, State.of_counts(good=(1, 0, 0), bad=(0, 0, 0)))
