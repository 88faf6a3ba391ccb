"""Exports of a trial: all of it as JSON, its allocations as CSV, tables as columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from .._version import __version__
from ..designs.inference import Inference
from ..support import Columns, InvalidArgument, Tables, Tabular, columns_of, harmless
from .event_log import now
from .events import Event, canonical, digest
from .ledger import Ledger
from .settings import in_order
from .status import rewards, status_of

EXPORT_FORMAT = "decobandit-trial-1"
UTC_ZONE = "+00:00"
LINES = 500  # of CSV per piece


def export_parts(
    ledger: Ledger, *, version: str = __version__, exported_at: str | None = None
) -> dict[str, Any]:
    """Return everything that follows from the events of a trial, with a checksum."""
    status = replace(status_of(ledger), version=version).to_dict()
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
    """Return the checksum of an export without events and time: equal for equal states."""
    excluded = ("events", "checksum", "exported_at")
    rest = {key: value for key, value in tree.items() if key not in excluded}
    return digest(canonical(json_values(rest)))


def with_check_digits(at: str, head: str) -> str:
    """Add three digits that depend on the time and the head to a time in milliseconds."""
    time, zone = at[: -len(UTC_ZONE)], at[-len(UTC_ZONE) :]
    return f"{time}{int(digest(time + head), 16) % 1000:03}{zone}"


def has_check_digits(at: str, head: str) -> bool:
    """Tell whether a time has the digits of `with_check_digits`."""
    before = at[: -len(UTC_ZONE) - 3] + UTC_ZONE
    return at.endswith(UTC_ZONE) and at == with_check_digits(before, head)


def json_values(value: Any) -> Any:
    """Normalise values as JSON does: lists for tuples, and 1 for 1.0."""
    if isinstance(value, dict):
        return {str(key): json_values(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(inside) for inside in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def exported_event(event: Event) -> dict[str, Any]:
    """Return an event with its body, so that its hash can be checked."""
    return event.to_dict() | {"body": event.body}


def export_text(parts: dict[str, Any], pages: Iterable[Sequence[Event]]) -> Iterator[str]:
    """Return an export as JSON text, a page of events at a time."""
    yield json.dumps(parts, allow_nan=False, indent=1).removesuffix("\n}") + ',\n "events": ['
    comma = "\n  "
    for page in pages:
        events = (json.dumps(exported_event(event), allow_nan=False) for event in page)
        yield comma + ",\n  ".join(events)
        comma = ",\n  "
    yield "\n ]\n}\n"


_ASKED = ("number", "allocation", "stage", "arm")
_ABOUT = ("code", "subject", "note", "asked_by", "changed_by", "changed_at", "change_reason")
_COUNTS = ("pulls", "pending", "cancelled")
_TIMES = ("asked_at", "told_at")
COLUMNS = (*_ASKED, "state", "outcome", *_TIMES, *_ABOUT)
# where a stage has several pulls; good and pulls are the recorded outcomes, so that the file can be
# read as counts, and `seen` is the tally in the form of `tell`
BATCH_COLUMNS = (*_ASKED, "allotted", "seen", "good", *_COUNTS, "state", *_TIMES, *_ABOUT)
_MASKED = ("number", "allocation", "code")
MASKED_COLUMNS = (*_MASKED, "state", "subject", "note", "asked_at")
MASKED_BATCH_COLUMNS = (*_MASKED, "allotted", *_COUNTS, "subject", "note", "asked_at")


def outcomes_csv(events: Sequence[Event], *, masked: bool = False) -> str:
    """Write allocations as CSV: arm, state, outcome, subject, authors, times and reasons.

    One row per allocation; where a stage has several pulls, one per arm with its counts. A cell
    that a spreadsheet would compute, because it begins with =, +, - or @, has an apostrophe in
    front; `read_outcomes` removes it.

    Parameters
    ----------
    events : sequence of Event
        The result of `Trial.events`.
    masked : bool
        For blinded users: codes instead of arms, and no outcomes.

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
    """Return the CSV in pieces; all events are read before the first piece."""
    rows, columns = outcome_rows(events, masked=masked)

    def pieces() -> Iterator[str]:
        text, remaining = io.StringIO(), iter(rows)
        writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        while True:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
            piece = list(islice(remaining, LINES))
            if not piece:
                return
            writer.writerows({key: harmless(cell) for key, cell in row.items()} for row in piece)

    return pieces()


def outcome_rows(
    events: Iterable[Event], *, masked: bool = False
) -> tuple[Iterable[dict[str, Any]], tuple[str, ...]]:
    """Return the rows of the CSV file, and its columns, a subset of those of the rows."""
    ledger = Ledger("").extended(events)
    problem = ledger.problem
    single = problem.pulls_per_stage == 1 and not problem.repeat and not problem.is_restless
    columns: tuple[str, ...] = MASKED_COLUMNS if masked else COLUMNS
    if not single:
        columns = MASKED_BATCH_COLUMNS if masked else BATCH_COLUMNS
    return _rows(ledger, masked=masked), (*columns, *("segment",) * bool(problem.segments))


def _rows(ledger: Ledger, *, masked: bool) -> Iterator[dict[str, Any]]:
    """Yield a row per arm and allocation; masked rows are in the order of codes."""
    for slot in ledger.allocations.values():
        shared = vars(ledger.courses[slot.id]) | {
            "allocation": slot.id,
            "stage": slot.stage,
            "state": slot.state,
            "outcome": "" if slot.outcome is None else slot.outcome,
            "subject": slot.subject or "",
            "note": slot.note or "",
            "segment": slot.segment,
        }
        codes = {part.arm: ledger.codes[ledger.position(part.arm)] for part in slot.arms}
        parts = sorted(slot.arms, key=lambda part: in_order(codes[part.arm]) if masked else ())
        for part in parts:
            kind = ledger.kinds[part.arm]
            yield shared | {
                "arm": part.arm,
                "code": codes[part.arm],
                "allotted": part.pulls,
                "seen": kind.format.write_tally(part.tally(kind)),
                "good": part.good,
                "pulls": part.told,
                "pending": part.pending,
                "cancelled": part.cancelled,
            }


# text columns that may be empty
_TEXTS = ("told_at", "seen", "posterior", "key", "segment")
TEXT_COLUMNS = frozenset({*_TEXTS, *_ABOUT[1:3], *_ABOUT[4:]})


def trial_tables(
    events: Callable[[], Iterable[Event]],
    status: Callable[[], Mapping[str, Any]],
    report: Callable[[], Mapping[str, Any]],
) -> Tables:
    """Return the tables of a trial by name, from its log, its status and its report."""
    names = [one.name for one in fields(Inference)]
    return {
        "allocations": lambda: outcome_columns(events()),
        "arms": lambda: arm_columns(status()),
        "events": lambda: columns_of(
            (event.to_dict() | {"data": canonical(event.data)} for event in events()),
            words=TEXT_COLUMNS,
        ),
        "obp": lambda: obp_columns(events()),
        "inference": lambda: columns_of(report()["inference"], names),
        "results": lambda: result_columns(report()),
    }


class TrialTables(Tabular):
    """Tables of a trial whose log is in memory, and the record that a table is of."""

    def __init__(self, events: Sequence[Event], record: Mapping[str, Any]) -> None:
        self._events, self._record = events, record

    def tables(self) -> Tables:
        return trial_tables(lambda: self._events, lambda: self._record, lambda: self._record)


def outcome_columns(events: Iterable[Event]) -> Columns:
    """Return a row per arm of every allocation; None for empty cells."""
    rows, names = outcome_rows(events)
    filled = ({name: None if row[name] == "" else row[name] for name in names} for row in rows)
    return columns_of(filled, names, words=TEXT_COLUMNS)


def obp_columns(events: Iterable[Event]) -> Columns:
    """Return the log of recorded single pulls, with the columns of the Open Bandit Pipeline.

    `action`: position of the arm; `pscore`: its probability, None where it was not computed;
    `position`: 0, as one arm is shown.
    """
    ledger = Ledger("").extended(events)
    if ledger.problem.pulls_per_stage > 1 or ledger.problem.is_restless:
        raise InvalidArgument("obp: needs trials with one pull per stage", field="table")
    earned = {slot.id: reward for part in ledger.parts for slot, reward in rewards(part)}
    slots = [slot for slot in ledger.allocations.values() if slot.arm is not None and slot.told]
    return {
        "action": [ledger.position(str(slot.arm)) for slot in slots],
        "reward": [earned[slot.id] for slot in slots],
        "pscore": [slot.probability for slot in slots],
        "position": [0] * len(slots),
    }


def arm_columns(record: Mapping[str, Any]) -> Columns:
    """Return a row per arm; with segments, one per segment and arm, then the arms in all."""
    rows = [row | {"segment": one["name"]} for one in record["segments"] for row in one["arms"]]
    last = {"segment": None} if rows else {}
    columns = columns_of([*rows, *(row | last for row in record["arms"])], words=TEXT_COLUMNS)
    return {"arm": columns.pop("name"), **columns}


def result_columns(report: Mapping[str, Any]) -> Columns:
    """Return a row per arm of a report; an interval has two columns, its low and its high end."""
    columns: dict[str, Any] = {}
    for name, column in arm_columns(report).items():
        if name.endswith("_interval"):
            for i, end in enumerate(("low", "high")):
                ends = [None if pair is None else pair[i] for pair in column]
                columns[f"{name.removesuffix('_interval')}_{end}"] = ends
        else:
            columns[name] = column
    return columns
