"""The access log: one chain of events per database, of the same form as the log of a trial."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from ..support.records import doc, record_class
from . import schema
from .database import Store
from .errors import Damaged
from .event_log import now
from .events import GENESIS, Event, StoredEvent, chained, digest, new_event
from .verification import CheckResult

PEOPLE = "people"  # the `trial` of the events of this chain
NAME = "the access log"
KINDS = ("login", "refused", "token_made", "token_revoked", "exported", "looked", "unmasked")
_events, _head = schema.people, schema.people_head


@record_class()
class PeopleLog(CheckResult):
    """The access log, with the integrity check of the log and of the tokens.

    Examples
    --------
    >>> from decobandit.trials import people_log
    >>> people_log(trial.store).ok
    True
    """

    events: tuple[Event, ...] = doc("The events up to the first that was changed.")
    head: str = doc("Hash of the last event; worth keeping elsewhere.")
    problems: tuple[str, ...] = doc("Problems, one sentence each.")

    @property
    def findings(self) -> tuple[str, ...]:
        return self.problems

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
    query = select(_head)
    if connection.dialect.name != "sqlite":  # which has one writer at a time
        query = query.with_for_update()
    head = connection.execute(query).one_or_none()
    if head is None:
        raise Damaged(f"{NAME}: its head is missing")
    return head


def record(connection: Connection, kind: str, data: dict[str, Any], *, by: str) -> None:
    """Add an event, in the transaction of the change that it records."""
    head = lock(connection)
    event = new_event(PEOPLE, head.seq + 1, kind, data, previous=head.hash, at=now(), by=by)
    row = {"seq": event.seq, "kind": kind, "body": event.body, "hash": event.hash}
    connection.execute(insert(_events).values(row))
    connection.execute(update(_head).values(seq=event.seq, hash=event.hash))


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
        head = connection.execute(select(_head)).one_or_none()
        order = select(_events).order_by(_events.c.seq)
        rows = [
            StoredEvent(row.seq, row.kind, None, row.body, row.hash)
            for row in connection.execute(order)
        ]
        tokens = [dict(row._mapping) for row in connection.execute(select(schema.tokens))]
    events, problems = list[Event](), list[str]()
    try:
        for event in chained(rows, PEOPLE, kinds=KINDS, name=NAME):
            events.append(event)  # those before the first that was changed
    except Damaged as error:
        problems.append(str(error))
    last = (events[-1].seq, events[-1].hash) if events else (-1, GENESIS)
    if not problems and (head is None or last != (head.seq, head.hash)):
        problems.append(f"{NAME}: the last event is not the one that the head names")
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
        yield f"token {name!r}: {NAME} says that it was made, and it is gone"
    for row in tokens:
        if row["name"] not in logged:
            yield f"token {row['name']!r}: {NAME} does not say that it was made"
        elif token_digest(row) != logged[row["name"]]:
            yield f"token {row['name']!r}: was changed; {NAME} does not say so"
