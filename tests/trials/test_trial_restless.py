"""Trials of arms that move at rest: states of all arms are recorded after every stage."""

import numpy as np
import pytest

from decobandit import Chain, MarkovArm, Problem, TwoLevel, make_policy
from decobandit.problem import State, problem_to_dict
from decobandit.trials import create_trial, open_trial
from decobandit.trials.errors import BadOutcome, Conflict, LimitReached
from helpers.chain_oracles import problem_of
from helpers.refusals import refused

WEAR = Chain(
    [[0.8, 0.2, 0], [0, 0.7, 0.3], [0.05, 0, 0.95]],
    [[1, 0, 0], [0.9, 0.1, 0], [0.6, 0, 0.4]],
    [1, 0.6, 0],
    [0.5, 0.3, -0.2],
)
NAMED = MarkovArm(
    first="new",
    states={
        "new": {
            "mean": 0.5,
            "next": {"serviced": (1.0, "new")},
            "rest": {"new": 0.8, "worn": 0.2},
            "rest_reward": 1.0,
        },
        "worn": {
            "mean": 0.3,
            "next": {"renewed": (0.9, "new"), "same": (0.1, "worn")},
            "rest": {"worn": 1.0},
            "rest_reward": 0.6,
        },
    },
)
MACHINES = Problem.uniform(arms=3, horizon=5, prior=WEAR, pulls_per_stage=1)
NAMES = ("arm-1", "arm-2", "arm-3")


@pytest.fixture
def new(tmp_path):
    def make(problem=MACHINES, **settings):
        return create_trial(problem, name="machines", db=tmp_path / "t.db", **settings)

    return make


def moved(rng, states, pulls):
    """Return what the stage earns, and the states after it, as they are told."""
    earned = 0.0
    for k, name in enumerate(NAMES):
        rewards, moves = (
            (WEAR.reward, WEAR.pull) if name in pulls else (WEAR.rest_reward, WEAR.rest)
        )
        earned += rewards[states[k]]
        states[k] = int(rng.choice(3, p=moves[states[k]]))
    return earned, {name: str(state) for name, state in zip(NAMES, states, strict=True)}


@pytest.mark.parametrize("name", ["deco", "deco-rolling", "greedy", "whittle"])
def test_trial_follows_its_policy_and_counts_rests(new, name):
    trial, rng = new(policy=name), np.random.default_rng(7)
    policy, states, pulls, total = make_policy(MACHINES, name), [0, 0, 0], [0, 0, 0], 0.0
    for stage in range(5):
        asked = trial.ask()
        stats = [(n, s) for n, s in zip(pulls, states, strict=True)]
        chosen = policy.select(stage, State.of_stats(MACHINES, stats))
        assert asked.pulls == {NAMES[k]: 1 for k in chosen}
        assert asked.arm is None
        for k in chosen:
            pulls[k] += 1
        earned, told = moved(rng, states, asked.pulls)
        total += earned
        slot = trial.tell(asked.id, told)
        assert (slot.state, slot.told) == ("told", 1)
        assert {part.arm: part.seen for part in slot.arms} == told
    status = trial.status()
    assert status.finished
    assert status.earned == pytest.approx(total)
    assert [arm.seen for arm in status.arms] == [
        f"{state}/{n}" for state, n in zip(states, pulls, strict=True)
    ]
    assert trial.verify().ok
    assert trial.replay().ok
    again = open_trial("machines", db=trial.store)
    assert again.status().to_dict() == status.to_dict()


def test_bound_from_here_is_the_dual_of_the_stages_left(new):
    trial = new(policy="deco")
    start = trial.status()
    assert start.bound_from_here == pytest.approx(start.upper_bound, rel=1e-9)
    asked = trial.ask()
    waiting = trial.status()
    assert waiting.bound_from_here is None
    assert waiting.next_pulls is None
    trial.tell(asked.id, {"arm-1": "0", "arm-2": "1", "arm-3": "0"})
    assert trial.status().bound_from_here < start.bound_from_here


def test_states_of_all_arms_are_told_before_the_next_stage(new):
    trial = new()
    asked = trial.ask()
    with pytest.raises(LimitReached, match="states of all arms"):
        trial.ask()
    (pulled,) = asked.pulls
    for outcome in ("0", {pulled: "0"}, dict.fromkeys(NAMES, "0+0")):
        with pytest.raises(BadOutcome):
            trial.tell(asked.id, outcome)
    with pytest.raises(BadOutcome, match="cannot follow"):  # a new machine does not break at once
        trial.tell(asked.id, dict.fromkeys(NAMES, "2"))
    told = dict.fromkeys(NAMES, "0")
    slot = trial.tell(asked.id, told)
    assert trial.tell(asked.id, told) == slot  # said twice, recorded once
    with pytest.raises(Conflict):
        trial.tell(asked.id, told | {pulled: "1"})


def test_corrections_and_cancellations(new):
    trial = new()
    asked = trial.ask()
    (pulled,) = asked.pulls
    rested = next(name for name in NAMES if name != pulled)
    trial.tell(asked.id, dict.fromkeys(NAMES, "0"))
    slot = trial.correct(asked.id, {rested: "1"}, reason="misread")
    assert {part.arm: part.seen for part in slot.arms}[rested] == "1"
    with pytest.raises(BadOutcome, match="cannot follow"):
        trial.correct(asked.id, {pulled: "2"}, reason="misread")
    following = trial.ask()
    assert rested in following.pulls  # the worn one
    assert trial.cancel(following.id, reason="no crew").state == "cancelled"
    assert trial.ask().pulls == following.pulls


def test_named_states_are_told_by_state(new):
    problem = Problem.uniform(arms=2, horizon=3, prior=NAMED)
    trial = new(problem)
    asked = trial.ask()
    told = {name: "new" if name in asked.pulls else "worn" for name in ("arm-1", "arm-2")}
    trial.tell(asked.id, told)
    assert [arm.seen.split("/")[0] for arm in trial.status().arms] == list(told.values())
    rows = "".join(trial.outcomes_text()).splitlines()
    assert len(rows) == 3
    assert ",new," in rows[1]


def test_trials_refuse_what_they_cannot_follow(new):
    drawn = Chain(WEAR.rest, WEAR.pull, WEAR.rest_reward, WEAR.reward, first=[0.5, 0.5, 0])
    hidden = TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.5)
    for problem in (
        problem_of([WEAR, drawn], 3, 1),
        Problem.uniform(arms=2, horizon=3, prior=hidden),
    ):
        with refused("unsupported", "arms"):
            new(problem)
    trial = new()
    with refused("unsupported"):
        trial.close_arm("arm-1", reason="sold")
    assert problem_to_dict(trial.settings.problem) == problem_to_dict(MACHINES)
