"""A trial that was found changed is used by nobody, until a check finds it as it was written."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from decobandit.problem import Problem
from decobandit.trials import (
    Damaged,
    LimitReached,
    create_trial,
    list_trials,
    open_store,
    open_trial,
)
from decobandit.trials.errors import Unreadable
from decobandit.trials.event_log import event_log_of
from decobandit.trials.verification import check_logs
from helpers.program import deco
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

PROBLEM = Problem.uniform(arms=2, horizon=300)
LOOKS = ("verify", "events", "export", "replay", "export_text")


@pytest.fixture
def trial(db: str) -> Any:
    with open_store(db) as store:
        made = create_trial(PROBLEM, name="wheat", db=store, seed=7)
        for number in range(4):
            made.tell(made.ask().id, number % 2)
        yield made


def change(sql: Any) -> str:
    """One event gets another body; what it was."""
    before = str(sql("SELECT body FROM events WHERE seq = 3")[0][0])
    sql("UPDATE events SET body = :b WHERE seq = 3", b=before.replace("arm-1", "arm-2") + " ")
    return before


def repair(sql: Any, body: str) -> None:
    sql("UPDATE events SET body = :b WHERE seq = 3", b=body)


def look(trial: Any, how: str) -> None:
    if how == "verify":
        assert not trial.verify().ok
    else:
        with pytest.raises(Damaged):
            getattr(trial, how)()


def assert_stopped(trial: Any, slot: str) -> None:
    for request in (
        trial.ask,
        lambda: trial.tell(slot, 1),
        lambda: trial.cancel(slot, reason="left"),
        trial.status,
    ):
        with pytest.raises(Damaged, match=trial.id):
            request()


@pytest.mark.parametrize("how", LOOKS)
def test_what_one_process_finds_stops_all_of_them_until_a_clean_check(
    db: str, trial: Any, sql: Any, how: str
) -> None:
    slot = trial.ask().id
    with open_store(db) as store:  # as another process: nothing in memory is shared
        other = open_trial("wheat", db=store)
        body = change(sql)
        trial.tell(trial.ask().id, 1)  # nobody has looked yet
        look(other, how)
        assert_stopped(trial, slot)
        assert_stopped(other, slot)
        assert [one.intact for one in list_trials(db=trial.store)] == [False]
        repair(sql, body)
        assert_stopped(trial, slot)  # nobody has checked it again
        assert other.verify().ok
        assert trial.tell(slot, 1).outcome == 1
        assert trial.verify().ok


def test_a_request_under_way_does_not_bring_a_stopped_trial_back(
    db: str, trial: Any, sql: Any
) -> None:
    change(sql)
    done, after = threading.Event(), []

    def write() -> None:
        while not done.is_set():
            try:
                trial.cancel(trial.ask().id, reason="left")
            except LimitReached:
                continue
            except Damaged:
                return

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        with open_store(db) as store:
            assert not open_trial_of(store).verify().ok
        events = sql("SELECT count(*) FROM events")[0][0]
        for _ in range(10):
            with pytest.raises(Damaged):
                trial.ask()
            after.append(sql("SELECT count(*) FROM events")[0][0])
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert after == [events] * 10


def open_trial_of(store: Any) -> Any:
    """A handle for checks on a trial that a fresh process could not open."""

    class Handle:
        def verify(self) -> Any:
            (found,) = check_logs(store)
            return found.result()

    return Handle()


def test_damage_found_meanwhile_is_not_forgotten_by_an_earlier_clean_check(
    trial: Any, sql: Any
) -> None:
    log = trial._event_log
    log.damage.mark(trial.id, "first")
    first = sql("SELECT damage FROM trials")[0][0]
    sql("UPDATE trials SET damage = 'second'")
    log.damage.clear(trial.id, first)
    with refused("damaged"):
        trial.ask()


def test_damage_that_cannot_be_written_stops_the_process_that_found_it(
    trial: Any, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from decobandit.trials import StoreError

    change(sql)

    def full(work: Any) -> Any:
        raise StoreError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(trial.store, "write", full)
        assert not trial.verify().ok
    assert sql("SELECT damage FROM trials") == [(None,)]
    with pytest.raises(Damaged):
        trial.ask()


def test_the_program_stops_a_trial_and_lets_it_go_on(sqlite: str) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store)
        trial.ask()
        with store.read() as connection:
            before = connection.execute(text("select body from events where seq = 1")).scalar_one()
        update = text("update events set body = :body where seq = 1")
        store.write(lambda link: link.execute(update, {"body": before + " "}))
        assert deco("trial", "verify", "--db", sqlite).code == 1
        with pytest.raises(Damaged):
            trial.ask()
        store.write(lambda link: link.execute(update, {"body": before}))
        refused = deco("trial", "ask", "wheat", "--db", sqlite)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "deco trial verify" in refused.err
        assert deco("trial", "verify", "wheat", "--db", sqlite).code == 0
        trial.ask()


# -- older databases ----------------------------------------------------------------------------


def put_back(how: str, copy: Path, path: Path) -> None:
    if how == "over it":
        path.write_bytes(copy.read_bytes())
    else:
        os.replace(copy, path)


@pytest.mark.parametrize("how", ["over it", "in its place"])
@pytest.mark.parametrize("evicted", [False, True])
def test_an_older_database_put_back_is_refused(sqlite: str, how: str, evicted: bool) -> None:
    path = Path(sqlite)
    with open_store(path) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store, seed=1)
        for _ in range(3):
            trial.tell(trial.ask().id, 1)
        copy = Path(shutil.copy(path, path.with_suffix(".copy")))
        spare = Path(shutil.copy(path, path.with_suffix(".spare")))
        for _ in range(5):
            trial.tell(trial.ask().id, 1)
        if evicted:
            trial._event_log._ledgers.clear()
        put_back(how, copy, path)
        for request in (trial.ask, trial.status, trial.export):
            with refused("damaged"):
                request()
        assert not trial.verify().ok
    path.write_bytes(spare.read_bytes())
    with open_store(path) as store:  # a process that has not seen the later events
        again = open_trial("wheat", db=store)
        assert again.status().told == 3
        assert again.ask().stage == 3


def test_a_database_from_before_a_trial_is_refused(sqlite: str) -> None:
    path = Path(sqlite)
    with open_store(path) as store:
        create_trial(PROBLEM, name="first", db=store)
        copy = Path(shutil.copy(path, path.with_suffix(".copy")))
        trial = create_trial(PROBLEM, name="wheat", db=store)
        put_back("over it", copy, path)
        with refused("damaged"):
            trial.ask()
        assert [one.result().ok for one in check_logs(store)] == [True, False]


def test_another_log_in_its_place_is_refused(db: str, trial: Any, sql: Any) -> None:
    """The last event is taken back by hand, and another one written by another process."""
    before = sql("SELECT hash FROM events WHERE seq = 7")[0][0]
    sql("DELETE FROM events WHERE seq = 8")
    sql("UPDATE trials SET head_seq = 7, head_hash = :h", h=before)
    with open_store(db) as store:
        other = open_trial("wheat", db=store)
        (slot,) = other.status().open
        other.tell(slot.id, 0)
        other.ask()
        with pytest.raises(Damaged):
            trial.ask()
        with pytest.raises(Damaged):  # in the other process, too
            other.ask()


def test_a_database_that_is_gone_is_not_made_anew(sqlite: str) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store)
        Path(sqlite).unlink()
        with refused("unavailable"):
            trial.ask()
        assert not Path(sqlite).exists()


def test_an_error_of_reading_is_not_remembered_as_damage(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=5), db=store)
        log = event_log_of(store)
        with pytest.raises(Unreadable), log.damage.remembering(trial.id):
            raise Unreadable("disk image is malformed")
        assert trial.ask().stage == 0
        with pytest.raises(Damaged), log.damage.remembering(trial.id):
            raise Damaged("an event was changed")
        with pytest.raises(Damaged):
            trial.ask()
