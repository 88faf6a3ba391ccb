"""Checks a log: every hash, every link, the head, and the rules of a trial.

No transaction is open while events are checked: they are read page by page.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select

from ..support import JsonError, parse
from . import schema
from .database import Store, StoreLike, closed_on_error, open_store
from .decider import Decider, decider_of, decision_record, pending_state
from .errors import Damaged, StoreError, TrialError
from .event_log import Head, event_log_of, stored_pages, trial_id
from .events import GENESIS, Event, StoredEvent, canonical, chained
from .export import EXPORT_FORMAT, checksum, export_parts, has_check_digits, plain
from .ledger import Ledger
from .settings import NO_BOUND, check_bound
from .status import is_forged


@dataclass(frozen=True)
class CheckResult:
    """Base of `Verification` and `Replay`; a subclass says in `found` what is wrong."""

    trial: str

    @property
    def found(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        own = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        return {"trial": self.trial, "ok": self.ok} | own


# -- checks a log: every hash, every link, the head, and the rules of a trial ----------------------


@dataclass(frozen=True)
class Verification(CheckResult):
    """Whether the log is as it was written.

    Attributes
    ----------
    trial : str
        Id of the trial.
    events : int
        Events that were checked.
    head : str
        Hash of the last event; worth keeping elsewhere.
    problems : tuple[str, ...]
        What was found.
    remarks : tuple[str, ...]
        What is worth a look, and no proof of a change: times that run backwards, a trial without
        a bound.
    given_head_event : int | None
        Position of the event whose hash is the head that was given; null if none was given, or it
        is nowhere.
    events_since_given_head : int | None
        Events after it.

    Examples
    --------
    >>> trial.verify().events
    1
    """

    events: int
    head: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    given_head_event: int | None = None
    events_since_given_head: int | None = None

    @property
    def found(self) -> tuple[str, ...]:
        return self.problems


class LogCheck:
    """Checks stored events one after the other; after a bad one it goes on with the next."""

    def __init__(self, trial: str, *, given_head: str | None = None) -> None:
        self.trial = trial
        self.ledger: Ledger | None = Ledger(trial)  # None: only hashes and links can be checked
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.hashes: list[str] = []  # of every event
        self._seq, self._previous, self._last_time = -1, GENESIS, ""
        self._given_head = None if given_head is None else given_head.strip().lower()

    def add(self, row: StoredEvent) -> Event | None:
        """One more event; None if it is not as it was written."""
        event = None
        try:
            (event,) = chained([row], self.trial, after=self._seq, previous=self._previous)
            if self.ledger is not None:
                self.ledger.advance(event)
            self._compare_times(event)
        except Damaged as error:
            self.problems.append(str(error))
            self.ledger = event = None
        self._seq = row.seq if isinstance(row.seq, int) else self._seq + 1
        self._previous = row.hash
        self.hashes.append(row.hash)
        return event

    def _compare_times(self, event: Event) -> None:
        at = time_of(event.at)
        if at is None:
            self.remarks.append(f"event {event.seq}: its time {event.at!r} is no time")
        elif at < self._last_time:
            self.remarks.append(
                f"event {event.seq}: its time {event.at} is before that of the event before it"
            )
        self._last_time = at or self._last_time

    def check_head(self, head: tuple[int, str]) -> None:
        """Compare the last event with the head on record."""
        if not self.hashes:
            self.problems.append(f"trial {self.trial}: has no events")
        elif (self._seq, self._previous) != head:
            self.problems.append(
                f"trial {self.trial}: the last event is not the one that the head names"
            )

    def check_seen(self, seen: Head | None) -> None:
        """Compare with what this process has read before."""
        if seen is not None and self.hashes[seen.seq : seen.seq + 1] != [seen.hash]:
            self.problems.append(
                f"trial {self.trial}: event {seen.seq}, which this process has read before, is "
                "missing or another one: an older or another database was put in its place"
            )

    def result(self) -> Verification:
        """What was found."""
        remarks = list(self.remarks)
        if self.hashes and self.ledger is not None and self.ledger.settings.solution is None:
            remarks.append(NO_BOUND)
        found = Verification(
            self.trial, len(self.hashes), self._previous, tuple(self.problems), tuple(remarks)
        )
        given = self._given_head
        if given is None:
            return found
        if given not in self.hashes:
            problem = f"trial {self.trial}: no event has the given head"
            return replace(found, problems=(*found.problems, problem))
        event = self.hashes.index(given)
        since = len(self.hashes) - 1 - event
        return replace(found, given_head_event=event, events_since_given_head=since)


def time_of(text: object) -> str | None:
    """A time of the log as text that sorts by time; None if it is no time with a zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (
        None if found.tzinfo is None else found.astimezone(UTC).isoformat(timespec="microseconds")
    )


def check_trial(trial: str, *, db: StoreLike = None, head: str | None = None) -> Verification:
    """Check all events of a trial by id or name, also of one that can no longer be opened.

    What is found stops the trial in all processes; what stopped it before is forgotten if it is
    found as it was written. `head`: one that was kept elsewhere, which some event must have.
    """
    with closed_on_error(db) as store:
        return check_named(store, trial, given_head=head).result()


def check_named(store: Store, trial: str, *, given_head: str | None = None) -> LogCheck:
    """Check the trial of an id or a name."""
    with store.read() as connection:
        found = trial_id(connection, trial)
    return check_stored(store, found, given_head=given_head)


def check_stored(store: Store, trial: str, *, given_head: str | None = None) -> LogCheck:
    """Check all events of a trial; no transaction is open meanwhile."""
    event_log = event_log_of(store)
    seen = event_log.seen(trial)  # before anything is read: later heads need not be in it
    check = LogCheck(trial, given_head=given_head)
    row, said = None, None  # what the row and the first event say of the trial
    for newest, page in stored_pages(store, trial):
        row = newest
        for stored in page:
            event = check.add(stored)
            if event is not None and event.seq == 0:
                said = (event.data.get("name"), event.at)
    if row is None:
        left = "has events, but the trial" if check.hashes else "was in the database, and"
        check.problems.append(f"trial {trial}: {left} is missing")
        return check
    check.check_head((row.head_seq, row.head_hash))
    check.check_seen(seen)
    if not check.problems and said != (row.name, row.created_at):
        changed = f"trial {trial}: its name or time was changed after it was created"
        check.problems.append(changed)
    if check.problems:
        event_log.damage.mark(trial, check.problems[0])
    else:
        event_log.damage.clear(trial, row.damage)
        assert check.ledger is not None  # there are problems otherwise
        if is_forged(row.summary, check.ledger):  # decisions do not depend on it
            check.problems.append(
                f"trial {trial}: what lists show of it is not what its events say; the next event "
                "of the trial writes it anew"
            )
    return check


def check_database(store: Store, *, given_head: str | None = None) -> list[LogCheck]:
    """Check every trial, and that no events are left of one that is gone."""
    columns = schema.trials.c
    known = set(event_log_of(store).all_seen())
    with store.read() as connection:
        by_age = select(columns.id).order_by(columns.created_at, columns.id)
        ids = [str(trial) for trial in connection.execute(by_age).scalars()]
        with_events = connection.execute(select(schema.events.c.trial_id).distinct()).scalars()
        others = sorted((known | {str(trial) for trial in with_events}) - set(ids))
    return [check_stored(store, trial, given_head=given_head) for trial in (*ids, *others)]


# -- every decision of a log computed again from what was known then, and compared with th----------


TOLERANCE = 1e-9  # of recomputed numbers: another machine may add in another order
MAX_TABLE_STATES = 2e9  # states of all stages and groups, up to which whole tables are made
_EXACT = ("stage", "state", "policy", "multipliers_hash", "seed")
_NUMBERS = ("price", "expected_reward", "value_of_information", "index")


@dataclass(frozen=True)
class Replay(CheckResult):
    """Whether every decision comes out the same again.

    Attributes
    ----------
    trial : str
        Id of the trial.
    decisions : int
        Decisions that were computed again.
    differences : tuple[str, ...]
        What was found.

    Examples
    --------
    >>> _ = trial.ask()
    >>> trial.replay().decisions
    1
    """

    decisions: int
    differences: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        return self.differences


def replayed(events: Sequence[Event]) -> Replay:
    """Make all decisions of a log again."""
    trial = events[0].trial
    ledger = Ledger(trial).extended(events[:1])
    problem = ledger.problem
    states = len(problem.groups) * problem.stages**3 / 6
    decider = Decider(ledger.settings, use_cones=states > MAX_TABLE_STATES)
    differences = _compared_settings(events[0], ledger)
    decisions = 0
    for event in events[1:]:
        if event.kind == "asked":
            decisions += 1
            try:
                differences += _compared(event, ledger, decider)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                differences.append(f"event {event.seq}: cannot be made again: {error}")
        ledger.advance(event)  # ours alone: nobody sees it change
    return Replay(trial, decisions, tuple(differences))


def _compared_settings(event: Event, ledger: Ledger) -> list[str]:
    found = []
    if event.data.get("multipliers_hash") != ledger.settings.multipliers_hash:
        found.append(f"event {event.seq}: the hash of the multipliers is not theirs")
    solution = ledger.settings.solution
    try:
        if solution is not None:
            check_bound(solution)
    except TrialError as error:
        found.append(f"event {event.seq}: {error}")
    return found


def _compared(event: Event, ledger: Ledger, decider: Decider) -> list[str]:
    decision, arms = decider.decide(ledger), ledger.problem.arms
    pulls = {arm.name: n for arm, n in zip(arms, decision.pulls, strict=True) if n}
    said = {"pulls": pulls, "reason": decision.reason, "number": ledger.asks}
    again = decision_record(decision, pending_state(ledger), ledger.settings)
    return _differences(event, said, again)


def _differences(event: Event, said: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """What an ask has on record that comes out otherwise."""
    kept, where = event.data["decision"], f"event {event.seq}"
    found = [
        f"{where}: {name} {event.data.get(name)!r} on record, {value!r} now"
        for name, value in said.items()
        if event.data.get(name) != value
    ]
    found += [
        f"{where}: {name} {kept.get(name)!r} on record, {again[name]!r} now"
        for name in _EXACT
        if kept.get(name) != again[name]
    ]
    found += [
        f"{where}: {name} differs from the record"
        for name in _NUMBERS
        if not _close(kept.get(name), again[name])
    ]
    return found


def _close(kept: Any, again: Any) -> bool:
    if kept is None or again is None:
        return kept is None and again is None
    return np.shape(kept) == np.shape(again) and bool(
        np.allclose(kept, again, rtol=TOLERANCE, atol=TOLERANCE)
    )


# -- checks an exported trial without its database: everything shown is computed again -------------


_NO_EXPORT = "export: not an exported trial; give what 'export' wrote"


def read_export(data: bytes) -> Any:
    """The tree of an export; `TrialError` if it is not JSON, or a key stands there twice."""
    try:
        return parse(data)
    except JsonError as error:
        raise TrialError(f"export: {error}; give what 'export' wrote") from None


def verify_export(tree: Any, *, head: str | None = None) -> Verification:
    """Check an exported trial, without the database.

    Parameters
    ----------
    tree : dict
        The result of `Trial.export`, or what was read from its file.
    head : str, optional
        A head that was kept elsewhere, which some event must have.

    Returns
    -------
    Verification

    Raises
    ------
    TrialError
        If it is not an exported trial.

    Examples
    --------
    >>> from decobandit.trials import verify_export
    >>> verify_export(trial.export()).ok
    True
    """
    return checked_export(tree, head=head)[0].result()


def replay_export(tree: Any) -> Replay:
    """Make every decision of an exported trial again, without the database.

    Parameters
    ----------
    tree : dict
        As in `verify_export`.

    Returns
    -------
    Replay
        Of an export that `verify_export` does not find intact, what that found.

    Raises
    ------
    TrialError
        As from `verify_export`.

    Examples
    --------
    >>> from decobandit.trials import replay_export
    >>> replay_export(trial.export()).ok
    True
    """
    check, events = checked_export(tree)
    if check.problems:
        return Replay(check.trial, 0, tuple(check.problems))
    return replayed(events)


def checked_export(tree: Any, *, head: str | None = None) -> tuple[LogCheck, list[Event]]:
    """The check of an export, and its events as far as they are whole."""
    try:
        if tree["format"] != EXPORT_FORMAT:
            raise TrialError(f"export: format {tree['format']!r}; must be {EXPORT_FORMAT!r}")
        shown = plain(tree)
        canonical(shown)  # numbers that are none are refused
        trial, rows = str(shown["trial"]), shown["events"]
        check = LogCheck(trial, given_head=head)
        found = [check.add(_stored(row)) for row in rows]
        check.check_head((len(rows) - 1, str(shown["head"])))
        events = [event for event in found if event is not None]
        if not check.problems and check.ledger is not None:
            problems = _export_differences(shown, check.ledger, events)
            check.problems += [f"trial {trial}: in the export, {each}" for each in problems]
    except TrialError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        raise TrialError(_NO_EXPORT) from None
    return check, events


def _stored(row: dict[str, Any]) -> StoredEvent:
    return StoredEvent(row["seq"], row["kind"], row["key"], row["body"], row["hash"])


def _export_differences(
    shown: dict[str, Any], ledger: Ledger, events: list[Event]
) -> Iterator[str]:
    """Where an export differs from what follows from its events."""
    for row, event in zip(shown["events"], events, strict=True):
        again = plain(event.to_dict() | {"body": event.body})
        if canonical(row) != canonical(again):
            yield f"what is shown of event {event.seq} differs from its body"
    version, at = shown["version"], shown["exported_at"]
    if not isinstance(version, str) or time_of(at) is None:
        yield "version and time are not those of an export"
        return
    if not has_check_digits(at, ledger.head):
        yield "exported_at was changed: its last digits do not fit"
    again = export_parts(ledger, decider_of(ledger.settings), version=version, exported_at=at)
    again = plain(again | {"events": shown["events"], "checksum": checksum(shown)})
    yield from _compared_values(shown, again, "")


def _compared_values(shown: Any, again: Any, place: str) -> Iterator[str]:
    where = place or "the export"
    if isinstance(shown, dict) and isinstance(again, dict):
        yield from (f"{where} has an unknown key {key!r}" for key in shown if key not in again)
        for key, value in again.items():
            inside = f"{place}.{key}" if place else key
            if key in shown:
                yield from _compared_values(shown[key], value, inside)
            else:
                yield f"{inside} is missing"
    elif isinstance(shown, list) and isinstance(again, list):
        if len(shown) != len(again):
            yield f"{where} has {len(shown)} entries, not {len(again)}"
        for number, pair in enumerate(zip(shown, again, strict=False)):
            yield from _compared_values(*pair, f"{place}[{number}]")
    elif not _same(shown, again):
        yield f"{where} is {json.dumps(shown)[:100]}, not {json.dumps(again)[:100]}"


def _same(shown: Any, again: Any) -> bool:
    kinds = {type(shown), type(again)}
    if float in kinds and kinds <= {int, float}:
        return math.isclose(shown, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(shown) is type(again) and bool(shown == again)


# -- a copy of an SQLite database while it is in use, checked before it gets its name --------------


PG_DUMP = "PostgreSQL is backed up by its own tools: pg_dump --format=custom"


def back_up(store: Store, target: Path) -> list[Verification]:
    """Copy a database to a new file by SQLite's backup interface; the check of every trial.

    The copy is the database at one moment; writers wait while it is read. A copy with a damaged
    trial is kept as well: the result says what is damaged.
    """
    if store.locks_rows:
        raise StoreError(f"backup: {PG_DUMP}")
    if target.exists():
        raise StoreError(f"{target}: exists; give a new file")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        # nobody else may read it: it has the digests of tokens
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _copy(Path(str(store.url.database)), partial)
        with open_store(partial, existing=True) as copy:
            found = [check.result() for check in check_database(copy)]
        _sync(partial)
        os.link(partial, target)  # unlike a rename, never replaces a file
    except FileExistsError:
        raise StoreError(f"{target}: exists; give a new file") from None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{target}: cannot be written: {error}") from None
    finally:
        for suffix in ("", "-turn", "-journal", "-wal", "-shm"):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
    _sync(target.parent)
    return found


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, timeout=30)) as here,
        closing(sqlite3.connect(target)) as there,
    ):
        here.backup(there)


def _sync(path: Path) -> None:
    if os.name == "posix":
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
