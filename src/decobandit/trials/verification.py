"""Integrity of a log: every hash, every link, the head, the rules of a trial, its decisions."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from .._version import __version__
from ..support import JsonError, code_environment, parse
from ..support.records import doc, record_class
from . import schema
from .database import Store, StoreLike, closed_on_error, open_store
from .decisions import Decider, decision_record
from .errors import Damaged, StoreError, TrialError
from .event_log import event_log_of, stored_pages, trial_id
from .events import GENESIS, CheckResult, Event, StoredEvent, canonical, chained
from .export import (
    EXPORT_FORMAT,
    checksum,
    export_parts,
    exported_event,
    has_check_digits,
    json_values,
)
from .ledger import Ledger
from .settings import ARM_KINDS, NO_BOUND, certificate_of, check_bound
from .status import bound_from_here, is_forged


@record_class()
class Verification(CheckResult):
    """Result of the integrity check of a log."""

    events: int = doc("Events that were checked.")
    head: str = doc("Hash of the last event; worth keeping elsewhere.")
    problems: tuple[str, ...] = doc("Problems, one sentence each.")
    remarks: tuple[str, ...] = doc(
        "Observations that are no proof of a change: times that run backwards, a trial without a "
        "bound.",
        default=(),
    )
    given_head_event: int | None = doc(
        "Position of the event whose hash is the head that was given; null if none was given, or "
        "no event has it.",
        default=None,
    )
    events_since_given_head: int | None = doc("Events after it.", default=None)


class LogCheck:
    """Check of stored events one after the other; it continues after a bad one."""

    def __init__(self, trial: str, *, given_head: str | None = None) -> None:
        self.trial = trial
        self.ledger: Ledger | None = Ledger(trial)  # None: only hashes and links can be checked
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.hashes: list[str] = []  # of every event
        self._seq, self._previous, self._last_time = -1, GENESIS, ""
        self._given_head = None if given_head is None else given_head.strip().lower()

    def add(self, row: StoredEvent) -> Event | None:
        """Check one more event; return None if it was changed."""
        event = None
        try:
            (event,) = chained([row], self.trial, after=self._seq, previous=self._previous)
            if self.ledger is not None:
                self.ledger.advance(event)
        except Damaged as error:
            self.problems.append(str(error))
            self.ledger = event = None
        else:
            at = time_of(event.at)
            if at is None:
                self.remarks.append(f"event {event.seq}: its time {event.at!r} is no time")
            elif at < self._last_time:
                text = f"its time {event.at} is before that of the event before it"
                self.remarks.append(f"event {event.seq}: {text}")
            self._last_time = at or self._last_time
        self._seq = row.seq if isinstance(row.seq, int) else self._seq + 1
        self._previous = row.hash
        self.hashes.append(row.hash)
        return event

    def add_problem(self, text: str) -> None:
        self.problems.append(f"trial {self.trial}: {text}")

    def check_head(self, head: tuple[int, str]) -> None:
        """Compare the last event with the head on record."""
        if not self.hashes:
            self.add_problem("has no events")
        elif (self._seq, self._previous) != head:
            self.add_problem("the last event is not the one that the head names")

    def result(self) -> Verification:
        remarks, problems, event = list(self.remarks), list(self.problems), None
        if self.hashes and self.ledger is not None and not self.ledger.settings.has_prices:
            remarks.append(NO_BOUND)
        if self._given_head in self.hashes:
            event = self.hashes.index(self._given_head)
        elif self._given_head is not None:
            problems.append(f"trial {self.trial}: no event has the given head")
        number = len(self.hashes)
        since = None if event is None else number - 1 - event
        texts = tuple(problems), tuple(remarks)
        return Verification(self.trial, number, self._previous, *texts, event, since)


def time_of(text: object) -> str | None:
    """Return a time of the log as text that sorts by time; None if it is no time with a zone."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return None if time.tzinfo is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def check_trial(trial: str, *, db: StoreLike = None, head: str | None = None) -> Verification:
    """Check all events of a trial by id or name, even if it can no longer be opened.

    Damage locks the trial in all processes; an intact trial is unlocked. `head`: a hash kept
    elsewhere, which some event must have.
    """
    with closed_on_error(db) as store:
        return check_logs(store, trial, given_head=head)[0].result()


def check_logs(
    store: Store, trial: str | None = None, *, given_head: str | None = None
) -> list[LogCheck]:
    """Check one trial by id or name; else every trial, and that none is gone with events left."""
    columns, removed = schema.trials.c, list[str]()
    read_before = set(event_log_of(store).heads())
    with store.read() as connection:
        if trial is not None:
            ids = [trial_id(connection, trial)]
        else:
            by_age = select(columns.id).order_by(columns.created_at, columns.id)
            ids = [str(one) for one in connection.execute(by_age).scalars()]
            with_events = connection.execute(select(schema.events.c.trial_id).distinct()).scalars()
            removed = sorted((read_before | {str(one) for one in with_events}) - set(ids))
    return [_checked(store, one, given_head) for one in (*ids, *removed)]


def _checked(store: Store, trial: str, given_head: str | None) -> LogCheck:
    event_log = event_log_of(store)
    head = event_log.head(trial)  # before anything is read: later heads need not be in it
    check = LogCheck(trial, given_head=given_head)
    row, created = None, None  # the row, and name and time of the first event
    for newest, page in stored_pages(store, trial):
        row = newest
        for stored in page:
            event = check.add(stored)
            if event is not None and event.seq == 0:
                created = (event.data.get("name"), event.at)
    if row is None:
        left = "has events, but the trial" if check.hashes else "was in the database, and"
        check.add_problem(f"{left} is missing")
        return check
    check.check_head((row.head_seq, row.head_hash))
    if head is not None and check.hashes[head.seq : head.seq + 1] != [head.hash]:
        check.add_problem(
            f"event {head.seq}, which this process has read before, is missing or another "
            "one: an older or another database was put in its place"
        )
    if not check.problems and created != (row.name, row.created_at):
        check.add_problem("its name or time was changed after it was created")
    if check.problems:
        event_log.damage.mark(trial, check.problems[0])
        return check
    event_log.damage.clear(trial, row.damage)
    assert check.ledger is not None  # there are problems otherwise
    if is_forged(row.summary, check.ledger):  # decisions do not depend on it
        check.add_problem(
            "what lists show of it is not what its events say; the next event of the trial "
            "repairs it"
        )
    return check


TOLERANCE = 1e-9  # of recomputed numbers: another machine may add in another order
MAX_TABLE_STATES = 2e9  # states of all stages and groups, up to which whole tables are made


@record_class()
class Replay(CheckResult):
    """Result of recomputing every decision."""

    decisions: int = doc("Decisions that were computed again.")
    differences: tuple[str, ...] = doc("Differences from the record, one sentence each.")
    made_by: tuple[str, ...] = doc("By which version, packages and processor decisions were made.")
    recomputed_by: str = doc("The same of this program.")

    @property
    def findings(self) -> tuple[str, ...]:
        return self.differences


def replayed(events: Sequence[Event]) -> Replay:
    """Make all decisions of a log again."""
    trial, asks = events[0].trial, [event for event in events if event.kind == "asked"]
    ledger = Ledger(trial).extended(events[:1])
    deciders = {part.segment: _second_decider(part) for part in ledger.parts}
    differences = _compared_settings(events[0], ledger)
    for event in events[1:]:
        if event.kind == "asked":
            try:
                part = ledger.of(event.data.get("segment"))
                differences += _compared(event, ledger.asks, part, deciders[part.segment])
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                differences.append(f"event {event.seq}: cannot be made again: {error}")
        ledger.advance(event)  # this ledger is not shared
        if event.kind in ARM_KINDS:
            deciders[None] = decider = _second_decider(ledger)
            differences += _compared_settings(event, ledger)
            if not _same(event.data["bound_from_here"], bound_from_here(ledger, decider)):
                differences.append(f"event {event.seq}: bound_from_here differs from the record")
    origins = Counter(
        _origin(event.version, event.data["decision"].get("environment")) for event in asks
    )
    made_by = tuple(f"{count} by {origin}" for origin, count in origins.items())
    return Replay(trial, len(asks), tuple(differences), made_by, _this_program())


def _this_program() -> str:
    return _origin(__version__, code_environment())


def _origin(version: str, by: object) -> str:
    """Return the environment of a decision, as recorded."""
    if not isinstance(by, dict):  # a log that another program has written
        return f"version {version}"
    return f"version {version}, packages {by.get('packages')}, {by.get('cpu')}"


def _second_decider(ledger: Ledger) -> Decider:
    """Return a decider whose tables are made in another way than those of asks, if they fit."""
    states = len(ledger.problem.groups) * ledger.problem.stages**3 / 6
    return Decider(ledger.settings, use_cones=states > MAX_TABLE_STATES)


def _compared_settings(event: Event, ledger: Ledger) -> list[str]:
    differences, settings, data = [], ledger.settings, event.data
    if data.get("multipliers_hash") != settings.multipliers_hash:
        differences.append("the hash of the multipliers is not theirs")
    if event.kind == "created" and data["certificate"] != certificate_of(settings.solution):
        differences.append("the certificate is not that of the prices")
    for part in ledger.parts:
        try:
            if part.settings.solution is not None:
                check_bound(part.settings.solution)
        except TrialError as error:
            differences.append(str(error))
    return [f"event {event.seq}: {text}" for text in differences]


def _compared(event: Event, number: int, ledger: Ledger, decider: Decider) -> Iterator[str]:
    """Yield differences of an ask, whose number in the whole trial is given, from its decision."""
    decision = decider.decide(ledger)
    by = {"environment": event.data["decision"].get("environment")}  # it may be another one now
    now = {
        "pulls": decision.by_name(ledger.problem),
        "reason": decision.reason,
        "number": number,
        "decision": decision_record(decision, ledger) | by,
    }
    before = {name: event.data.get(name) for name in now}
    for difference in _compared_values(before, now, ""):
        yield f"event {event.seq}: on record, {difference}"


def read_export(data: bytes) -> Any:
    """Parse an export; `TrialError` if it is not JSON, or has a key twice."""
    try:
        return parse(data)
    except JsonError as error:
        raise TrialError(f"export: {error}; give what 'export' wrote", field="export") from None


def verify_export(tree: Any, *, head: str | None = None) -> Verification:
    """Check an exported trial without the database: `tree` is the content of its file.

    `head`: hash of an event, noted elsewhere; some event must have it.
    """
    return checked_export(tree, head=head)[0].result()


def replay_export(tree: Any) -> Replay:
    """Recompute every decision of an exported trial, as in `verify_export`.

    `tree` is the content of its file. Differences include the problems that `verify_export` finds.
    """
    check, events = checked_export(tree)
    if check.problems:
        return Replay(check.trial, 0, tuple(check.problems), (), _this_program())
    return replayed(events)


def checked_export(tree: Any, *, head: str | None = None) -> tuple[LogCheck, list[Event]]:
    """Return the check of an export, and its intact events."""
    try:
        if tree["format"] != EXPORT_FORMAT:
            text = f"export: format {tree['format']!r}; must be {EXPORT_FORMAT!r}"
            raise TrialError(text, field="export")
        shown = json_values(tree)
        canonical(shown)  # refuses NaN
        trial, rows = str(shown["trial"]), shown["events"]
        check = LogCheck(trial, given_head=head)
        columns = ("seq", "kind", "key", "body", "hash")
        checked = [check.add(StoredEvent(*(row[name] for name in columns))) for row in rows]
        check.check_head((len(rows) - 1, str(shown["head"])))
        events = [event for event in checked if event is not None]
        if not check.problems and check.ledger is not None:
            for problem in _export_differences(shown, check.ledger, events):
                check.add_problem(f"in the export, {problem}")
    except TrialError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        text = "export: not an exported trial; give what 'export' wrote"
        raise TrialError(text, field="export") from None
    return check, events


def _export_differences(
    shown: dict[str, Any], ledger: Ledger, events: list[Event]
) -> Iterator[str]:
    """Yield where an export differs from what follows from its events."""
    for row, event in zip(shown["events"], events, strict=True):
        if canonical(row) != canonical(json_values(exported_event(event))):
            yield f"what is shown of event {event.seq} differs from its body"
    version, at = shown["version"], shown["exported_at"]
    if not isinstance(version, str) or time_of(at) is None:
        yield "version and time are not those of an export"
        return
    if not has_check_digits(at, ledger.head):
        yield "exported_at was changed: its last digits do not fit"
    parts = export_parts(ledger, version=version, exported_at=at)
    parts |= {"events": shown["events"], "checksum": checksum(shown)}
    yield from _compared_values(shown, json_values(parts), "")


def _compared_values(shown: Any, expected: Any, place: str) -> Iterator[str]:
    where = place or "the export"
    if isinstance(shown, dict) and isinstance(expected, dict):
        yield from (f"{where} has an unknown key {key!r}" for key in shown if key not in expected)
        for key, value in expected.items():
            inside = f"{place}.{key}" if place else key
            if key in shown:
                yield from _compared_values(shown[key], value, inside)
            else:
                yield f"{inside} is missing"
    elif isinstance(shown, list) and isinstance(expected, list):
        if len(shown) != len(expected):
            yield f"{where} has {len(shown)} entries, not {len(expected)}"
        for number, pair in enumerate(zip(shown, expected, strict=False)):
            yield from _compared_values(*pair, f"{place}[{number}]")
    elif not _same(shown, expected):
        yield f"{where} is {json.dumps(shown)[:100]}, not {json.dumps(expected)[:100]}"


def _same(shown: Any, expected: Any) -> bool:
    types = {type(shown), type(expected)}
    if float in types and types <= {int, float}:
        return math.isclose(shown, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(shown) is type(expected) and bool(shown == expected)


PG_DUMP = "PostgreSQL is backed up by its own tools: pg_dump --format=custom"


def back_up(store: Store, target: Path) -> list[Verification]:
    """Copy a database to a new file by SQLite's backup interface, and check every trial of it.

    The copy is the database at one moment; writers wait while it is read. It gets its name after
    the check; a copy with a damaged trial is kept, too: the result names the damage.
    """
    if not store.shares_commits:
        raise StoreError(f"backup: {PG_DUMP}")
    if target.exists():
        raise StoreError(f"{target}: exists; give a new file")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    source = Path(str(store.url.database)).as_uri()
    try:
        # readable by its owner only: it has the digests of tokens
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            closing(sqlite3.connect(f"{source}?mode=ro", uri=True, timeout=30)) as original,
            closing(sqlite3.connect(partial)) as copy,
        ):
            original.backup(copy)
        with open_store(partial, existing=True) as copied:
            results = [check.result() for check in check_logs(copied)]
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
    return results


def _sync(path: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
