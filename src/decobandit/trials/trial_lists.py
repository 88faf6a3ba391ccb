"""The trials of a database, page by page: from their summaries, where these fit the heads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, tuple_, update

from . import schema
from .database import Store
from .errors import Damaged, NotFound, StoreError
from .event_log import EventLog, Head, event_log_of, trial_id
from .ledger import Ledger
from .paging import Page, page_size
from .staleness import STALE_AFTER, stale_limit, with_staleness
from .status import Summary, summary_of
from .summaries import kept_summary, summary_from

_trials, _events = schema.trials.c, schema.events.c
_ROWS = (
    select(schema.trials, _events.body.label("last_body"), _events.hash.label("last_hash"))
    .join_from(
        schema.trials,
        schema.events,
        (_events.trial_id == _trials.id) & (_events.seq == _trials.head_seq),
        isouter=True,
    )
    .order_by(_trials.created_at, _trials.id)
)
_KEEP = (
    update(schema.trials)
    .where((_trials.id == bindparam("trial")) & (_trials.head_hash == bindparam("head")))
    .values(summary=bindparam("kept"))
)


@dataclass(frozen=True)
class TrialPage(Page[Summary]):
    """Some trials, and how many archived ones were left out before the last of them."""

    hidden: int


def page_of_trials(
    store: Store,
    *,
    limit: int | None = None,
    after: str | None = None,
    only: Collection[str] | None = None,
    archived: bool = False,
    running: bool | None = None,
    stale_after: float = STALE_AFTER,
) -> TrialPage:
    """Some trials, the oldest first.

    `after`: id or name; `only`: names that may be listed; `archived`: archived ones too; `running`:
    only those that run, or only the others.
    """
    size, stale = page_size(limit), stale_limit(stale_after)
    shown, hidden, passed = list[Summary](), 0, 0
    for one in _summaries(store, size + 1, after, only):
        if one.state == "archived" and not archived:
            passed += 1
        elif running is not None and (one.badge == "running") != running:
            continue
        elif len(shown) == size:
            return TrialPage(tuple(shown), shown[-1].id, hidden)
        else:
            shown.append(with_staleness(one, stale))
            hidden = passed
    return TrialPage(tuple(shown), None, passed)


def all_trials(
    store: Store,
    *,
    after: str | None = None,
    archived: bool = False,
    stale_after: float = STALE_AFTER,
) -> TrialPage:
    """All trials after one of them, read page by page."""
    shown, hidden = list[Summary](), 0
    while True:
        page = page_of_trials(store, after=after, archived=archived, stale_after=stale_after)
        shown += page.items
        hidden += page.hidden
        after = page.next
        if after is None:
            return TrialPage(tuple(shown), None, hidden)


def _summaries(
    store: Store, most: int, after: str | None, only: Collection[str] | None
) -> Iterator[Summary]:
    """Summaries of trials, so many in one transaction, the archived ones among them."""
    log = event_log_of(store)
    while True:
        with store.read() as connection:
            rows = connection.execute(_wanted(connection, most, after, only)).all()
        read = list[Ledger]()
        found = [_summary(log, row, read) for row in rows]
        if read:
            _keep(store, read)
        yield from found
        if len(rows) < most:
            return
        after = str(rows[-1].id)


def _wanted(
    connection: Connection, most: int, after: str | None, only: Collection[str] | None
) -> Any:
    wanted = _ROWS.limit(most)
    if after is not None:
        last = select(_trials.created_at, _trials.id, _trials.name)
        last = last.where(_trials.id == trial_id(connection, after))
        created_at, key, name = connection.execute(last).one()
        if only is not None and name not in only:
            raise NotFound(f"no trial is called {after!r}")
        wanted = wanted.where(tuple_(_trials.created_at, _trials.id) > (created_at, key))
    return wanted if only is None else wanted.where(_trials.name.in_(only))


def _summary(log: EventLog, row: Row[Any], read: list[Ledger]) -> Summary:
    """From what is kept, or from the events; ledgers of the latter join `read`."""
    try:
        log.damage.refuse(row)
        kept = summary_from(row) if _is_later(row, log.seen(row.id)) else None
        if kept is not None:
            return kept
        ledger = log.read(row.id)
    except Damaged:
        return Summary(
            str(row.id), str(row.name), "", 0, 0, 0, 0, 0, str(row.created_at), intact=False
        )
    read.append(ledger)
    return summary_of(ledger)


def _is_later(row: Row[Any], seen: Head | None) -> bool:
    """Whether a row can follow what this process has read of its trial; `read` looks closer."""
    if seen is None or not isinstance(row.head_seq, int):
        return seen is None
    return row.head_seq > seen.seq or (row.head_seq, row.head_hash) == (seen.seq, seen.hash)


def _keep(store: Store, read: list[Ledger]) -> None:
    """Keep what had to be made, for the next list; if it cannot be written, nothing is lost."""

    rows = [{"trial": each.trial, "head": each.head, "kept": kept_summary(each)} for each in read]
    with suppress(StoreError):
        store.write(lambda connection: connection.execute(_KEEP, rows))
