"""The ledgers of a database: read once, then followed event by event; and the writing of events.

Nothing read from the database is believed before its hash, its place in the chain and the head of
the chain have been checked: an answer is either right or refused.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from . import schema
from .errors import Conflict, Damaged, NotFound
from .events import GENESIS, StoredEvent, chained, new_event
from .ledger import Ledger
from .plans import Plan
from .store import Store

KEPT_LEDGERS = 256
_EVENT_COLUMNS = [schema.events.c[name] for name in ("seq", "kind", "key", "body", "hash")]


class Books:
    """Ledgers by trial. One per store; safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: OrderedDict[str, Ledger] = OrderedDict()
        self._lock = Lock()

    def trial_id(self, connection: Connection, trial: str) -> str:
        """The id of a trial given by id or by name; ids come first."""
        columns = schema.trials.c
        found = connection.execute(
            select(columns.id).where((columns.id == trial) | (columns.name == trial))
        ).scalars()
        ids = list(found)
        if not ids:
            raise NotFound(f"no trial is called {trial!r}")
        return trial if trial in ids else str(ids[0])

    def current(self, connection: Connection, trial: str, *, lock: bool = False) -> Ledger:
        """The trial as the transaction sees it. `lock`: nobody else writes to it before the end."""
        query = select(schema.trials).where(schema.trials.c.id == trial)
        if lock and self.store.locks_rows:
            query = query.with_for_update()
        row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"no trial is called {trial!r}")
        with self._lock:
            known = self._kept.get(trial) or Ledger(trial)
        if (known.seq, known.head) != (row.head_seq, row.head_hash):
            known = self._caught_up(connection, known, row)
            if lock:
                self.keep(connection, known)
            else:  # a reader sees only what is committed
                self._keep(known)
        return _fitting(known, row)

    def _caught_up(self, connection: Connection, known: Ledger, row: Row[Any]) -> Ledger:
        try:
            later = self._after(connection, known)
            if (later.seq, later.head) == (row.head_seq, row.head_hash):
                return later
        except Damaged:
            if known.seq < 0:
                raise
        # what was known may have been restored away: believe only what is there now
        later = self._after(connection, Ledger(row.id))
        if (later.seq, later.head) != (row.head_seq, row.head_hash):
            raise Damaged(f"trial {row.id}: events are missing at the end, or the head was changed")
        return later

    def _after(self, connection: Connection, known: Ledger) -> Ledger:
        rows = stored_events(connection, known.trial, after=known.seq)
        return known.extended(chained(rows, known.trial, after=known.seq, previous=known.head))

    def keep(self, connection: Connection, ledger: Ledger) -> None:
        """Remember a ledger when the transaction is committed."""
        self.store.after_commit(connection, lambda: self._keep(ledger))

    def _keep(self, ledger: Ledger) -> None:
        with self._lock:
            known = self._kept.get(ledger.trial)
            if known is None or known.seq <= ledger.seq:
                self._kept[ledger.trial] = ledger
            self._kept.move_to_end(ledger.trial)
            while len(self._kept) > KEPT_LEDGERS:
                self._kept.popitem(last=False)

    def create(self, connection: Connection, name: str, plan: Plan, *, by: str) -> Ledger:
        """The first event of a new trial."""
        trial, at = secrets.token_hex(8), now()
        taken = select(schema.trials.c.id).where(schema.trials.c.name == name)
        if connection.execute(taken).first() is not None:
            raise Conflict(f"a trial called {name!r} exists; choose another name")
        data = {"name": name, "plan": plan.to_dict(), "multipliers_hash": plan.multipliers_hash}
        event = new_event(trial, 0, "created", data, previous=GENESIS, at=at, by=by)
        row = {
            "id": trial, "name": name, "created_at": at, "head_seq": 0, "head_hash": event.hash,
        }  # fmt: skip
        try:
            connection.execute(insert(schema.trials).values(row))
        except IntegrityError:  # another process was quicker
            raise Conflict(f"a trial called {name!r} exists; choose another name") from None
        self._insert(connection, event.body, event.hash, trial, 0, "created", None)
        return Ledger(trial).extended([event])

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
        """One more event after those of the ledger."""
        event = new_event(
            ledger.trial, ledger.seq + 1, kind, data,
            previous=ledger.head, at=now(), by=by, key=key,
        )  # fmt: skip
        later = ledger.extended([event])
        self._insert(connection, event.body, event.hash, ledger.trial, event.seq, kind, key)
        head = schema.trials.c
        moved = connection.execute(
            update(schema.trials)
            .where((head.id == ledger.trial) & (head.head_hash == ledger.head))
            .values(head_seq=event.seq, head_hash=event.hash)
        )
        if moved.rowcount != 1:
            raise Damaged(f"trial {ledger.trial}: the head moved while an event was written")
        self.keep(connection, later)
        return later

    def _insert(
        self,
        connection: Connection,
        body: str,
        hash: str,
        trial: str,
        seq: int,
        kind: str,
        key: str | None,
    ) -> None:
        row = {"trial_id": trial, "seq": seq, "kind": kind, "key": key, "body": body, "hash": hash}
        connection.execute(insert(schema.events).values(row))


def _fitting(ledger: Ledger, row: Row[Any]) -> Ledger:
    if (ledger.name, ledger.created_at) != (row.name, row.created_at):
        raise Damaged(f"trial {row.id}: its name or time was changed after it was created")
    return ledger


def stored_events(connection: Connection, trial: str, *, after: int = -1) -> Sequence[StoredEvent]:
    """The rows of a trial's events, in order, unchecked."""
    table = schema.events.c
    query = (
        select(*_EVENT_COLUMNS)
        .where((table.trial_id == trial) & (table.seq > after))
        .order_by(table.seq)
    )
    return [StoredEvent(*row) for row in connection.execute(query)]


def now() -> str:
    """The time of an event: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
