"""Batches of arms with any outcomes: told as tallies, added up, decided on, checked again."""

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.problem import (
    Arm,
    ArmModel,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    OutcomeColumns,
    Problem,
    Reward,
    State,
    model_of,
    read_outcomes,
    read_tallies,
)
from decobandit.trials import (
    Trial,
    create_trial,
    open_store,
    open_trial,
    outcomes_csv,
    replay_export,
    verify_export,
)
from decobandit.trials.errors import BadOutcome, Damaged, TrialError
from decobandit.trials.events import new_event
from decobandit.trials.ledger import Ledger
from decobandit.trials.report_text import trial_page
from helpers.refusals import refused

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 1.0, "next": {"fine": (0.75, "new"), "worn": (0.25, "old")}},
        "old": {"mean": 0.25, "next": {"fine": (1.0, "old")}},
    },
)
GRADES = Arm(name="grades", prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 3]))
LAB = Arm(name="lab", prior=NormalNormal(1.0, 0.5), noise_sd=2.0, reward=Reward(factor=0.5))
EVENTS = Arm(name="events", prior=GammaPoisson(3, 2))
CURE = Arm(name="cure", prior=BetaBernoulli(1.5, 1))
OWN = Arm(name="machine", prior=MACHINE)
MIXED = Problem(
    arms=[GRADES, LAB, EVENTS, CURE, OWN], horizon=3, pulls_per_stage=10, repeat=True, unit=2
)
FOUR = Problem(arms=[GRADES, LAB, EVENTS, CURE], horizon=3, pulls_per_stage=8, repeat=True, unit=2)
TOLD: dict[str, Any] = {
    "grades": "0+1+1",
    "lab": "-0.75/2",
    "events": "4/2",
    "cure": "1/2",
    "machine": "fine+worn",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with open_store(str(tmp_path / "trials.db")) as made:
        yield made


def equal(store: Any, problem: Problem = MIXED, **settings: Any) -> Trial:
    return create_trial(problem, policy="equal", db=store, bound=False, **settings)


def test_tallies_add_up_to_the_posteriors_by_hand(store: Any) -> None:
    trial = equal(store)
    batch = trial.ask()
    assert {one.arm: one.pulls for one in batch.arms} == dict.fromkeys(TOLD, 2)
    told = trial.tell(batch.id, TOLD)
    assert (told.state, told.told, told.pending) == ("told", 10, 0)
    assert [one.seen for one in told.arms] == ["0+1+1", "-0.75/2", "4/2", None, "fine+worn"]
    assert (told.arms[3].good, told.arms[3].bad) == (1, 1)
    said = {arm.name: (arm.good, arm.seen, arm.posterior) for arm in trial.status().arms}
    assert said == {
        "grades": (None, "0+1+1", "Dirichlet(1, 3, 2)"),
        "lab": (None, "-0.75/2", "N(0.8472, sd 0.4714)"),  # (16 x 1 - 0.75) / (16 + 2)
        "events": (None, "4/2", "Gamma(7, 4)"),
        "cure": (1, None, None),
        "machine": (None, "old/2", "old"),
    }
    # 1 + 3, half of -0.75, 4, 1, and two pulls of a new machine
    assert trial.status().earned == pytest.approx(4 - 0.375 + 4 + 1 + 2, abs=1e-12)


@pytest.mark.parametrize("policy", ["deco", "thompson", "greedy", "equal"])
def test_a_trial_in_batches_is_logged_replayed_and_verified(store: Any, policy: str) -> None:
    trial = create_trial(FOUR, policy=policy, name="m", db=store, seed=4, tol=1e-2)
    first = trial.ask()
    part = {one.arm: one.pulls for one in first.arms if one.pulls}
    trial.tell(first.id, [(arm, ROWS[arm]) for arm in part])
    trial.ask()  # with most of the first pending
    trial.cancel(first.id, reason="over")
    trial.ask()
    found = trial.status()
    again = open_trial("m", db=store)
    assert again.status().to_dict() == found.to_dict()
    assert trial.verify().ok
    assert trial.replay().ok
    tree = json.loads(json.dumps(trial.export()))
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    assert "nan" not in trial_page(trial.report())


ROWS: dict[str, Any] = {"grades": 2, "lab": -0.75, "events": 4, "cure": 1, "machine": "fine"}


@pytest.mark.parametrize("policy", ["deco", "greedy"])
def test_with_nothing_pending_a_batch_is_what_the_policy_allots(store: Any, policy: str) -> None:
    trial = create_trial(FOUR, policy=policy, db=store, tol=1e-2)
    first = trial.ask()
    assert trial.solution is not None
    made = make_policy(FOUR, policy, solution=trial.solution)
    fresh = State.before(FOUR)
    assert tuple(first.pulls.get(arm.name, 0) for arm in FOUR.arms) == made.allocate(fresh)
    forms = {"grades": "0+0+{0}", "lab": "{0}/{0}", "events": "1/{0}", "cure": "{0}/{0}"}
    whole = {one.arm: forms[one.arm].format(one.pulls) for one in first.arms if one.pulls}
    trial.tell(first.id, whole)
    none = {"grades": "0+0+0", "lab": "0/0", "events": "0/0", "cure": "0/0"}
    text = ",".join((none | whole)[arm.name] for arm in FOUR.arms)
    second = trial.ask()
    expected = made.allocate(State.parse(text, FOUR))
    assert tuple(second.pulls.get(arm.name, 0) for arm in FOUR.arms) == expected


def test_parts_may_be_told_in_any_order(store: Any) -> None:
    problem = Problem(arms=[GRADES, LAB], horizon=4, pulls_per_stage=6, repeat=True, unit=1)
    parts = [{"grades": "1+0+0"}, {"grades": "0+1+1", "lab": "0.5/1"}, {"lab": "-0.25/2"}]
    seen = set()
    for number, order in enumerate(permutations(parts)):
        trial = equal(store, problem, name=f"t{number}")
        made = trial.ask()
        for part in order:
            trial.tell(made.id, part)
        seen.add(str(trial.status().arms[0].seen) + "," + str(trial.status().arms[1].seen))
    assert seen == {"1+1+1,0.25/3"}


def test_rows_tuples_and_text_say_the_same(store: Any) -> None:
    rows = [
        ("grades", 2),
        ("machine", "fine"),
        ("lab", -1),
        ("grades", 1),
        ("lab", 0.25),
        ("events", 4),
        ("events", 0),
        ("cure", "good"),
        ("machine", "worn"),
        ("cure", False),
    ]
    parts = {
        "grades": [0, 1, 1],
        "lab": (-0.75, 2),
        "events": (np.int64(4), 2),
        "cure": (1, 2),
        "machine": ["fine", "worn"],
    }
    told = []
    for number, given in enumerate([TOLD, parts, rows]):
        trial = equal(store, name=f"t{number}")
        told.append(trial.tell(trial.ask().id, given).arms)
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize(
    ("arm", "given", "said"),
    [
        ("grades", "1+1", "counts: grades: '1+1'; must be 3 counts, for example 0+1+2"),
        ("grades", (1, -1, 1), "must be 3 counts"),
        ("lab", "nan/1", "counts: lab: nan/1; must be a finite sum, and pulls zero or more"),
        ("lab", "1e300/1", "counts: lab: 1e+300/1; the sum must be a number, at most 1e+100"),
        ("lab", "1", "counts: lab: '1'; must be sum/pulls, for example 1.25/2"),
        ("lab", "1/-1", "must be sum/pulls"),
        ("lab", "1/0", "without pulls the sum is 0"),
        ("lab", None, "counts: lab: None; must be sum/pulls"),
        ("lab", (True, 1), "must be sum/pulls"),
        ("events", "0.5/1", "the sum of counts is a whole number"),
        ("events", "-1/1", "the sum of counts is a whole number"),
        ("cure", "2/1", "must be good/pulls"),
        ("machine", "fine+broken", 'counts: machine: outcome "broken"; must be fine or worn'),
        ("machine", "", "there are no outcomes in them"),
        ("engine", "1/1", "no arm is called 'engine'"),
    ],
)
def test_what_is_no_tally_of_the_arm_is_refused(
    store: Any, arm: str, given: Any, said: str
) -> None:
    trial = equal(store)
    batch = trial.ask()
    with pytest.raises(TrialError) as caught:
        trial.tell(batch.id, {arm: given})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert trial.allocation(batch.id) == batch


@pytest.mark.parametrize(
    ("arm", "outcome"),
    [("grades", 3), ("grades", "good"), ("lab", "x"), ("events", 0.5), ("machine", 1), ("cure", 2)],
)
def test_every_row_is_checked_against_the_kind_of_its_arm(
    store: Any, arm: str, outcome: Any
) -> None:
    trial = equal(store)
    batch = trial.ask()
    with refused("invalid", "outcome", kind=BadOutcome):
        trial.tell(batch.id, [("grades", 1), (arm, outcome)])
    assert trial.allocation(batch.id).told == 0


def test_more_outcomes_than_pulls_are_refused_and_logged(store: Any) -> None:
    trial = equal(store)
    batch = trial.ask()
    with refused("conflict", "outcome"):
        trial.tell(batch.id, {"grades": "1+1+1"})
    assert trial.events()[-1].kind == "refused"
    trial.tell(batch.id, {"lab": "1e99/1"})
    with refused("conflict", "outcome"):
        trial.correct(batch.id, {"grades": "1+0+0"}, reason="x")
    trial.correct(batch.id, {"lab": "0.5/2"}, reason="a slip")
    assert trial.status().arms[1].seen == "0.5/2"
    (fixed,) = trial.report().corrections
    assert (fixed.before, fixed.after) == ("1e+99/1", "0.5/2")
    assert trial.verify().ok


def test_own_states_are_told_in_the_order_of_their_pulls(store: Any) -> None:
    trial = equal(store)
    first, second = trial.ask(), trial.ask()
    with refused("invalid", "outcome", kind=BadOutcome):
        trial.tell(second.id, {"machine": "fine"})
    trial.tell(first.id, {"machine": "worn"})
    with refused("invalid", "outcome", kind=BadOutcome):
        trial.tell(first.id, {"machine": "worn"})
    trial.tell(first.id, {"machine": "fine"})
    trial.tell(second.id, {"machine": "fine"})
    assert trial.status().arms[4].seen == "old/3"
    assert trial.status().earned == pytest.approx(1.0 + 0.25 + 0.25, abs=1e-12)
    with refused("invalid", "outcome", kind=BadOutcome):  # one of the first would be pending
        trial.correct(first.id, {"machine": "fine"}, reason="x")
    trial.correct(first.id, {"machine": "fine+fine"}, reason="x")
    assert trial.status().arms[4].seen == "new/3"
    assert trial.replay().ok


def test_exported_batches_are_read_back(store: Any, tmp_path: Path) -> None:
    trial = equal(store)
    for _ in range(2):
        trial.tell(trial.ask().id, TOLD | {"machine": "fine+fine"})
    trial.ask()
    file = tmp_path / "out.csv"
    file.write_text(outcomes_csv(trial.events()), encoding="utf-8")
    assert "'-0.75/2" in file.read_text()  # no formula to a spreadsheet
    assert str(read_outcomes(MIXED, file)) == "0+2+2,-1.5/4,8/4,2/4,new/4"
    columns = OutcomeColumns()
    assert read_tallies(MIXED, file, columns) == {
        "grades": "0+2+2",
        "lab": "-1.5/4",
        "events": "8/4",
        "cure": "2/4",
        "machine": "fine+fine+fine+fine",
    }
    frame = trial.to_frame("allocations")
    assert frame["seen"].to_pylist()[:5] == ["0+1+1", "-0.75/2", "4/2", "1/2", "fine+fine"]
    assert "seen" not in outcomes_csv(trial.events(), masked=True)


def test_a_batch_of_different_arms_is_told_too(store: Any) -> None:
    problem = Problem(arms=[GRADES, LAB, OWN], horizon=3, pulls_per_stage=2)
    trial = create_trial(problem, policy="greedy", db=store, tol=1e-2)
    batch = trial.ask()
    given = {one.arm: ROWS[one.arm] for one in batch.arms if one.pulls}
    assert len(given) == 2
    trial.tell(batch.id, list(given.items()))
    assert trial.status().told == 2
    trial.ask()
    assert trial.replay().ok


@pytest.mark.parametrize(
    "told", ["1+1", "1+0+0 ", "+1+0+0", [1, 1], "0+0+0", "2+0+1", "", 3, None, "1.0+0+0"]
)
def test_forged_tallies_are_damage(store: Any, told: Any) -> None:
    trial = equal(store)
    batch, events = trial.ask(), trial.events()
    data = {"allocation": batch.id, "counts": {"grades": told}}
    forged = new_event(
        trial.id, 2, "told", data, previous=events[-1].hash, at=events[-1].at, by="x"
    )
    with pytest.raises(Damaged):
        Ledger(trial.id).extended([*events, forged])


def test_the_bound_from_here_has_closed_forms_at_both_ends(store: Any) -> None:
    problem = Problem(
        arms=[Arm(name=f"a{k}", prior=NormalNormal(0.0, 1.0), noise_sd=1.0) for k in range(2)],
        horizon=2,
        pulls_per_stage=4,
        repeat=True,
        unit=2,
    )
    trial = create_trial(problem, policy="deco", db=store)
    status = trial.status()
    assert status.bound_from_here == pytest.approx(status.upper_bound, rel=1e-9)
    batch = trial.ask()
    told = {one.arm: f"{one.pulls}/{one.pulls}" for one in batch.arms if one.pulls}
    trial.tell(batch.id, told)
    pulls = np.array([batch.pulls.get(arm.name, 0) for arm in problem.arms])
    means = pulls / (1.0 + pulls)  # outcomes of 1, prior N(0, 1), noise 1
    assert trial.solution is not None
    price = float(trial.solution.prices[1])  # of a unit
    exact = 2 * price + (2 * np.maximum(2 * means - price, 0.0)).sum()
    found = trial.status().bound_from_here
    assert found is not None
    assert exact - 1e-9 <= found <= exact * (1 + 1e-3)


def test_pending_outcomes_of_a_batch_have_their_law() -> None:
    rng, number = np.random.default_rng(1), 1500
    for arm, stats in ((GRADES, (1, 0, 2)), (LAB, (2, 1.5)), (EVENTS, (2, 5.0))):
        kind = model_of(arm)
        known = np.tile(np.array(stats, dtype=float), (number, 1))
        drawn = kind.sample(known, rng)
        one_by_one = ArmModel.sample_total(kind, drawn, known, 6, rng)
        together = kind.sample_total(kind.sample(known, rng), known, 6, rng)
        errors = np.hypot(one_by_one.std(axis=0), together.std(axis=0)) / number**0.5
        away = np.abs(one_by_one.mean(axis=0) - together.mean(axis=0))
        assert np.all(away <= 4.5 * errors + 1e-12)
        spread = together.std(axis=0) / np.maximum(one_by_one.std(axis=0), 1e-12)
        assert np.all((one_by_one.std(axis=0) == 0.0) | (np.abs(spread - 1.0) < 0.1))
