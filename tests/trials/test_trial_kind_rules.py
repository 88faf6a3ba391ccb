"""Rules of a design in trials of arms with any outcomes: as simulated, and by formulas."""

from collections import Counter
from collections.abc import Iterator
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.designs.playing import OutcomeTable, play
from decobandit.policies import REASONS, RuledPolicy
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    FinalTest,
    GammaPoisson,
    Looks,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    Rules,
    Stop,
)
from decobandit.trials import Trial, create_trial, open_store
from decobandit.trials.errors import Stopped, TrialError
from helpers.refusals import refused

NORMAL = Problem(
    arms=[
        Arm(name=name, prior=NormalNormal(0.0, 1.0), noise_sd=1.0)
        for name in ("old", "new", "newer")
    ],
    horizon=30,
)
MIXED = Problem(
    arms=[
        Arm(name="grades", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
        Arm(name="lab", prior=NormalNormal(1.0, 0.5), noise_sd=1.0),
        Arm(name="events", prior=GammaPoisson(2, 2)),
        Arm(name="cure", prior=BetaBernoulli(1, 1)),
    ],
    horizon=40,
)
OUTCOMES: dict[str, Any] = {"grades": 2, "lab": -0.5, "events": 0, "cure": 0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with open_store(str(tmp_path / "trials.db")) as made:
        yield made


def better(stats: list[tuple[int, float]]) -> list[float]:
    """P(mean > that of the first), of pulls and sums, priors N(0, 1), noise 1: by hand."""
    means = [total / (1 + n) for n, total in stats]
    variances = [1 / (1 + n) for n, _ in stats]
    return [
        0.5 * (1 + erf((m - means[0]) / sqrt(2 * (v + variances[0]))))
        for m, v in zip(means, variances, strict=True)
    ]


def test_looks_decide_as_the_normal_law_does(store: Any) -> None:
    rules = Rules(
        control="old", looks=Looks(first=6, every=3), stop=Stop(superiority=0.95, inferiority=0.1)
    )
    outcomes = {"old": 0.1, "new": 0.9, "newer": -0.6}
    trial = create_trial(NORMAL, policy="equal", db=store, design=rules, seed=1)
    stats, left, stopped = dict.fromkeys(outcomes, (0, 0.0)), set(outcomes), ""
    for told in range(1, 31):
        slot = trial.ask()
        assert slot.arm in left
        trial.tell(slot.id, outcomes[slot.arm])
        n, total = stats[slot.arm]
        stats[slot.arm] = (n + 1, total + outcomes[slot.arm])
        if told < 6 or told % 3:
            continue
        found = dict(zip(stats, better(list(stats.values())), strict=True))
        if any(found[name] >= 0.95 for name in left - {"old"}):
            stopped = "superiority"
            break
        left -= {name for name in left - {"old"} if found[name] <= 0.1}
        assert set(trial.status().dropped) == set(outcomes) - left
    assert (stopped, trial.status().stopped) == ("superiority", "superiority")
    assert left == {"old", "new"}
    with refused("closed"):
        trial.ask()
    assert trial.declared() == ("new",)
    assert trial.replay().ok


@pytest.mark.parametrize(
    ("problem", "truth"),
    [(NORMAL, (0.0, 0.5, 0.2)), (MIXED, ((0.5, 0.3, 0.2), 0.9, 1.1, 0.4))],
    ids=["normal", "mixed"],
)
def test_a_trial_ends_as_the_design_simulates_it(store: Any, problem: Problem, truth: Any) -> None:
    """A policy that draws nothing, on the outcomes of the simulated trials."""
    control = problem.arms[0].name
    rules = Rules(
        control=control,
        burn_in=2,
        looks=Looks(first=12, every=4),
        stop=Stop(superiority=0.9, inferiority=0.15),
        test=FinalTest(threshold=0.8),
    )
    trials = 2
    policy = RuledPolicy(make_policy(problem, "greedy"), rules)
    ends = play(policy, truth, trials, (7,))
    stream = np.random.default_rng(np.random.SeedSequence((7, 0)).spawn(2)[0])
    known = OutcomeTable(stream, trials, problem, truth).table
    names = [arm.name for arm in problem.arms]
    played = []
    for number in range(trials):
        trial = create_trial(
            problem, policy="greedy", db=store, design=rules, bound=False, seed=number
        )
        given: Counter[str] = Counter()
        try:
            for _ in range(problem.horizon):
                slot = trial.ask()
                k, n = names.index(slot.arm), given[slot.arm]
                given[slot.arm] += 1
                step = known[number, k, n + 1] - known[number, k, n]
                trial.tell(slot.id, outcome(trial, slot.arm, step))
        except Stopped:
            pass
        assert trial.replay().ok
        said = trial.declared()
        played.append((tuple(given[name] for name in names), trial.status().stopped or "", said))
    wanted = sorted(
        (tuple(pulls.tolist()), REASONS[reason])
        for pulls, reason in zip(ends.pulls, ends.reason, strict=True)
    )
    assert sorted((pulls, reason) for pulls, reason, _ in played) == wanted
    assert all(said is not None for _, _, said in played)


def outcome(trial: Trial, arm: str, step: Any) -> Any:
    """The outcome by which statistics of an arm have changed."""
    word = trial.kinds[arm].word
    if word == "good-or-bad":
        return int(step[0])
    if word == "categorical":
        return int(np.argmax(step))
    return int(step[1]) if word == "count" else float(step[1])


def test_burn_in_floor_and_share_of_control_are_obeyed(store: Any) -> None:
    rules = Rules(burn_in=2, floor=0.15, control="lab", control_share=0.3)
    trial = create_trial(MIXED, policy="greedy", db=store, design=rules, bound=False, seed=2)
    first = [trial.ask() for _ in range(8)]  # while all are pending
    assert Counter(slot.arm for slot in first) == dict.fromkeys(OUTCOMES, 2)
    assert first[0].reason == f"{first[0].arm}: burn-in, 2 pulls of every arm first"
    for slot in first:
        trial.tell(slot.id, OUTCOMES[slot.arm])
    later = []
    for _ in range(32):
        later.append(trial.ask())
        trial.tell(later[-1].id, OUTCOMES[later[-1].arm])
    # greedy alone would stay with the grades: floors of 0.15 for two arms, 0.3 for control
    said = "drawn by greedy and the rules (grades 0.400, lab 0.300, events 0.150, cure 0.150)"
    assert said in later[0].reason
    given = Counter(slot.arm for slot in later)
    for name, p in (("grades", 0.4), ("lab", 0.3), ("events", 0.15), ("cure", 0.15)):
        assert abs(given[name] - 32 * p) <= 3.0 * sqrt(32 * p * (1 - p))
    assert trial.replay().ok


def test_a_look_keeps_what_was_known_when_it_fell_due(store: Any) -> None:
    rules = Rules(control="old", looks=Looks(first=9, every=100), stop=Stop(superiority=0.9))
    trial = create_trial(NORMAL, policy="equal", db=store, design=rules, seed=1)
    slots = [trial.ask() for _ in range(9)]
    for slot in slots:
        trial.tell(slot.id, {"old": -1.0, "new": 1.0, "newer": 0.0}[slot.arm])
    assert trial.status().stopped == "superiority"
    for slot in slots:  # later corrections do not undo it
        trial.correct(slot.id, 0.0, reason="a slip")
    assert trial.status().stopped == "superiority"
    assert trial.verify().ok


def test_a_z_test_declares_at_the_end(store: Any) -> None:
    # means of 4 outcomes each, noise 1: the difference has a standard deviation of 0.707
    for apart, declared in ((1.7, ("new",)), (1.0, ())):  # p-values 0.008 and 0.079
        rules = Rules(test=FinalTest(kind="z", alpha=0.025), control="old")
        arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1) for name in ("old", "new")]
        trial = create_trial(
            Problem(arms=arms, horizon=8), policy="equal", db=store, design=rules, bound=False
        )
        assert trial.declared() is None
        for _ in range(8):
            slot = trial.ask()
            trial.tell(slot.id, apart if slot.arm == "new" else 0.0)
        assert trial.declared() == declared


def test_rules_that_make_no_sense_are_refused_in_one_line(store: Any) -> None:
    table = MarkovArm(first="on", states={"on": {"mean": 1.0, "next": {"ok": (1.0, "on")}}})
    own = Problem(
        arms=[Arm(name="a", prior=table), Arm(name="b", prior=NormalNormal(0, 1), noise_sd=1)],
        horizon=5,
    )
    for problem, rules, said in (
        (own, Rules(stop=Stop(superiority=0.9)), "no unknown mean"),
        (NORMAL, Rules(test=FinalTest(kind="fisher", alpha=0.05), control="old"), "posterior"),
    ):
        with pytest.raises(TrialError, match=said) as caught:
            create_trial(problem, policy="greedy", db=store, design=rules, bound=False)
        assert "\n" not in str(caught.value)


def test_own_states_obey_burn_in_and_floor_and_declare_nothing(store: Any) -> None:
    table = MarkovArm(first="on", states={"on": {"mean": 1.0, "next": {"ok": (1.0, "on")}}})
    problem = Problem(arms=[Arm(name="a", prior=table), Arm(name="b", prior=table)], horizon=4)
    rules = Rules(burn_in=1, floor=0.5)
    trial = create_trial(problem, policy="greedy", db=store, design=rules, bound=False)
    arms = []
    for _ in range(4):
        slot = trial.ask()
        arms.append(slot.arm)
        trial.tell(slot.id, "ok")
    assert sorted(arms[:2]) == ["a", "b"]
    shares = [event.data["decision"]["probabilities"] for event in trial.events()[1::2]]
    other = [float(arm != arms[0]) for arm in ("a", "b")]
    assert shares == [[0.5, 0.5], other, [0.5, 0.5], [0.5, 0.5]]
    assert trial.declared() == ()
    assert trial.replay().differences == ()


# -- in batches ---------------------------------------------------------------------------------

SHARED = Problem(
    arms=[
        Arm(name=name, prior=NormalNormal(0.0, 1.0), noise_sd=1.0)
        for name in ("old", "new", "newer")
    ],
    horizon=6,
    pulls_per_stage=20,
    repeat=True,
    unit=2,
)


def told(trial: Trial, means: dict[str, float]) -> dict[str, int]:
    """One batch, whose outcomes are the means of their arms; pulls of every arm."""
    batch = trial.ask()
    given = dict.fromkeys(means, 0) | batch.pulls
    counts = {arm: (means[arm] * n, n) for arm, n in given.items() if n}
    trial.tell(batch.id, counts)
    return given


def test_batches_obey_floor_share_and_burn_in_within_a_unit(store: Any) -> None:
    rules = Rules(burn_in=6, control="old", control_share=0.3, floor=0.15)
    trial = create_trial(SHARED, policy="greedy", db=store, design=rules, bound=False, seed=5)
    means = {"old": 0.0, "new": 2.0, "newer": -1.0}
    assert sorted(told(trial, means).values()) == [6, 6, 8]
    for _ in range(5):
        given = told(trial, means)
        assert given["old"] == 6  # 0.3 of 20, three units
        assert given["newer"] in (2, 4)  # 0.15 of 20, in units of 2
        assert sum(given.values()) == 20
    assert trial.status().finished
    assert trial.replay().ok


def test_looks_between_batches_drop_and_stop_as_the_normal_law_does(store: Any) -> None:
    rules = Rules(
        control="old",
        looks=Looks(first=20, every=20),
        stop=Stop(superiority=0.999, inferiority=0.05),
    )
    trial = create_trial(SHARED, policy="equal", db=store, design=rules, bound=False, seed=5)
    means, stats = {"old": 0.0, "new": 0.5, "newer": -0.6}, dict.fromkeys(SHARED_NAMES, (0, 0.0))
    left, stopped = set(means), False
    for _ in range(6):
        given = told(trial, means)
        assert {arm for arm, n in given.items() if n} == left
        stats = {
            arm: (n + given[arm], total + means[arm] * given[arm])
            for arm, (n, total) in stats.items()
        }
        found = dict(zip(stats, better(list(stats.values())), strict=True))
        stopped = any(found[arm] >= 0.999 for arm in left - {"old"})
        if stopped:
            break
        left -= {arm for arm in left - {"old"} if found[arm] <= 0.05}
        assert set(trial.status().dropped) == set(means) - left
    assert left == {"old", "new"}
    assert (trial.status().stopped is not None) is stopped
    assert trial.replay().ok
    assert trial.verify().ok


SHARED_NAMES = ("old", "new", "newer")
