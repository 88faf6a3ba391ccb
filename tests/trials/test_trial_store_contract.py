"""What a trial promises, on every kind of database: SQLite and PostgreSQL pass the same tests."""

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import Arm, BetaBernoulli, Problem, State
from decobandit.trials import create_trial, list_trials, open_store, open_trial, verify_export
from decobandit.trials.errors import Conflict, NoFreeSlot, NotFound, StoreError
from helpers.nursery import Nursery
from helpers.policies import Bench
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

HORIZON = 8
PROBLEM = Problem(
    arms=tuple(
        Arm(name=name, prior=BetaBernoulli(good=good, bad=bad))
        for name, good, bad in (("a", 1.0, 1.0), ("b", 2.0, 1.5), ("c", 0.7, 0.9))
    ),
    horizon=HORIZON,
)


@pytest.fixture
def trial(db: str) -> Any:
    """A new trial; its store is closed afterwards."""
    with open_store(db) as store:
        yield create_trial(PROBLEM, name="wheat", db=store, seed=7)


def rows(sql: Any) -> list[tuple[Any, ...]]:
    """All events as the database has them."""
    return sql("SELECT trial_id, seq, kind, key, body, hash FROM events ORDER BY trial_id, seq")


def kinds(trial: Any) -> list[str]:
    return [event.kind for event in trial.events()]


def counts(trial: Any) -> dict[str, tuple[int, int]]:
    """Good and bad outcomes of every arm, from the events alone."""
    arm, outcome = {}, {}
    for event in trial.events():
        if event.kind == "asked":
            arm[event.data["allocation"]] = event.data["arm"]
        elif event.kind in ("told", "corrected"):
            outcome[event.data["allocation"]] = event.data["outcome"]
    found = {name: [0, 0] for name in "abc"}
    for slot, result in outcome.items():
        found[arm[slot]][1 - result] += 1
    return {name: (good, bad) for name, (good, bad) in found.items()}


# -- being found --------------------------------------------------------------------------------


def test_a_trial_is_found_by_id_and_by_name(db: str, trial: Any) -> None:
    with open_store(db) as other:
        assert open_trial(trial.id, db=other).name == "wheat"
        assert open_trial("wheat", db=other).id == trial.id
        assert open_trial("wheat", db=other).problem == PROBLEM
        assert [(one.id, one.name) for one in list_trials(db=other)] == [(trial.id, "wheat")]


def test_names_are_unique(db: str, trial: Any) -> None:
    with open_store(db) as other:
        with pytest.raises(Conflict):
            create_trial(PROBLEM, name="wheat", db=other)
        assert len(list_trials(db=other)) == 1
    assert kinds(trial) == ["created"]


def test_what_is_not_there_is_not_found(trial: Any) -> None:
    with pytest.raises(NotFound):
        open_trial("barley", db=trial.store)
    requests = (
        lambda name: trial.cancel(name, reason="gone"),
        lambda name: trial.tell(name, 1),
        lambda name: trial.correct(name, 0, reason="misread"),
        lambda name: trial.unmask(name, category="emergency", reason="an emergency"),
    )
    for request in requests:
        with pytest.raises(NotFound):
            request("nothing")
    other = create_trial(PROBLEM, name="rye", db=trial.store)
    with pytest.raises(NotFound):  # another trial's allocation is not this one's
        trial.tell(other.ask().id, 1)
    assert kinds(trial) == ["created"]


# -- slots and outcomes -------------------------------------------------------------------------


def test_asks_follow_the_policy(trial: Any) -> None:
    policy = Bench(PROBLEM).policy(trial.policy)
    good, bad = [0, 0, 0], [0, 0, 0]
    for stage in range(HORIZON):
        (arm,) = policy.select(stage, State.of_counts(good=tuple(good), bad=tuple(bad)))
        slot = trial.ask()
        assert (slot.arm, slot.stage) == (PROBLEM.arms[arm].name, stage)
        outcome = (stage * 5 + arm) % 3 == 0
        trial.tell(slot.id, outcome)
        (good if outcome else bad)[arm] += 1
    assert trial.status().finished


def test_the_horizon_is_a_hard_cap(trial: Any) -> None:
    slots = [trial.ask() for _ in range(HORIZON)]
    for _ in range(2):
        with pytest.raises(NoFreeSlot):
            trial.ask()
        for slot in slots:
            trial.tell(slot.id, 0)
    status = trial.status()
    assert (status.slots, status.allocated, status.told, status.remaining) == (8, 8, 8, 0)
    assert status.finished
    assert status.next_arm is None
    assert kinds(trial).count("asked") == HORIZON


def test_a_cancelled_slot_is_free_again(trial: Any) -> None:
    slots = [trial.ask() for _ in range(HORIZON)]
    cancelled = trial.cancel(slots[3].id, reason="gone")
    assert (cancelled.id, cancelled.state, cancelled.outcome) == (slots[3].id, "cancelled", None)
    assert trial.status().remaining == 1
    again = trial.ask()
    assert again.id not in {slot.id for slot in slots}
    with pytest.raises(NoFreeSlot):
        trial.ask()
    with pytest.raises(Conflict):  # its slot is somebody else's now
        trial.tell(slots[3].id, 1)
    with pytest.raises(Conflict):
        trial.correct(slots[3].id, 1, reason="misread")
    assert counts(trial) == dict.fromkeys("abc", (0, 0))


def test_outcomes_come_late_and_in_any_order(trial: Any) -> None:
    first = [trial.ask() for _ in range(4)]
    trial.tell(first[2].id, 1)
    later = [trial.ask() for _ in range(2)]
    for slot, outcome in ((later[1], 0), (first[0], 1), (first[3], 0)):
        trial.tell(slot.id, outcome)
    status = trial.status()
    assert {slot.id for slot in status.open} == {first[1].id, later[0].id}
    assert (status.told, status.allocated, status.stage) == (4, 6, 6)
    assert {arm.name: (arm.good, arm.bad) for arm in status.arms} == counts(trial)
    assert sum(arm.open for arm in status.arms) == 2


def test_posteriors_are_priors_plus_counts(trial: Any) -> None:
    for number in range(6):
        trial.tell(trial.ask().id, number % 2)
    for arm, status in zip(PROBLEM.arms, trial.status().arms, strict=True):
        good, bad = counts(trial)[arm.name]
        assert (status.good, status.bad) == (good, bad)
        assert status.posterior_good == pytest.approx(arm.beta.good + good)
        assert status.posterior_bad == pytest.approx(arm.beta.bad + bad)


# -- the same request twice, and requests that contradict ---------------------------------------


def test_a_repeated_request_is_answered_and_not_repeated(trial: Any) -> None:
    first = trial.ask(key="ask 1")
    assert trial.ask(key="ask 1") == first
    second = trial.ask(key="ask 2")
    assert second.id != first.id
    told = trial.tell(first.id, 1, key="tell 1")
    assert told == trial.tell(first.id, 1, key="tell 1") == trial.tell(first.id, True)
    gone = trial.cancel(second.id, reason="gone", key="cancel")
    assert gone == trial.cancel(second.id, reason="gone", key="cancel")
    assert gone == trial.cancel(second.id, reason="another reason")
    corrected = trial.correct(first.id, 0, reason="misread", key="correct")
    assert corrected == trial.correct(first.id, 0, reason="misread", key="correct")
    assert trial.ask(key="ask 1") == first  # as it was answered then
    assert trial.tell(first.id, 1, key="tell 1") == told
    assert kinds(trial) == ["created", "asked", "asked", "told", "cancelled", "corrected"]


def test_a_key_serves_one_request(trial: Any) -> None:
    slot, other = trial.ask(key="k"), trial.ask(key="l")
    trial.tell(slot.id, 1, key="m")
    uses = (
        lambda: trial.tell(other.id, 1, key="k"),
        lambda: trial.ask(key="m"),
        lambda: trial.tell(slot.id, 0, key="m"),
        lambda: trial.tell(other.id, 1, key="m"),
        lambda: trial.cancel(other.id, reason="gone", key="m"),
    )
    for use in uses:
        with pytest.raises(Conflict):
            use()
    assert [kind for kind in kinds(trial) if kind != "refused"] == [
        "created",
        "asked",
        "asked",
        "told",
    ]
    assert trial.tell(other.id, 0, key="n").outcome == 0  # a new key is as good as ever


def test_a_contradicting_tell_is_refused_and_logged(trial: Any) -> None:
    slot = trial.ask()
    trial.tell(slot.id, 1)
    before = counts(trial)
    with pytest.raises(Conflict):
        trial.tell(slot.id, 0, by="night shift")
    last = trial.events()[-1]
    assert (last.kind, last.by) == ("refused", "night shift")
    assert slot.id in json.dumps(last.data)
    assert counts(trial) == before
    assert trial.verify().ok


@pytest.mark.parametrize("memory", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_is_lost_with_the_process_is_refused(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused("unavailable", kind=StoreError):
        create_trial(PROBLEM, db=memory)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("outcome", [2, -1, 0.5, "1", None])
def test_an_outcome_is_0_or_1(sqlite: str, outcome: Any) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, db=store)
        slot = trial.ask()
        with refused("invalid", "outcome"):
            trial.tell(slot.id, outcome)
        assert kinds(trial) == ["created", "asked"]


def test_a_correction_is_added_and_changes_the_posterior(trial: Any, sql: Any) -> None:
    slot = trial.ask()
    with pytest.raises(Conflict):  # nothing to correct yet
        trial.correct(slot.id, 1, reason="misread")
    trial.tell(slot.id, 1)
    before, told = rows(sql), counts(trial)[slot.arm]
    assert trial.correct(slot.id, 0, reason="misread").outcome == 0
    assert rows(sql)[: len(before)] == before
    arm = next(arm for arm in trial.status().arms if arm.name == slot.arm)
    assert (told, (arm.good, arm.bad)) == ((1, 0), (0, 1))
    assert trial.replay().ok


# -- the record ---------------------------------------------------------------------------------


def random_life(trial: Any, rng: random.Random) -> None:
    """One random request; refusals are part of life."""
    known = [slot.id for slot in trial.allocations()] or ["none"]
    slot, outcome = rng.choice(known), rng.randrange(2)
    key = rng.choice([None, None, "k1", "k2", f"n{rng.randrange(10**9)}"])
    requests = (
        lambda: trial.ask(key=key),
        lambda: trial.tell(slot, outcome, key=key),
        lambda: trial.cancel(slot, reason="gone", key=key),
        lambda: trial.correct(slot, outcome, reason="misread", key=key),
    )
    with contextlib.suppress(Conflict, NotFound):
        rng.choices(requests, weights=[4, 4, 1, 1])[0]()


def test_events_are_only_ever_added(trial: Any, sql: Any) -> None:
    rng, before = random.Random(11), rows(sql)
    for _ in range(60):
        random_life(trial, rng)
        after = rows(sql)
        assert after[: len(before)] == before
        assert len(after) <= len(before) + 1
        before = after
    assert trial.verify().ok
    assert trial.verify().events == len(before)
    assert {kind for _, _, kind, *_ in before} == {
        "created",
        "asked",
        "told",
        "cancelled",
        "corrected",
        "refused",
    }


@pytest.mark.parametrize("policy", ["deco", "thompson", "fh-gittins", "greedy", "equal"])
def test_every_decision_is_found_again(db: str, policy: str) -> None:
    with open_store(db) as store:
        trial = create_trial(PROBLEM, policy=policy, db=store, seed=3)
        for seed in range(40):
            random_life(trial, random.Random(seed))
        replay = trial.replay()
        assert (replay.ok, replay.differences) == (True, ())
        assert replay.decisions == kinds(trial).count("asked") > HORIZON // 2
        assert trial.verify().ok


def test_export_holds_every_event(trial: Any) -> None:
    for seed in range(20):
        random_life(trial, random.Random(seed))
    tree = json.loads(json.dumps(trial.export(), allow_nan=False))
    for exported, event in zip(tree["events"], trial.events(), strict=True):
        assert exported == event.to_dict() | {"body": event.body}
    assert verify_export(tree) == trial.verify()


def test_another_process_sees_the_same(db: str, trial: Any, nursery: Nursery) -> None:
    for seed in range(20):
        random_life(trial, random.Random(seed))
    said = nursery.side_by_side([("read_status", db, trial.id)])
    (status,) = (line["status"] for line in said if "status" in line)
    assert status == json.loads(json.dumps(trial.status().to_dict()))


def test_two_stores_on_one_database_see_each_other(db: str, trial: Any) -> None:
    with open_store(db) as store:
        other = open_trial(trial.id, db=store)
        for one, two in ((trial, other), (other, trial)):
            slot = one.ask()
            assert slot in two.status().open
            two.tell(slot.id, 1)
            assert one.status() == two.status()
            assert one.allocations() == two.allocations()
            with pytest.raises(Conflict):
                one.tell(slot.id, 0)
        assert other.verify() == trial.verify()
        assert trial.verify().ok
