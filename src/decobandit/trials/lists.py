"""Lists in pages: the trials of a database, the log and the allocations of one trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Row, bindparam, select, tuple_, update

from . import schema
from .allocations import Allocation, AllocationState
from .database import Store
from .errors import Damaged, NotFound, StoreError, TrialError
from .event_log import EventLog, event_log_of, trial_id
from .events import Event
from .ledger import Ledger
from .status import Summary, stored_summary, summary_from, summary_of

Item_co = TypeVar("Item_co", covariant=True)
MAX_PAGE = 1000  # entries of a page, and the default
STALE_AFTER = 72.0  # hours
MAX_HOURS = 1e6


@dataclass(frozen=True)
class Page(Generic[Item_co]):
    """Entries of a list, and the key of the last one if more follow."""

    items: tuple[Item_co, ...]
    next: str | None


def page_size(limit: int | None) -> int:
    """Check the number of entries of a page."""
    if limit is not None and not 1 <= limit <= MAX_PAGE:
        raise TrialError(f"limit: {limit} is not allowed; must be 1 to {MAX_PAGE}", field="limit")
    return MAX_PAGE if limit is None else limit


def stale_ids(
    since: Mapping[str, str], hours: float = STALE_AFTER, *, now: datetime | None = None
) -> list[str]:
    """Return pending allocations made more than `hours` ago, the oldest first."""
    limit = stale_limit(hours, now)
    return [slot_id for slot_id, at in since.items() if _is_before(at, limit)]


def stale_limit(hours: float, now: datetime | None = None) -> datetime:
    """Return the time before which pending allocations are stale."""
    if not 0.0 < hours <= MAX_HOURS:
        rule = f"must be more than 0, at most {MAX_HOURS:g}"
        raise TrialError(f"stale_after: {hours:g} hours; {rule}", field="stale_after")
    return (now or datetime.now(UTC)) - timedelta(hours=hours)


def _is_before(at: str | None, limit: datetime) -> bool:
    try:
        return datetime.fromisoformat(at or "") < limit
    except (TypeError, ValueError):  # no time, or one without its zone
        return False


def page_of_events(
    store: Store, ledger: Ledger, *, after: int = -1, limit: int | None = None
) -> Page[Event]:
    """Return the checked events after a number."""
    size, left = page_size(limit), ledger.seq - after
    items = next(event_log_of(store).pages(ledger, after=after, size=size), ())
    return Page(items, str(items[-1].seq) if left > size else None)


def numbers_of(ledger: Ledger) -> dict[str, int | str]:
    """Return the number of every allocation, from 1."""
    return {slot_id: number for number, slot_id in enumerate(ledger.allocations, start=1)}


def matching(
    allocations: Iterable[Allocation], numbers: Mapping[str, int | str], find: str
) -> list[Allocation]:
    """Return allocations with this number, subject or id prefix, else with it in their subject."""
    wanted, every = find.strip().casefold(), list(allocations)
    subjects = {slot.id: (slot.subject or "").casefold() for slot in every}
    slots = [
        slot
        for slot in every
        if wanted in (str(numbers[slot.id]), subjects[slot.id]) or slot.id.startswith(wanted)
    ]
    return slots or [slot for slot in every if wanted in subjects[slot.id]]


def page_of_allocations(
    allocations: Mapping[str, Allocation],
    *,
    after: str | None = None,
    limit: int | None = None,
    state: AllocationState | None = None,
) -> Page[Allocation]:
    """Return a page of allocations in order; `state`: only those in it."""
    size = page_size(limit)
    if after is not None and after not in allocations:
        raise NotFound("after: no such allocation in this trial", field="after")
    start = 0 if after is None else list(allocations).index(after) + 1
    slots = islice(allocations.values(), start, None)
    wanted = (slot for slot in slots if state in (None, slot.state))
    items = tuple(islice(wanted, size))
    return Page(items, items[-1].id if next(wanted, None) else None)


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
    .values(summary=bindparam("line"))
)


@dataclass(frozen=True)
class TrialPage(Page[Summary]):
    """Trials, and the number of archived ones left out before the last of them."""

    hidden: int


def page_of_trials(
    store: Store,
    *,
    limit: int | None = None,
    after: str | None = None,
    only: Collection[str] | None = None,
    archived: bool = False,
    running: bool | None = None,
    find: str = "",
    stale_after: float = STALE_AFTER,
    every: bool = False,
) -> TrialPage:
    """Return a page of trials, the oldest first; `every`: all that follow, whatever their number.

    `after`: id or name; `only`: names that may be listed; `archived`: include archived trials;
    `running`: True for running trials only, False for the others only; `find`: part of the name.
    """
    size, stale = page_size(limit), stale_limit(stale_after)
    shown, hidden, passed = list[Summary](), 0, 0
    for one in _summaries(store, size + 1, after, only):
        if find.strip().casefold() not in one.name.casefold():
            continue
        if one.state == "archived" and not archived:
            passed += 1
        elif running is not None and (one.badge == "running") != running:
            continue
        elif len(shown) == size and not every:
            return TrialPage(tuple(shown), shown[-1].id, hidden)
        else:
            shown.append(replace(one, stale=_is_before(one.open_since, stale)))
            hidden = passed
    return TrialPage(tuple(shown), None, passed)


def _summaries(
    store: Store, most: int, after: str | None, only: Collection[str] | None
) -> Iterator[Summary]:
    """Yield summaries of trials, archived ones included, `most` per transaction."""
    log, rows = event_log_of(store), None
    while rows is None or len(rows) == most:
        wanted = (
            _ROWS.limit(most) if only is None else _ROWS.limit(most).where(_trials.name.in_(only))
        )
        with store.read() as connection:
            if after is not None:
                last = select(_trials.created_at, _trials.id, _trials.name)
                last = last.where(_trials.id == trial_id(connection, after))
                created_at, key, name = connection.execute(last).one()
                if only is not None and name not in only:
                    raise NotFound(f"no trial is called {after!r}")
                wanted = wanted.where(tuple_(_trials.created_at, _trials.id) > (created_at, key))
            rows = connection.execute(wanted).all()
        read = list[Ledger]()
        summaries = [_summary(log, row, read) for row in rows]
        if read:  # for the next list, if the database can be written
            lines = [{"trial": x.trial, "head": x.head, "line": stored_summary(x)} for x in read]
            with suppress(StoreError):
                store.write(partial(Connection.execute, statement=_KEEP, parameters=lines))
        yield from summaries
        after = str(rows[-1].id) if rows else after


def _summary(log: EventLog, row: Row[Any], read: list[Ledger]) -> Summary:
    """Return the stored summary, or one from the events, whose ledger joins `read`."""
    head = log.head(row.id)  # the last one that this process has read
    try:
        log.damage.refuse(row)
        later = head is None or (isinstance(row.head_seq, int) and row.head_seq > head.seq)
        stored = None
        if later or (head is not None and (row.head_seq, row.head_hash) == (head.seq, head.hash)):
            stored = summary_from(row)
        if stored is not None:
            return stored
        ledger = log.read(row.id)
    except Damaged:
        names = {name: str(getattr(row, name)) for name in ("id", "name", "created_at")}
        numbers = dict.fromkeys(("horizon", "slots", "allocated", "told", "arms", "open"), 0)
        about: dict[str, Any] = {"state": "running", "policy": "", **names, **numbers}
        return Summary(**about, finished=False, stopped=None, intact=False)
    read.append(ledger)
    return summary_of(ledger)
