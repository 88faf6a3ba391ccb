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

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from . import schema
from .errors import Conflict, Damaged, NotFound
from .events import GENESIS, Event, StoredEvent, chained, new_event
from .ledger import Ledger
from .plans import Plan
from .store import Store

KEPT_LEDGERS = 2048

# statements are made once: to put one together costs more than to run it
_trials, _events = schema.trials.c, schema.events.c
_ID_OF = select(_trials.id).where(
    (_trials.id == bindparam("trial")) | (_trials.name == bindparam("trial"))
)
_TRIAL = select(schema.trials).where(_trials.id == bindparam("trial"))
_TRIAL_LOCKED = _TRIAL.with_for_update()
_NAMED = select(_trials.id).where(_trials.name == bindparam("name"))
_EVENTS = (
    select(_events.seq, _events.kind, _events.key, _events.body, _events.hash)
    .where((_events.trial_id == bindparam("trial")) & (_events.seq > bindparam("after")))
    .order_by(_events.seq)
)
_NEW_TRIAL, _NEW_EVENT = insert(schema.trials), insert(schema.events)
_MOVE_HEAD = (
    update(schema.trials)
    .where((_trials.id == bindparam("trial")) & (_trials.head_hash == bindparam("before")))
    .values(head_seq=bindparam("seq"), head_hash=bindparam("hash"))
)


class Books:
    """Ledgers by trial. One per store; safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: OrderedDict[str, Ledger] = OrderedDict()
        self._lock = Lock()

    def current(self, connection: Connection, trial: str, *, lock: bool = False) -> Ledger:
        """The trial as the transaction sees it. `lock`: nobody else writes to it before the end."""
        query = _TRIAL_LOCKED if lock and self.store.locks_rows else _TRIAL
        row = connection.execute(query, {"trial": trial}).one_or_none()
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

    def forget(self, trial: str) -> None:
        """Believe nothing of a trial any more: it is read again when it is needed."""
        with self._lock:
            self._kept.pop(trial, None)

    def create(self, connection: Connection, name: str, plan: Plan, *, by: str) -> Ledger:
        """The first event of a new trial."""
        trial, at = secrets.token_hex(8), now()
        refuse_taken(connection, name)
        data = {"name": name, "plan": plan.to_dict(), "multipliers_hash": plan.multipliers_hash}
        event = new_event(trial, 0, "created", data, previous=GENESIS, at=at, by=by)
        row = {
            "id": trial, "name": name, "created_at": at, "head_seq": 0, "head_hash": event.hash,
        }  # fmt: skip
        try:
            connection.execute(_NEW_TRIAL, row)
        except IntegrityError:  # another process was quicker
            raise Conflict(f"a trial called {name!r} exists; choose another name") from None
        _insert(connection, event)
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
        _insert(connection, event)
        head = {
            "trial": ledger.trial, "before": ledger.head, "seq": event.seq, "hash": event.hash,
        }  # fmt: skip
        moved = connection.execute(_MOVE_HEAD, head)
        if moved.rowcount != 1:
            raise Damaged(f"trial {ledger.trial}: the head moved while an event was written")
        self.keep(connection, later)
        return later


def trial_id(connection: Connection, trial: str) -> str:
    """The id of a trial given by id or by name; ids come first."""
    ids = list(connection.execute(_ID_OF, {"trial": trial}).scalars())
    if not ids:
        raise NotFound(f"no trial is called {trial!r}")
    return trial if trial in ids else str(ids[0])


def refuse_taken(connection: Connection, name: str) -> None:
    """`Conflict` if a trial has the name."""
    if connection.execute(_NAMED, {"name": name}).first() is not None:
        raise Conflict(f"a trial called {name!r} exists; choose another name")


def _insert(connection: Connection, event: Event) -> None:
    row = {
        "trial_id": event.trial, "seq": event.seq, "kind": event.kind, "key": event.key,
        "body": event.body, "hash": event.hash,
    }  # fmt: skip
    connection.execute(_NEW_EVENT, row)


def _fitting(ledger: Ledger, row: Row[Any]) -> Ledger:
    if (ledger.name, ledger.created_at) != (row.name, row.created_at):
        raise Damaged(f"trial {row.id}: its name or time was changed after it was created")
    return ledger


def stored_events(connection: Connection, trial: str, *, after: int = -1) -> Sequence[StoredEvent]:
    """The rows of a trial's events, in order, unchecked."""
    found = connection.execute(_EVENTS, {"trial": trial, "after": after})
    return [StoredEvent(*row) for row in found]


def now() -> str:
    """The time of an event: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
