"""Checks a log: every hash, every link, the head, and the rules of a trial.

No transaction is open while events are checked: they are read page by page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import select

from . import schema
from .check_result import CheckResult
from .database import Store, StoreLike, closed_on_error
from .errors import Damaged
from .event_log import Head, event_log_of, stored_pages, trial_id
from .events import GENESIS, Event, StoredEvent, chained
from .ledger import Ledger
from .settings import NO_BOUND
from .summaries import is_forged


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
