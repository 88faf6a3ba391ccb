"""Reads and writes events of trials, and the access log.

Ledgers are cached and extended event by event. Nothing read is used before its hash, its link and
the head have been checked, and what a process has read must be in every later state of the
database.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Row, Select, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..support import Cache, appearance
from ..support.records import doc, record_class
from . import schema
from .database import Store
from .errors import Conflict, Damaged, NotFound, StoreError, Unreadable
from .events import (
    GENESIS,
    CheckResult,
    Event,
    Refusal,
    StoredEvent,
    chained,
    digest,
    new_event,
)
from .ledger import Ledger
from .settings import TrialSettings, certificate_of, drawn_codes
from .status import stored_summary

MAX_DAMAGE_TEXT = 500  # characters


class Remembered(Damaged):
    """Damage that was recorded before."""


class DamageRecord:
    """Damage of the trials of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # by trial: not written, because the disk is full or the file is protected
        self._unwritten: dict[str, str] = {}

    def refuse(self, row: Row[Any]) -> None:
        """Raise `Damaged` if the trial of this row is locked."""
        damage = row.damage or self._unwritten.get(row.id)
        if damage:
            advice = "restore the database and run 'deco trial verify'"
            raise Remembered(
                f"trial {row.id}: is locked: integrity check failed ({damage}); {advice}"
            )

    @contextmanager
    def remembering(self, trial: str) -> Iterator[None]:
        """Record damage that is raised inside the block. Not within a transaction."""
        try:
            with self.store.counts.failures():
                yield
        except (Remembered, Unreadable):
            raise
        except Damaged as error:
            self.mark(trial, str(error))
            raise

    def mark(self, trial: str, problem: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="microseconds")  # tells two marks apart
        damage = self._unwritten[trial] = f"{at}: {problem[:MAX_DAMAGE_TEXT]}"
        with suppress(StoreError):  # this process remembers it at least
            self._replace(trial, None, damage)
            self._unwritten.pop(trial, None)

    def clear(self, trial: str, damage: str | None) -> None:
        """Unlock a trial that was checked after `damage` was recorded; keep later damage."""
        self._unwritten.pop(trial, None)
        if damage is not None:
            self._replace(trial, damage, None)

    def _replace(self, trial: str, before: str | None, after: str | None) -> None:
        there = (_trials.id == trial) & (_trials.damage == before)  # None: IS NULL
        statement = update(schema.trials).where(there).values(damage=after)
        self.store.write(lambda connection: connection.execute(statement))


MAX_LEDGERS = 2048
MAX_HEADS = 100_000  # trials whose last head is remembered
MAX_LOCKED = 200  # events that are checked while others wait for the lock
MAX_SINGLE_REFUSALS = 16  # identical refusals that are logged one by one
MAX_REFUSALS = 1000  # different refusals of one person that a trial logs
MAX_COUNTED_REFUSALS = 10_000
PAGE = 500  # events read in one transaction
T = TypeVar("T")

# statements are made once: to build one costs more than to run it
_trials, _events = schema.trials.c, schema.events.c
_ID_OF = select(_trials.id).where(
    (_trials.id == bindparam("trial")) | (_trials.name == bindparam("trial"))
)
_TRIAL = select(schema.trials).where(_trials.id == bindparam("trial"))
_TRIAL_LOCKED = _TRIAL.with_for_update()
_NAMES = select(_trials.name)
_EVENTS = (
    select(_events.seq, _events.kind, _events.key, _events.body, _events.hash)
    .where((_events.trial_id == bindparam("trial")) & (_events.seq > bindparam("after")))
    .order_by(_events.seq)
)
_SOME_EVENTS = _EVENTS.limit(bindparam("most"))
_NEW_TRIAL, _NEW_EVENT = insert(schema.trials), insert(schema.events)
_MOVE_HEAD = (
    update(schema.trials)
    .where((_trials.id == bindparam("trial")) & (_trials.head_hash == bindparam("before")))
    .values(head_seq=bindparam("seq"), head_hash=bindparam("hash"), summary=bindparam("summary"))
)


@dataclass(frozen=True)
class Head:
    """Position and hash of the last event of a trial."""

    trial: str
    seq: int
    hash: str


class NotAtOnce(Exception):
    """A change that would delay other writers; it has to run alone."""


class _FarBehind(NotAtOnce):
    """Too many events to check while other writers wait for the lock."""


class EventLog:
    """The logs of all trials of a store; safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.damage = DamageRecord(store)
        self._ledgers = Cache[str, Ledger](MAX_LEDGERS)
        self._heads = Cache[str, Head](MAX_HEADS)  # the last checked head of every trial
        self._repeats = Cache[tuple[str, Refusal], int](MAX_COUNTED_REFUSALS)

    def read(self, trial: str) -> Ledger:
        """Read a trial; no transaction is open while its events are checked."""
        with self.damage.remembering(trial):
            return self._read(trial)

    def _read(self, trial: str) -> Ledger:
        # cached state first: what was committed before the transaction is in the database
        ledger, head = self._ledgers.get(trial) or Ledger(trial), self._heads.get(trial)
        page: Sequence[StoredEvent] | None = None
        while page is None or len(page) == PAGE:
            with self.store.read() as connection:
                row = self._row(connection, trial, _TRIAL)
                if _head_of(row) == (ledger.seq, ledger.head):
                    break
                page = stored_events(connection, trial, after=ledger.seq, most=PAGE)
            ledger = _continued(ledger, page, row, head)
        _check_end(ledger, row, head)
        self._keep(ledger)
        return ledger

    def pages(
        self, ledger: Ledger, *, after: int = -1, size: int | None = None
    ) -> Iterator[tuple[Event, ...]]:
        """Yield the checked events of a ledger after a number, in pages."""
        trial, previous = ledger.trial, GENESIS if after < 0 else ""
        with self.damage.remembering(trial):
            while after < ledger.seq:
                most = min(size or PAGE, ledger.seq - after)
                with self.store.read() as connection:
                    if not previous:  # the link of the first one
                        rows = stored_events(connection, trial, after=after - 1, most=1)
                        previous = rows[0].hash if rows else ""
                    rows = stored_events(connection, trial, after=after, most=most)
                page = tuple(chained(rows, trial, after=after, previous=previous))
                after += len(page)
                if len(page) < most:
                    raise Damaged(f"trial {trial}, event {after + 1}: is missing")
                previous = page[-1].hash
                if after == ledger.seq and previous != ledger.head:
                    raise Damaged(f"trial {trial}: its events changed while they were read")
                yield page

    def head(self, trial: str) -> Head | None:
        """Return the head of the trial that this process has read or written last."""
        return self._heads.get(trial)

    def latest(self, trial: str) -> Ledger | None:
        """Return the trial as this process has read or written it last, if it is remembered."""
        return self._ledgers.get(trial)

    def heads(self) -> dict[str, Head]:
        return {head.trial: head for head in self._heads.values()}

    def _row(self, connection: Connection, trial: str, query: Select[Any]) -> Row[Any]:
        row = connection.execute(query, {"trial": trial}).one_or_none()
        if row is None and self._heads.get(trial) is not None:
            raise Damaged(f"trial {trial}: was in the database, and is gone")
        if row is None:
            raise NotFound(f"no trial is called {trial!r}")
        self.damage.refuse(row)
        if not isinstance(row.head_seq, int):
            raise Damaged(f"trial {trial}: its head is not the number of an event")
        return row

    def change(self, trial: str, work: Callable[[Connection, Ledger], T]) -> T:
        """Run `work` in a transaction in which no other one writes to the trial."""
        with self.damage.remembering(trial):
            while True:
                try:
                    return self.store.write(
                        lambda connection: work(connection, self.locked(connection, trial))
                    )
                except _FarBehind:
                    self._read(trial)

    def locked(self, connection: Connection, trial: str) -> Ledger:
        """Return the trial in this transaction, in which no other one writes to it."""
        row = self._row(connection, trial, _TRIAL if self.store.shares_commits else _TRIAL_LOCKED)
        head, cached = self._heads.get(trial), self._ledgers.get(trial)
        # a work before this one in the same transaction may have left the trial further on
        for known in (self.store.notes(connection).get(trial), cached):
            if known is not None and _head_of(row) == (known.seq, known.head):
                ledger: Ledger = known
                break
        else:
            ledger = cached or Ledger(trial)
            page = stored_events(connection, trial, after=ledger.seq, most=MAX_LOCKED + 1)
            if len(page) > MAX_LOCKED:
                raise _FarBehind
            ledger = _continued(ledger, page, row, head)
            self.keep(connection, ledger)
        _check_end(ledger, row, head)
        return ledger

    def keep(self, connection: Connection, ledger: Ledger) -> None:
        """Remember a ledger: for later works of the transaction, and when it is committed."""
        self.store.notes(connection)[ledger.trial] = ledger
        self.store.after_commit(connection, lambda: self._keep(ledger))

    def _keep(self, ledger: Ledger) -> None:
        head = Head(ledger.trial, ledger.seq, ledger.head)
        self._ledgers.update(ledger.trial, partial(_later, ledger))
        self._heads.update(ledger.trial, partial(_later, head))

    def count_refusal(self, ledger: Ledger, refusal: Refusal) -> int | None:
        """Count a refusal; return its number if it is to be logged, else None.

        Of identical refusals the first 16 are logged, later ones when their number has doubled;
        different refusals of one person up to a limit.
        """
        logged = ledger.refusals.get(refusal, 0)
        times = self._repeats.update(
            (ledger.trial, refusal), lambda before: max(before or 0, logged) + 1
        )
        if logged:
            return times if times <= MAX_SINGLE_REFUSALS or times >= 2 * logged else None
        by_the_same = sum(other.by == refusal.by for other in ledger.refusals)
        return times if by_the_same < MAX_REFUSALS else None

    def create(
        self, connection: Connection, settings: TrialSettings, about: dict[str, Any], *, by: str
    ) -> Ledger:
        """Write the first event of a new trial; `about`: name, limits and design."""
        trial, name = secrets.token_hex(8), about["name"]
        refuse_taken(connection, name)
        data = about | {
            "plan": settings.to_dict(),
            "multipliers_hash": settings.multipliers_hash,
            "codes": drawn_codes(settings.problem.n_arms),
            "certificate": certificate_of(settings.solution),
        }
        event = new_event(trial, 0, "created", data, previous=GENESIS, at=now(), by=by)
        ledger = Ledger(trial).extended([event])
        row = {"id": trial, "name": name, "created_at": event.at, "head_seq": 0}
        row |= {"head_hash": event.hash, "summary": stored_summary(ledger)}
        try:
            connection.execute(_NEW_TRIAL, row)
        except IntegrityError:  # another process was first
            raise _taken(name) from None
        return self._written(connection, event, ledger)

    def append(
        self,
        connection: Connection,
        ledger: Ledger,
        kind: str,
        data: dict[str, Any],
        *,
        by: str,
        key: str | None = None,
    ) -> Ledger:
        """Append an event to the log of a ledger; `TrialError` if it is not allowed."""
        event = new_event(
            ledger.trial, ledger.seq + 1, kind, data, previous=ledger.head, at=now(), by=by, key=key
        )
        later = ledger.following(event)
        head = {"trial": ledger.trial, "before": ledger.head, "seq": event.seq}
        head |= {"hash": event.hash, "summary": stored_summary(later)}
        if connection.execute(_MOVE_HEAD, head).rowcount != 1:
            raise Damaged(f"trial {ledger.trial}: the head moved while an event was written")
        return self._written(connection, event, later)

    def _written(self, connection: Connection, event: Event, ledger: Ledger) -> Ledger:
        row = {name: getattr(event, name) for name in ("seq", "kind", "key", "body", "hash")}
        connection.execute(_NEW_EVENT, row | {"trial_id": event.trial})
        self.keep(connection, ledger)
        self.store.after_commit(connection, partial(self.store.counts.event, event.kind))
        return ledger


def trial_id(connection: Connection, trial: str) -> str:
    """Return the id of a trial from its id or its name; ids come first."""
    ids = list(connection.execute(_ID_OF, {"trial": trial}).scalars())
    if not ids:
        raise NotFound(f"no trial is called {trial!r}")
    return trial if trial in ids else str(ids[0])


def _taken(name: str) -> Conflict:
    return Conflict(f"a trial called {name!r} exists; choose another name", field="name")


def refuse_taken(connection: Connection, name: str) -> None:
    """Raise `Conflict` if a trial has the name, or one that looks the same."""
    looks = appearance(name)
    for other in connection.execute(_NAMES).scalars():
        if other == name:
            raise _taken(name)
        if appearance(str(other)) == looks:
            text = f"{name!r} looks like the trial {other!r}; choose another name"
            raise Conflict(text, field="name")


def _head_of(row: Row[Any]) -> tuple[int, str]:
    return row.head_seq, row.head_hash


Later = TypeVar("Later", Ledger, Head)


def _later(new: Later, cached: Later | None) -> Later:
    return new if cached is None or cached.seq <= new.seq else cached


def _continued(
    ledger: Ledger, page: Sequence[StoredEvent], row: Row[Any], head: Head | None
) -> Ledger:
    """Extend a ledger by a page; `Damaged` if it does not continue what was read before."""
    if row.head_seq <= ledger.seq:
        raise _older(row)
    events = list(chained(page, ledger.trial, after=ledger.seq, previous=ledger.head))
    for event in events:
        if head is not None and event.seq == head.seq and event.hash != head.hash:
            raise Damaged(f"trial {row.id}, event {head.seq}: is not the one that was read before")
    return ledger.extended(events)


def _check_end(ledger: Ledger, row: Row[Any], head: Head | None) -> None:
    if (ledger.seq, ledger.head) != _head_of(row):
        raise Damaged(f"trial {row.id}: events are missing at the end, or the head was changed")
    if head is not None and ledger.seq < head.seq:
        raise _older(row)
    if (ledger.name, ledger.created_at) != (row.name, row.created_at):
        raise Damaged(f"trial {row.id}: its name or time was changed after it was created")


def _older(row: Row[Any]) -> Damaged:
    return Damaged(
        f"trial {row.id}: the database holds an older or another log than this process has read; "
        "if a copy was restored on purpose, stop all servers, run 'deco trial verify' and start "
        "them again"
    )


def stored_events(
    connection: Connection, trial: str, *, after: int = -1, most: int = -1
) -> Sequence[StoredEvent]:
    """Return the rows of a trial's events, in order, unchecked; `most`: maximum number."""
    query = _EVENTS if most < 0 else _SOME_EVENTS
    rows = connection.execute(query, {"trial": trial, "after": after, "most": most})
    return [StoredEvent(*row) for row in rows]


def stored_pages(
    store: Store, trial: str
) -> Iterator[tuple[Row[Any] | None, Sequence[StoredEvent]]]:
    """Yield pages of a trial's events, unchecked, each with the row of the trial."""
    after = -(2**31)  # before any forged row
    while True:
        with store.read() as connection:
            row = connection.execute(_TRIAL, {"trial": trial}).one_or_none()
            page = stored_events(connection, trial, after=after, most=PAGE)
        yield row, page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def now() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def event_log_of(store: Store) -> EventLog:
    """Return the event log of a store, always the same object."""
    with _EVENT_LOGS_LOCK:
        return _EVENT_LOGS.setdefault(store, EventLog(store))


_EVENT_LOGS: WeakKeyDictionary[Store, EventLog] = WeakKeyDictionary()
_EVENT_LOGS_LOCK = Lock()


# -- the access log: one chain of events per database, of the same form ------------------------

PEOPLE = "people"  # the `trial` of the events of this chain
ACCESS_LOG = "the access log"
PEOPLE_KINDS = ("login", "refused", "token_made", "token_revoked", "exported", "looked", "unmasked")


@record_class()
class PeopleLog(CheckResult):
    """The access log, with the integrity check of the log and of the tokens."""

    events: tuple[Event, ...] = doc("The events up to the first that was changed.")
    head: str = doc("Hash of the last event; worth keeping elsewhere.")
    problems: tuple[str, ...] = doc("Problems, one sentence each.")

    def to_dict(self) -> dict[str, Any]:
        """Return the log as JSON values."""
        return {
            "ok": self.ok,
            "head": self.head,
            "problems": list(self.problems),
            "events": [event.to_dict() for event in self.events],
        }


def lock(connection: Connection) -> Row[Any]:
    """Lock and return the head: no one else writes to this log until the transaction ends."""
    query = select(schema.people_head)
    if connection.dialect.name != "sqlite":  # which has one writer at a time
        query = query.with_for_update()
    head = connection.execute(query).one_or_none()
    if head is None:
        raise Damaged(f"{ACCESS_LOG}: its head is missing")
    return head


def record(connection: Connection, kind: str, data: dict[str, Any], *, by: str) -> None:
    """Add an event, in the transaction of the change that it records."""
    head = lock(connection)
    event = new_event(PEOPLE, head.seq + 1, kind, data, previous=head.hash, at=now(), by=by)
    row = {"seq": event.seq, "kind": kind, "body": event.body, "hash": event.hash}
    connection.execute(insert(schema.people).values(row))
    connection.execute(update(schema.people_head).values(seq=event.seq, hash=event.hash))


def record_all(store: Store, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
    """Add events in one transaction: (kind, by, data) of each."""

    def work(connection: Connection) -> None:
        for kind, by, data in entries:
            record(connection, kind, data, by=by)

    store.write(work)


def people_log(store: Store) -> PeopleLog:
    """Read the access log; check every hash, every link, the head, and the tokens against it.

    Parameters
    ----------
    store : Store
        The database.

    Returns
    -------
    PeopleLog

    Raises
    ------
    StoreError
        If the database cannot be used.

    Examples
    --------
    >>> from decobandit.trials import people_log
    >>> [event.kind for event in people_log(trial.store).events]
    []
    """
    with store.read() as connection:
        head = connection.execute(select(schema.people_head)).one_or_none()
        order = select(schema.people).order_by(schema.people.c.seq)
        rows = [
            StoredEvent(row.seq, row.kind, None, row.body, row.hash)
            for row in connection.execute(order)
        ]
        tokens = [dict(row._mapping) for row in connection.execute(select(schema.tokens))]
    events, problems = list[Event](), list[str]()
    try:
        for event in chained(rows, PEOPLE, kinds=PEOPLE_KINDS, name=ACCESS_LOG):
            events.append(event)  # those before the first that was changed
    except Damaged as error:
        problems.append(str(error))
    last = (events[-1].seq, events[-1].hash) if events else (-1, GENESIS)
    if not problems and (head is None or last != (head.seq, head.hash)):
        problems.append(f"{ACCESS_LOG}: the last event is not the one that the head names")
    if not problems:
        problems += _token_problems(events, tokens)
    return PeopleLog(PEOPLE, tuple(events), last[1], tuple(problems))


def token_digest(row: Mapping[str, Any]) -> str:
    """Return the digest of the columns of a token, its state in the access log."""
    return digest(json.dumps([row[column.name] for column in schema.tokens.c], default=str))


def _token_problems(events: Iterable[Event], tokens: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the differences between the tokens and the log."""
    logged = {
        event.data.get("token"): event.data.get("row")
        for event in events
        if event.kind in ("token_made", "token_revoked")
    }
    for name in sorted(logged.keys() - {row["name"] for row in tokens}, key=str):
        yield f"token {name!r}: {ACCESS_LOG} says that it was made, and it is gone"
    for row in tokens:
        if row["name"] not in logged:
            yield f"token {row['name']!r}: {ACCESS_LOG} does not say that it was made"
        elif token_digest(row) != logged[row["name"]]:
            yield f"token {row['name']!r}: was changed; {ACCESS_LOG} does not say so"
