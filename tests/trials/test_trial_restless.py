"""Trials of arms that move at rest: states of all arms are recorded after every stage."""

import numpy as np
import pytest

from decobandit import Chain, MarkovArm, Problem, TwoLevel, make_policy
from decobandit.problem import State, problem_from_dict, problem_to_dict
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
    with pytest.raises(LimitReached, match="states of the last stage"):
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


DRIFT = problem_from_dict(
    {
        "horizon": 6,
        "pulls_per_stage": 2,
        "arms": [
            {
                "name": "arm",
                "count": 3,
                "prior": {"kind": "normal", "mean": 5.0, "sd": 1.0},
                "noise_sd": 1.5,
                "drift_sd": 0.3,
            }
        ],
    }
)
TWO_LEVEL = Problem.uniform(
    arms=3, horizon=6, prior=TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.5)
)


def kalman(belief, outcome):
    """Return mean and variance of an arm after a stage, by textbook formulas; None: no pull."""
    mean, variance = belief
    if outcome is not None:
        gain = variance / (variance + 1.5**2)
        mean, variance = mean + gain * (outcome - mean), (1 - gain) * variance
    return mean, variance + 0.3**2


def filtered(high, outcome):
    """Return the probability of the high level after a stage, by Bayes; None: no pull."""
    if outcome is not None:
        likely, unlikely = (0.6, 0.2) if outcome else (0.4, 0.8)
        high = high * likely / (high * likely + (1 - high) * unlikely)
    return high * 0.9 + (1 - high) * 0.05


@pytest.mark.parametrize(
    "name", ["deco", "deco-rolling", "greedy", "thompson", "knowledge-gradient", "equal"]
)
def test_drifting_arms_are_followed_by_the_kalman_filter(new, name):
    m = 1 if name == "knowledge-gradient" else 2  # it chooses one arm at a time
    problem = DRIFT.model_copy(update={"pulls_per_stage": m})
    trial, rng = new(problem, policy=name), np.random.default_rng(3)
    beliefs = dict.fromkeys([arm.name for arm in DRIFT.arms], (5.0, 1.0))
    total = 0.0
    for _ in range(6):
        asked = trial.ask()
        if name == "greedy":
            best = sorted(beliefs, key=lambda arm: -beliefs[arm][0])[:2]
            assert sum(beliefs[arm][0] for arm in asked.pulls) == pytest.approx(
                sum(beliefs[arm][0] for arm in best)
            )
        outcomes = {arm: round(float(rng.normal(5.0, 1.8)), 3) for arm in asked.pulls}
        for arm, outcome in outcomes.items():
            trial.tell(asked.id, {arm: str(outcome)})
        total += sum(outcomes.values())
        beliefs = {arm: kalman(belief, outcomes.get(arm)) for arm, belief in beliefs.items()}
        status = trial.status()
        for arm in status.arms:
            mean, sd = map(float, arm.seen.split("/")[0].split("~"))
            assert (mean, sd**2) == pytest.approx(beliefs[arm.name], rel=1e-9)
    assert status.finished
    assert status.earned == pytest.approx(total)
    assert trial.verify().ok
    assert trial.replay().ok
    assert trial.report().earned == pytest.approx(total)


@pytest.mark.parametrize("name", ["deco", "deco-rolling", "greedy", "whittle"])
def test_hidden_levels_are_followed_by_bayes(new, name):
    trial, rng = new(TWO_LEVEL, policy=name), np.random.default_rng(5)
    beliefs = dict.fromkeys([arm.name for arm in TWO_LEVEL.arms], 0.5)
    bounds = []
    for _ in range(6):
        bounds.append(trial.status().bound_from_here)
        asked = trial.ask()
        assert asked.arm in beliefs
        if name == "greedy":
            assert beliefs[asked.arm] == pytest.approx(max(beliefs.values()))
        outcome = int(rng.random() < 0.4)
        assert trial.tell(asked.id, outcome).outcome == outcome
        told = {asked.arm: outcome}
        beliefs = {arm: filtered(belief, told.get(arm)) for arm, belief in beliefs.items()}
        for arm in trial.status().arms:
            assert float(arm.seen.split("/")[0]) == pytest.approx(beliefs[arm.name], rel=1e-9)
    assert trial.verify().ok
    assert trial.replay().ok
    assert bounds[0] == pytest.approx(trial.status().upper_bound, rel=1e-6)
    assert all(later < 0.6 * (6 - stage) for stage, later in enumerate(bounds))


def test_a_corrected_outcome_moves_all_later_beliefs(new):
    trial = new(TWO_LEVEL, policy="greedy")
    first = trial.ask()
    with refused("limit_reached"):  # levels are filtered stage by stage
        trial.ask()
    trial.tell(first.id, 1)
    second = trial.ask()
    trial.tell(second.id, 0)
    trial.correct(first.id, 0, reason="misread")
    beliefs = dict.fromkeys([arm.name for arm in TWO_LEVEL.arms], 0.5)
    for slot in (first, second):
        told = {slot.arm: 0}
        beliefs = {arm: filtered(belief, told.get(arm)) for arm, belief in beliefs.items()}
    found = {arm.name: float(arm.seen.split("/")[0]) for arm in trial.status().arms}
    assert found == pytest.approx(beliefs, rel=1e-9)


def test_an_arm_that_stays_at_rest_is_told_by_its_outcomes_alone(new):
    still = MarkovArm(
        first="cold",
        states={
            "cold": {"mean": 2.0, "next": {"warms": (1.0, "warm")}},
            "warm": {"mean": 0.9, "next": {"stays": (1.0, "warm")}},
        },
    )
    trial = new(problem_of([WEAR, still], 3, 1), policy="greedy")
    asked = trial.ask()
    assert asked.pulls == {"a1": 1}
    with pytest.raises(BadOutcome):  # the machine moved
        trial.tell(asked.id, {"a1": "warms"})
    trial.tell(asked.id, {"a0": "1", "a1": "warms"})
    asked = trial.ask()
    assert [arm.seen for arm in trial.status().arms] == ["1/0", "warm/1"]
    assert trial.status().earned == pytest.approx(WEAR.rest_reward[0] + 2.0)
    assert trial.replay().ok


def test_trials_refuse_what_they_cannot_follow(new):
    drawn = Chain(WEAR.rest, WEAR.pull, WEAR.rest_reward, WEAR.reward, first=[0.5, 0.5, 0])
    with refused("unsupported", "arms"):
        new(problem_of([WEAR, drawn], 3, 1))
    trial = new()
    with refused("unsupported"):
        trial.close_arm("arm-1", reason="sold")
    assert problem_to_dict(trial.settings.problem) == problem_to_dict(MACHINES)
