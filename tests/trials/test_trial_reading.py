"""Reading a log: page by page, without a lock while it is checked; what is only worth a remark."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import Problem
from decobandit.trials import (
    create_trial,
    event_log,
    events,
    list_trials,
    open_store,
    open_trial,
    status,
    verification,
)
from decobandit.trials.events import chained
from helpers.program import deco
from helpers.refusals import refused

PROBLEM = Problem.uniform(arms=2, horizon=200)
EVENTS = 61
PAGE = 10

READS: dict[str, Callable[[Any], Any]] = {
    "open": lambda store: open_trial("wheat", db=store),
    "list": lambda store: list_trials(db=store),
    "status": lambda store: open_trial("wheat", db=store).status(),
    "events": lambda store: open_trial("wheat", db=store).events(),
    "export": lambda store: open_trial("wheat", db=store).export(),
    "export_text": lambda store: list(open_trial("wheat", db=store).export_text()),
    "verify": lambda store: verification.check_trial("wheat", db=store),
    "replay": lambda store: open_trial("wheat", db=store).replay(),
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trial of several pages."""
    monkeypatch.setattr(event_log, "PAGE", PAGE)
    path = tmp_path / "t.db"
    with open_store(path) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store, seed=1)
        for number in range(30):
            trial.tell(trial.ask().id, number % 2)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("UPDATE trials SET summary = NULL")  # a list has to read the events
    return path


@pytest.mark.parametrize("how", READS)
def test_nobody_waits_for_a_reader_who_checks_or_computes(
    path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def free() -> None:
        """Whoever reads at this moment would keep this from being locked."""
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            other.execute("ROLLBACK")
        looked.append(True)

    def watched(function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            free()
            return function(*given, **named)

        return call

    def checked(rows: Any, *given: Any, **named: Any) -> Iterator[Any]:
        free()
        return chained(rows, *given, **named)

    with open_store(path) as store:
        for module in (event_log, verification):
            monkeypatch.setattr(module, "chained", checked)
        monkeypatch.setattr(events, "digest", watched(events.digest))
        monkeypatch.setattr(status, "episode_of", watched(status.episode_of))
        monkeypatch.setattr(verification, "_compared", watched(verification._compared))
        READS[how](store)
    assert len(looked) >= EVENTS


def test_a_log_is_read_some_events_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    stored = event_log.stored_events

    def counted(*given: Any, **named: Any) -> Any:
        found = stored(*given, **named)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(event_log, "stored_events", counted)
    with open_store(path) as store:
        trial = open_trial("wheat", db=store)
        assert trial.verify().events == EVENTS
        pieces = list(trial.export_text())
        assert len(trial.events()) == EVENTS
    assert max(sizes) == PAGE
    assert len(pieces) == EVENTS // PAGE + 3  # a beginning, pages, an end
    assert max(piece.count('"previous"') for piece in pieces) <= PAGE
    assert len(json.loads("".join(pieces))["events"]) == EVENTS


def test_damage_on_a_later_page_is_found_before_anything_is_sent(path: Path) -> None:
    with open_store(path) as store:
        trial = open_trial("wheat", db=store)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE events SET body = body || ' ' WHERE seq = 55")
        with refused("damaged"):
            trial.export_text()


def test_a_process_that_is_far_behind_catches_up_before_it_takes_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MAX_LOCKED", 5)
    with open_store(path) as store, open_store(path) as other:
        mine, theirs = open_trial("wheat", db=store), open_trial("wheat", db=other)
        for _ in range(20):
            theirs.tell(theirs.ask().id, 1)
        slot = mine.ask()
        assert (slot.stage, theirs.status().allocated) == (50, 51)
        assert mine.verify().ok


def test_times_that_run_backwards_are_remarked_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(
        [
            "2026-01-01T00:00:10.000+00:00",
            "2026-01-01T00:00:11.000+00:00",
            "2026-01-01T00:00:09.000+00:00",
            "2026-01-01T01:00:08.500+01:00",
            "yesterday",
            "2026-01-01T00:00:08.500+00:00",
        ]
    )
    path = tmp_path / "t.db"
    with open_store(path) as store, monkeypatch.context() as patch:
        patch.setattr(event_log, "now", lambda: next(times))
        trial = create_trial(PROBLEM, name="wheat", db=store)
        for _ in range(5):
            trial.ask()
        found = trial.verify()
    assert found.ok  # a clock may have been set
    assert [remark.split(":")[0] for remark in found.remarks] == ["event 2", "event 3", "event 4"]
    run = deco("trial", "verify", "--db", path)
    assert run.code == 0
    assert run.out.count("remark: ") == 3
