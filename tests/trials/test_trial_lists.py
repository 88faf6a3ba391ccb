"""Lists come in pages, from summaries that fit the heads; CSV in pieces is the whole CSV."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from decobandit import Problem
from decobandit.trials import (
    Damaged,
    NotFound,
    create_trial,
    list_trials,
    open_store,
    open_trial,
    outcomes_csv,
)
from decobandit.trials.event_log import EventLog
from decobandit.trials.lists import (
    page_of_allocations,
    page_of_events,
    page_of_trials,
    stale_ids,
)
from decobandit.trials.verification import check_trial
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

PROBLEM = Problem.uniform(arms=2, horizon=6)


def begin(store: Any, name: str, told: int = 1, waiting: int = 1) -> Any:
    trial = create_trial(PROBLEM, policy="equal", name=name, db=store, seed=1)
    for number in range(told):
        trial.tell(trial.ask().id, number % 2)
    for _ in range(waiting):
        trial.ask()
    return trial


def test_pages_joined_are_the_whole_list(db: str) -> None:
    names = [f"t{number}" for number in range(7)]
    with open_store(db) as store:
        for name in names:
            begin(store, name)
        whole = list_trials(db=store)
        assert [one.name for one in whole] == names
        assert {(one.told, one.open, one.allocated, one.arms, one.horizon) for one in whole} == {
            (1, 1, 2, 2, 6)
        }
        joined, after = [], None
        while True:
            page = page_of_trials(store, limit=3, after=after)
            joined.append([one.name for one in page.items])
            if (after := page.next) is None:
                break
        assert joined == [names[:3], names[3:6], names[6:]]
        assert [one.name for one in list_trials(db=store, limit=2, after="t1")] == names[2:4]


def test_pages_are_filtered_while_they_are_read(db: str) -> None:
    names = [f"t{number}" for number in range(9)]
    with open_store(db) as store:
        for number, name in enumerate(names):
            trial = begin(store, name)
            if number in (0, 2, 3, 4, 8):
                trial.archive()
        shown, hidden, after = [], 0, None
        for _ in range(2):
            page = page_of_trials(store, limit=2, after=after)
            shown.append([one.name for one in page.items])
            hidden, after = hidden + page.hidden, page.next
        assert (shown, hidden, after) == ([["t1", "t5"], ["t6", "t7"]], 5, None)
        assert [one.name for one in list_trials(db=store)] == ["t1", "t5", "t6", "t7"]
        assert [one.name for one in list_trials(db=store, archived=True)] == names
        some = page_of_trials(store, limit=2, only=["t1", "t2", "t4", "t7"], archived=True)
        assert [one.name for one in some.items] == ["t1", "t2"]
        rest = page_of_trials(store, limit=2, only=["t1", "t2", "t4", "t7"], after=some.next)
        assert ([one.name for one in rest.items], rest.next, rest.hidden) == (["t7"], None, 1)


def test_a_page_cannot_begin_after_a_trial_of_others(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        begin(store, "own")
        other = begin(store, "other")
        for after in ("other", other.id, "nothing"):
            with pytest.raises(NotFound, match=f"no trial is called '{after}'"):
                page_of_trials(store, only=["own"], after=after)


def test_an_older_database_under_a_running_process_is_listed_as_damaged(sqlite: str) -> None:
    import shutil

    copy = f"{sqlite}.copy"
    with open_store(sqlite) as store:
        begin(store, "a", told=1, waiting=0)
    shutil.copy(sqlite, copy)
    with open_store(sqlite) as store:
        trial = open_trial("a", db=store)
        trial.ask()
        with sqlite3.connect(copy) as old, sqlite3.connect(sqlite) as here:
            old.backup(here)
        assert [one.intact for one in list_trials(db=store)] == [False]


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_that_is_not_allowed_is_refused(tmp_path: Path, limit: int) -> None:
    with open_store(tmp_path / "t.db") as store, refused("bad_request", "limit"):
        list_trials(db=store, limit=limit)


def test_an_after_that_is_no_trial_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store, refused("not_found"):
        list_trials(db=store, after="nothing")


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose events were read."""
    read: list[str] = []
    really = EventLog.read

    def counted(self: EventLog, trial: str) -> Any:
        read.append(trial)
        return really(self, trial)

    monkeypatch.setattr(EventLog, "read", counted)
    return read


def test_a_list_reads_the_events_of_no_trial(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(db) as store:
        for name in ("a", "b"):
            begin(store, name, told=2)
    read = count_reads(monkeypatch)
    with open_store(db) as store:
        assert [(one.told, one.open) for one in list_trials(db=store)] == [(2, 1), (2, 1)]
    assert read == []


@pytest.mark.parametrize(
    "change",
    ["NULL", "''", "substr(summary, 1, 70)", "replace(summary, '\"told\":2', '\"told\":3')"],
)
def test_a_summary_that_does_not_fit_is_made_again(
    db: str, sql: Any, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(db) as store:
        begin(store, "a", told=2)
        before = list_trials(db=store)
    sql(f"UPDATE trials SET summary = {change}".replace(":2", "\\:2").replace(":3", "\\:3"))
    with open_store(db) as store:
        assert list_trials(db=store) == before
    read = count_reads(monkeypatch)
    with open_store(db) as store:  # the list before has written it
        assert list_trials(db=store) == before
    assert read == []


def test_a_summary_of_an_earlier_head_is_not_shown(db: str, sql: Any) -> None:
    with open_store(db) as store:
        trial = begin(store, "a", told=2)
        ((old,),) = sql("SELECT summary FROM trials")
        trial.ask()
    sql("UPDATE trials SET summary = :old", old=old)
    with open_store(db) as store:
        assert [one.open for one in list_trials(db=store)] == [2]


def test_damage_behind_the_head_is_found_by_verify_and_listed_then(db: str, sql: Any) -> None:
    with open_store(db) as store:
        begin(store, "a", told=2)
        begin(store, "b")
    sql(
        "UPDATE events SET body = body || ' ' WHERE seq = 1 AND trial_id = "
        "(SELECT id FROM trials WHERE name = 'a')"
    )
    with open_store(db) as store:
        with pytest.raises(Damaged):
            open_trial("a", db=store)
        assert not check_trial("a", db=store).ok
        assert [one.intact for one in list_trials(db=store)] == [False, True]


def test_damage_of_the_last_event_is_listed(db: str, sql: Any) -> None:
    with open_store(db) as store:
        begin(store, "a", told=2)
    sql("UPDATE events SET body = body || ' ' WHERE seq = (SELECT head_seq FROM trials)")
    with open_store(db) as store:
        assert [one.intact for one in list_trials(db=store)] == [False]


# -- events and allocations ---------------------------------------------------------------------


def test_pages_of_events_are_slices_of_the_log(db: str) -> None:
    with open_store(db) as store:
        trial = begin(store, "a", told=2)
        ledger, whole = trial.read(), trial.events()
        assert page_of_events(store, ledger).items == tuple(whole)
        for after in range(-1, len(whole) + 1):
            page = page_of_events(store, ledger, after=after, limit=2)
            assert list(page.items) == whole[after + 1 : after + 3]
            more = after + 3 < len(whole)
            assert page.next == (str(after + 2) if more else None)


def test_a_page_of_events_begins_where_the_one_before_ended(db: str, sql: Any) -> None:
    with open_store(db) as store:
        trial = begin(store, "a", told=2)
        ledger = trial.read()
        sql("UPDATE events SET hash = 'x' WHERE seq = 2")
        with pytest.raises(Damaged):
            page_of_events(store, ledger, after=2, limit=2)
        with pytest.raises(Damaged):  # what was known before is not used any more
            trial.status()


def test_pages_of_allocations_are_slices_of_those_of_a_state(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = begin(store, "a", told=3, waiting=2)
        slots = {slot.id: slot for slot in trial.allocations()}
        ids = list(slots)
        first = page_of_allocations(slots, limit=2)
        assert ([slot.id for slot in first.items], first.next) == (ids[:2], ids[1])
        rest = page_of_allocations(slots, after=first.next)
        assert ([slot.id for slot in rest.items], rest.next) == (ids[2:], None)
        waiting = page_of_allocations(slots, after=ids[0], state="open", limit=2)
        assert ([slot.id for slot in waiting.items], waiting.next) == (ids[3:], None)
        with refused("not_found", "after"):
            page_of_allocations(slots, after="nothing")


# -- exports ------------------------------------------------------------------------------------


def test_csv_in_pieces_is_the_whole_csv(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decobandit.trials.export.LINES", 2)
    monkeypatch.setattr("decobandit.trials.event_log.PAGE", 3)
    with open_store(db) as store:
        trial = begin(store, "=1+1", told=3, waiting=2)
        for masked in (False, True):
            pieces = list(trial.outcomes_text(masked=masked))
            assert "".join(pieces) == outcomes_csv(trial.events(), masked=masked)
            assert [piece.count("\n") for piece in pieces] == [1, 2, 2, 1]


def test_csv_of_a_damaged_trial_is_refused_before_the_first_piece(db: str, sql: Any) -> None:
    with open_store(db) as store:
        trial = begin(store, "a", told=2)
        sql("UPDATE events SET body = body || ' ' WHERE seq = 2")
        with pytest.raises(Damaged):
            trial.outcomes_text()


# -- stale allocations --------------------------------------------------------------------------


def test_only_pending_allocations_older_than_the_limit_are_stale() -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)
    hours = {"old": 73.0, "limit": 72.0, "new": 1.0}
    since = {name: (now - timedelta(hours=ago)).isoformat() for name, ago in hours.items()}
    assert stale_ids(since, now=now) == ["old"]
    assert stale_ids(since, 0.5, now=now) == ["old", "limit", "new"]
    assert stale_ids(since | {"odd": "yesterday"}, 0.5, now=now) == ["old", "limit", "new"]
    with refused("bad_request", "stale_after"):
        stale_ids(since, 0.0, now=now)


def test_a_recorded_or_cancelled_allocation_is_stale_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = "2020-01-01T00:00:00.000+00:00"
    with open_store(tmp_path / "t.db") as store:
        trial = begin(store, "a", told=0, waiting=0)
        with monkeypatch.context() as patch:
            patch.setattr("decobandit.trials.event_log.now", lambda: long_ago)
            first, second = trial.ask(), trial.ask()
        third = trial.ask()

        def stale() -> list[str]:
            return stale_ids(trial.read().since)

        assert stale() == [first.id, second.id]
        (listed,) = list_trials(db=store)
        assert (listed.stale, listed.open_since) == (True, long_ago)
        trial.tell(first.id, 1)
        trial.correct(first.id, 0, reason="typo")
        assert stale() == [second.id]
        trial.cancel(second.id, reason="left")
        assert stale() == []
        (listed,) = list_trials(db=store)
        assert (listed.stale, listed.open) == (False, 1)
        assert listed.open_since == trial.read().since[third.id]
