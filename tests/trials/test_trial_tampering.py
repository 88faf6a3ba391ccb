"""Whoever changes the record behind the back of the package is found out, on every database."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from decobandit.problem import Arm, BetaBernoulli, Problem
from decobandit.trials import create_trial, list_trials, open_store, open_trial
from decobandit.trials.errors import Damaged, TrialError

pytest_plugins = ["helpers.databases"]

PROBLEM = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
        Arm(name="b", prior=BetaBernoulli(good=2, bad=2)),
    ),
    horizon=6,
)
Tamper = Callable[[Any], None]


@pytest.fixture
def trial(db: str) -> Any:
    """created, asked, asked, told, corrected, asked, cancelled, asked, told: seq 0 to 8."""
    with open_store(db) as store:
        made = create_trial(PROBLEM, name="wheat", db=store, seed=7)
        first, second = made.ask(key="first"), made.ask()
        made.tell(first.id, 1, key="told")
        made.correct(first.id, 0, reason="misread")
        made.cancel(made.ask().id, reason="gone")
        made.ask()
        made.tell(second.id, 1)
        assert made.verify().ok
        yield made


# -- what can be done with a shell of the database ----------------------------------------------


def rehashed(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def body_of(sql: Any, seq: int) -> str:
    return str(sql("SELECT body FROM events WHERE seq = :s", s=seq)[0][0])


def edit_body(sql: Any, seq: int = 3) -> None:
    body = body_of(sql, seq).replace('"outcome":1', '"outcome":0')
    sql("UPDATE events SET body = :b WHERE seq = :s", b=body, s=seq)


def edit_hash(sql: Any) -> None:
    sql("UPDATE events SET hash = :h WHERE seq = 3", h="f" * 64)


def edit_body_and_hash(sql: Any, seq: int = 3) -> None:
    edit_body(sql, seq)
    hash_ = rehashed(body_of(sql, seq))
    sql("UPDATE events SET hash = :h WHERE seq = :s", h=hash_, s=seq)


def edit_the_last_and_its_hash(sql: Any) -> None:
    edit_body_and_hash(sql, 8)


def delete_in_the_middle(sql: Any) -> None:
    sql("DELETE FROM events WHERE seq = 4")


def delete_and_close_the_ranks(sql: Any) -> None:
    delete_in_the_middle(sql)
    for seq in range(5, 9):
        sql("UPDATE events SET seq = :new WHERE seq = :old", new=seq - 1, old=seq)
    sql("UPDATE trials SET head_seq = 7")


def delete_the_last(sql: Any) -> None:
    sql("DELETE FROM events WHERE seq = 8")


def delete_the_first(sql: Any) -> None:
    sql("DELETE FROM events WHERE seq = 0")


def delete_all(sql: Any) -> None:
    sql("DELETE FROM events")


def swap(sql: Any) -> None:
    for old, new in ((3, 100), (4, 3), (100, 4)):
        sql("UPDATE events SET seq = :new WHERE seq = :old", new=new, old=old)


def change_kind(sql: Any) -> None:
    sql("UPDATE events SET kind = 'told' WHERE seq = 4")


def change_key(sql: Any) -> None:
    sql("UPDATE events SET key = 'other' WHERE seq = 1")


def remove_key(sql: Any) -> None:
    sql("UPDATE events SET key = NULL WHERE seq = 1")


def change_head(sql: Any) -> None:
    sql("UPDATE trials SET head_hash = :h", h="0" * 64)


def move_head_back(sql: Any) -> None:
    before = sql("SELECT hash FROM events WHERE seq = 7")[0][0]
    sql("UPDATE trials SET head_seq = 7, head_hash = :h", h=before)


def insert_event(sql: Any) -> None:
    sql(
        "INSERT INTO events (trial_id, seq, kind, key, body, hash)"
        " SELECT trial_id, 9, kind, NULL, body, hash FROM events WHERE seq = 8"
    )


def insert_a_linked_event(sql: Any) -> None:
    """One that fits the chain, but that the head does not know."""
    tree = json.loads(body_of(sql, 8))
    tree["seq"], tree["previous"] = 9, rehashed(body_of(sql, 8))
    tree["kind"], tree["data"]["outcome"] = "corrected", 0
    body = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    sql(
        "INSERT INTO events (trial_id, seq, kind, key, body, hash)"
        " SELECT trial_id, 9, 'corrected', NULL, :b, :h FROM events WHERE seq = 8",
        b=body,
        h=rehashed(body),
    )


def rename_trial(sql: Any) -> None:
    sql("UPDATE trials SET name = 'barley'")


TAMPERS: tuple[Tamper, ...] = (
    edit_body,
    edit_hash,
    edit_body_and_hash,
    edit_the_last_and_its_hash,
    delete_in_the_middle,
    delete_and_close_the_ranks,
    delete_the_last,
    delete_the_first,
    delete_all,
    swap,
    change_kind,
    change_key,
    remove_key,
    change_head,
    move_head_back,
    insert_event,
    insert_a_linked_event,
    rename_trial,
)


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: tamper.__name__)
def test_tampering_is_found(db: str, trial: Any, sql: Any, tamper: Tamper) -> None:
    tamper(sql)
    found = trial.verify()
    assert not found.ok
    assert all(trial.id in problem for problem in found.problems)
    with open_store(db) as fresh, pytest.raises(Damaged):  # nobody works on with it
        open_trial(trial.id, db=fresh).ask()


def test_verification_counts_every_bad_event(trial: Any, sql: Any) -> None:
    edit_body(sql, 3)
    sql("UPDATE events SET kind = 'refused' WHERE seq = 6")
    problems = " ".join(trial.verify().problems)
    assert "event 3" in problems
    assert "event 6" in problems


# -- a forger who recomputes everything ---------------------------------------------------------


def forge(sql: Any, seq: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change an event and recompute every hash after it, the head included."""
    bodies = [str(body) for (body,) in sql("SELECT body FROM events ORDER BY seq")]
    previous = rehashed(bodies[seq - 1])
    for number in range(seq, len(bodies)):
        tree = json.loads(bodies[number])
        if number == seq:
            change(tree)
        tree["previous"] = previous
        body = json.dumps(tree, sort_keys=True, separators=(",", ":"))
        previous = rehashed(body)
        sql("UPDATE events SET body = :b, hash = :h WHERE seq = :s", b=body, h=previous, s=number)
    sql("UPDATE trials SET head_hash = :h, summary = NULL", h=previous)


def other_arm(tree: dict[str, Any]) -> None:
    arm = {"a": "b", "b": "a"}[tree["data"]["arm"]]
    tree["data"].update(arm=arm, pulls={arm: 1})


def test_a_forger_changes_nothing_but_what_he_means_to(trial: Any, sql: Any) -> None:
    before = sql("SELECT body, hash FROM events ORDER BY seq")
    forge(sql, 2, lambda tree: None)
    assert sql("SELECT body, hash FROM events ORDER BY seq") == before
    assert trial.verify().ok


def test_a_forged_decision_is_found_by_replay(db: str, trial: Any, sql: Any) -> None:
    head = trial.verify().head
    forge(sql, 2, other_arm)
    with open_store(db) as fresh:
        again = open_trial(trial.id, db=fresh)
        assert again.verify().ok  # the chain is whole,
        assert again.verify().head != head  # but it is not the one that was written down
        replay = again.replay()
        assert not replay.ok
        assert any("event 2" in difference for difference in replay.differences)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(arm={"a": "b", "b": "a"}[data["arm"]]),
        lambda data: data.update(pulls={"a": 1, "b": 1}),
        lambda data: data.update(pulls={"nobody": 1}),
    ],
)
def test_a_forged_decision_whose_arm_is_not_the_one_pulled_is_found(
    db: str, trial: Any, sql: Any, change: Callable[[dict[str, Any]], None]
) -> None:
    forge(sql, 2, lambda tree: change(tree["data"]))
    found = trial.verify()
    assert not found.ok
    assert "event 2" in found.problems[0]
    with open_store(db) as fresh, pytest.raises(Damaged):
        open_trial(trial.id, db=fresh)


def test_a_forged_outcome_is_found_by_replay(db: str, trial: Any, sql: Any) -> None:
    # event 7 was decided when event 4 had corrected the outcome to 0
    forge(sql, 4, lambda tree: tree["data"].update(outcome=1))
    with open_store(db) as fresh:
        replay = open_trial(trial.id, db=fresh).replay()
        assert not replay.ok
        assert "event 5" in replay.differences[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["data"].update(allocation="nobody"),
        lambda tree: tree["data"].update(outcome=2),
        lambda tree: tree["data"].pop("outcome"),
        lambda tree: tree.update(kind="created"),
        lambda tree: tree.update(data=[]),
        lambda tree: tree.update(data=None),
        lambda tree: tree.pop("by"),
    ],
)
def test_forged_events_that_cannot_have_happened_are_found(
    db: str, trial: Any, sql: Any, change: Callable[[dict[str, Any]], None]
) -> None:
    forge(sql, 3, change)
    found = trial.verify()
    assert not found.ok
    assert "event 3" in found.problems[0]
    with open_store(db) as fresh, pytest.raises(TrialError):
        open_trial(trial.id, db=fresh).status()


@pytest.mark.parametrize("look", ["verify", "events", "export", "replay"])
def test_after_a_look_at_all_events_nothing_is_decided_from_what_was_known(
    trial: Any, look: str
) -> None:
    def change(connection: Any) -> None:
        connection.execute(text("update events set body = body || ' ' where seq = 3"))

    trial.store.write(change)
    if look == "verify":
        assert not trial.verify().ok
    else:
        with pytest.raises(Damaged):
            getattr(trial, look)()
    for again in (trial.ask, trial.status, lambda: open_trial("wheat", db=trial.store)):
        with pytest.raises(Damaged):
            again()
    assert [one.intact for one in list_trials(db=trial.store)] == [False]
