"""A trial for other programs: all of it as JSON, or its allocations as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from .._version import __version__
from ..support import Columns, Tables, Tabular, columns_of, harmless
from .decider import Decider
from .event_log import now
from .events import Event, canonical, digest
from .ledger import Ledger
from .settings import in_order
from .status import status_of

EXPORT_FORMAT = "decobandit-trial-1"
UTC_ZONE = "+00:00"
LINES = 500  # of CSV in one piece


def export_parts(
    ledger: Ledger, decider: Decider, *, version: str = __version__, exported_at: str | None = None
) -> dict[str, Any]:
    """A trial without its events: everything that follows from them, and a checksum."""
    status = replace(status_of(ledger, decider), version=version).to_dict()
    parts = {
        "format": EXPORT_FORMAT,
        "trial": ledger.trial,
        "name": ledger.name,
        "version": version,
        "exported_at": exported_at or with_check_digits(now(), ledger.head),
        "head": ledger.head,
        "status": status,
        "allocations": [slot.to_dict() for slot in ledger.allocations.values()],
    }
    return parts | {"checksum": checksum(parts)}


def checksum(tree: dict[str, Any]) -> str:
    """Of everything in an export but the events, which the head stands for, and the time.

    So two exports of the same state have the same one.
    """
    others = ("events", "checksum", "exported_at")
    rest = {key: value for key, value in tree.items() if key not in others}
    return digest(canonical(plain(rest)))


def with_check_digits(at: str, head: str) -> str:
    """A time to the millisecond, with three more digits that depend on it and on the head."""
    time, zone = at[: -len(UTC_ZONE)], at[-len(UTC_ZONE) :]
    return f"{time}{int(digest(time + head), 16) % 1000:03}{zone}"


def has_check_digits(at: str, head: str) -> bool:
    """Whether a time is one that `with_check_digits` made."""
    before = at[: -len(UTC_ZONE) - 3] + UTC_ZONE
    return at.endswith(UTC_ZONE) and at == with_check_digits(before, head)


def plain(value: Any) -> Any:
    """Values as JSON has them: no tuples, and one number however it is written, 1 or 1.0."""
    if isinstance(value, dict):
        return {str(key): plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def exported_event(event: Event) -> dict[str, Any]:
    """An event with its body, byte for byte, so that its hash can be checked."""
    return event.to_dict() | {"body": event.body}


def export_text(parts: dict[str, Any], pages: Iterable[Sequence[Event]]) -> Iterator[str]:
    """The whole trial as JSON, some events at a time."""
    yield json.dumps(parts, allow_nan=False, indent=1).removesuffix("\n}") + ',\n "events": ['
    comma = "\n  "
    for page in pages:
        events = (json.dumps(exported_event(event), allow_nan=False) for event in page)
        yield comma + ",\n  ".join(events)
        comma = ",\n  "
    yield "\n ]\n}\n"


_ASKED = ("number", "allocation", "stage", "arm")
_ABOUT = ("code", "subject", "note", "asked_by", "changed_by", "changed_at", "change_reason")
COLUMNS = (*_ASKED, "state", "outcome", "asked_at", "told_at", *_ABOUT)
# where a stage has several pulls; good and pulls are the outcomes on record, so that the file can
# be read as counts, and `seen` is what is on record as `tell` takes it
SEVERAL_COLUMNS = (
    *_ASKED,
    "allotted",
    "seen",
    "good",
    "pulls",
    "pending",
    "cancelled",
    "state",
    "asked_at",
    "told_at",
    *_ABOUT,
)
MASKED_COLUMNS = ("number", "allocation", "code", "state", "subject", "note", "asked_at")
SEVERAL_MASKED_COLUMNS = (
    "number",
    "allocation",
    "code",
    "allotted",
    "pulls",
    "pending",
    "cancelled",
    "subject",
    "note",
    "asked_at",
)


def outcomes_csv(events: Sequence[Event], *, masked: bool = False) -> str:
    """One row per allocation: arm, state, outcome, subject, and who did what when and why.

    Where a stage has several pulls, one row for every arm that has some, with its counts.

    A cell that a spreadsheet would compute, because it begins with =, +, - or @, has an apostrophe
    in front; `read_outcomes` takes it away again.

    Parameters
    ----------
    events : sequence of Event
        As `Trial.events` gives them.
    masked : bool
        For people who are blinded: codes instead of arms, and no outcomes.

    Returns
    -------
    str
        CSV with a header.

    Examples
    --------
    >>> from decobandit.trials import outcomes_csv
    >>> print(outcomes_csv(trial.events(), masked=True), end="")
    number,allocation,code,state,subject,note,asked_at
    """
    return "".join(outcomes_text(events, masked=masked))


def outcomes_text(events: Iterable[Event], *, masked: bool = False) -> Iterator[str]:
    """The same in pieces, from events that need not all be in memory: read before the first."""
    rows, columns = outcome_rows(events, masked=masked)
    return _csv(rows, columns)


def outcome_rows(
    events: Iterable[Event], *, masked: bool = False
) -> tuple[Iterable[dict[str, Any]], tuple[str, ...]]:
    """The rows of that file, and its columns, which need not be all that the rows have."""
    ledger, courses = Ledger(""), dict[str, dict[str, Any]]()
    for event in events:
        ledger.advance(event)
        made = str(event.data.get("allocation"))
        if event.kind == "asked":
            courses[made] = dict.fromkeys(_ABOUT, "") | {
                "number": event.data["number"] + 1,
                "asked_at": event.at,
                "told_at": "",
                "asked_by": event.by,
            }
        elif event.kind in ("told", "corrected", "cancelled"):
            told = {} if event.kind == "cancelled" else {"told_at": event.at}
            changed = {"changed_by": event.by, "changed_at": event.at}
            courses[made] |= told | changed | {"change_reason": event.data.get("reason", "")}
    rows = _rows(ledger, courses, masked=masked)
    if ledger.problem.pulls_per_stage == 1 and not ledger.problem.repeat:
        return rows, MASKED_COLUMNS if masked else COLUMNS
    return rows, SEVERAL_MASKED_COLUMNS if masked else SEVERAL_COLUMNS


def _rows(
    ledger: Ledger, courses: Mapping[str, dict[str, Any]], *, masked: bool
) -> Iterator[dict[str, Any]]:
    """One for every arm of every allocation; masked: by code, for the order of arms tells them."""
    for slot in ledger.allocations.values():
        shared = {
            "allocation": slot.id,
            "stage": slot.stage,
            "state": slot.state,
            "outcome": "" if slot.outcome is None else slot.outcome,
            "subject": slot.subject or "",
            "note": slot.note or "",
        }
        codes = {part.arm: ledger.codes[ledger.position(part.arm)] for part in slot.arms}
        parts = sorted(slot.arms, key=lambda part: in_order(codes[part.arm]) if masked else ())
        for part in parts:
            kind = ledger.kinds[part.arm]
            yield (
                courses[slot.id]
                | shared
                | {
                    "arm": part.arm,
                    "code": codes[part.arm],
                    "allotted": part.pulls,
                    "seen": kind.format.write_tally(part.tally(kind)),
                    "good": part.good,
                    "pulls": part.told,
                    "pending": part.pending,
                    "cancelled": part.cancelled,
                }
            )


def _csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    left = iter(rows)
    while True:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        some = list(islice(left, LINES))
        if not some:
            return
        writer.writerows({key: harmless(cell) for key, cell in row.items()} for row in some)


# -- tables of a trial, as columns: what its CSV file has, its arms, its log -----------------------


WORDS = frozenset(
    (
        "told_at",
        "subject",
        "note",
        "changed_by",
        "changed_at",
        "change_reason",
        "seen",
        "posterior",
        "key",
    )
)  # columns that may have nothing in them, and are text


def trial_tables(
    events: Callable[[], Iterable[Event]],
    arms: Callable[[], Iterable[Mapping[str, Any]]],
) -> Tables:
    """The tables of a trial by their names, from its log and from the arms of its status."""
    return {
        "allocations": lambda: outcome_columns(events()),
        "arms": lambda: arm_columns(arms()),
        "events": lambda: event_columns(events()),
    }


class TrialTables(Tabular):
    """The tables of a trial that was read whole: its log, and the arms of its status."""

    def __init__(self, events: Sequence[Event], arms: Sequence[Mapping[str, Any]]) -> None:
        self._events, self._arms = events, arms

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return trial_tables(lambda: self._events, lambda: self._arms)


def outcome_columns(events: Iterable[Event]) -> Columns:
    """One row per arm of every allocation; None where the file has nothing."""
    rows, names = outcome_rows(events)
    return columns_of(
        ({name: None if row[name] == "" else row[name] for name in names} for row in rows),
        names,
        words=WORDS,
    )


def arm_columns(arms: Iterable[Mapping[str, Any]]) -> Columns:
    """One row per arm."""
    columns = columns_of(arms, words=WORDS)
    return {"arm": columns.pop("name"), **columns}


def event_columns(events: Iterable[Event]) -> Columns:
    """One row per event; what was recorded is JSON text."""
    return columns_of(
        (event.to_dict() | {"data": canonical(event.data)} for event in events), words=WORDS
    )
