"""Whether a log is what was written: every hash, every link, the head, and the rules of a trial."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from . import schema
from .books import stored_events, trial_id
from .errors import Damaged, NotFound, TrialError
from .events import GENESIS, Event, StoredEvent, chained
from .ledger import Ledger

EXPORT_FORMAT = "decobandit-trial-1"


@dataclass(frozen=True)
class Verification:
    """What was checked and what was found. `head` is worth writing down elsewhere."""

    trial: str
    events: int
    head: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        return {
            "trial": self.trial, "ok": self.ok, "events": self.events, "head": self.head,
            "problems": list(self.problems),
        }  # fmt: skip


def verify_rows(
    rows: Sequence[StoredEvent], trial: str, head: tuple[int, str] | None
) -> Verification:
    """Check stored events; after a bad one the check goes on with the next."""
    problems: list[str] = []
    ledger: Ledger | None = Ledger(trial)
    seq, previous = -1, GENESIS
    for row in rows:
        try:
            for event in chained([row], trial, after=seq, previous=previous):
                if ledger is not None:
                    ledger.advance(event)
        except Damaged as error:
            problems.append(str(error))
            ledger = None  # what follows cannot be counted any more, only its links be checked
        seq = row.seq if isinstance(row.seq, int) else seq + 1
        previous = row.hash
    if head is not None and (seq, previous) != head:
        problems.append(f"trial {trial}: the last event is not the one that the head names")
    if not rows:
        problems.append(f"trial {trial}: has no events")
    return Verification(trial, len(rows), previous, tuple(problems))


def verify_trial(connection: Connection, trial: str) -> Verification:
    """Check one trial of a database."""
    row = connection.execute(select(schema.trials).where(schema.trials.c.id == trial)).one_or_none()
    if row is None:
        raise NotFound(f"no trial is called {trial!r}")
    found = verify_rows(stored_events(connection, trial), trial, (row.head_seq, row.head_hash))
    if not found.ok:
        return found
    first = json.loads(stored_events(connection, trial)[0].body)
    if (first["data"]["name"], first["at"]) != (row.name, row.created_at):
        changed = f"trial {trial}: its name or time was changed after it was created"
        return Verification(trial, found.events, found.head, (changed,))
    return found


def verify_named(connection: Connection, trial: str) -> Verification:
    """Check the trial of an id or a name."""
    return verify_trial(connection, trial_id(connection, trial))


def with_head(found: Verification, head: str) -> Verification:
    """Compare with a head that was kept elsewhere: finds a log that was rewritten as a whole."""
    if head == found.head:
        return found
    problem = f"trial {found.trial}: its head is not the one that was written down"
    return replace(found, problems=(*found.problems, problem))


def verify_database(connection: Connection) -> list[Verification]:
    """Check every trial, and that no events are left of one that is gone."""
    trials = connection.execute(select(schema.trials.c.id).order_by(schema.trials.c.created_at))
    ids = list(trials.scalars())
    with_events = connection.execute(select(schema.events.c.trial_id).distinct()).scalars()
    orphans = sorted(set(with_events) - set(ids))
    return [verify_trial(connection, trial) for trial in ids] + [
        Verification(trial, 0, "", (f"trial {trial}: has events, but the trial is missing",))
        for trial in orphans
    ]


def verify_export(tree: Any) -> Verification:
    """Check an exported trial: anybody can, without the database."""
    try:
        if tree["format"] != EXPORT_FORMAT:
            raise TrialError(f"export: format {tree['format']!r}; must be {EXPORT_FORMAT!r}")
        rows = list(_exported_rows(tree["events"]))
        trial = str(tree["trial"])
        found = verify_rows(rows, trial, (len(rows) - 1, str(tree["head"])))
        if not found.ok:
            return found
        return replace(found, problems=tuple(_retold(tree, list(chained(rows, trial)))))
    except (KeyError, TypeError, AttributeError):
        raise TrialError("export: not an exported trial; give what 'export' wrote") from None


def _retold(tree: dict[str, Any], events: list[Event]) -> Iterator[str]:
    """Where the readable parts of an export say other things than the bodies that were hashed."""
    for told, event in zip(tree["events"], events, strict=True):
        if {name: value for name, value in told.items() if name != "body"} != event.to_dict():
            yield f"trial {event.trial}, event {event.seq}: what is shown of it is not its body"
    ledger = Ledger(events[0].trial).extended(events)
    status = tree["status"]
    counts = [[arm[name] for name in ("name", "good", "bad", "open")] for arm in status["arms"]]
    names = [arm.name for arm in ledger.problem.arms]
    kept = zip(names, ledger.good, ledger.bad, ledger.open, strict=True)
    parts = {
        "name": (tree["name"], status["name"]) == (ledger.name, ledger.name),
        "allocations": tree["allocations"] == [s.to_dict() for s in ledger.allocations.values()],
        "counts": counts == [list(arm) for arm in kept],
        "plan": status["upper_bound"] == ledger.plan.solution.upper_bound,
    }
    for part, fits in parts.items():
        if not fits:
            yield f"trial {ledger.trial}: the {part} of the export are not those of its events"


def _exported_rows(events: Iterable[dict[str, Any]]) -> Iterable[StoredEvent]:
    for event in events:
        yield StoredEvent(event["seq"], event["kind"], event["key"], event["body"], event["hash"])
