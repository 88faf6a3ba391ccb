"""A trial for other programs: all of it as JSON, or its allocations as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from .._version import __version__
from ..problem import ArmModel
from ..support import harmless
from .batches import Batch, batch_moved, new_batch
from .codes import in_order
from .decider import Decider
from .event_log import now
from .events import Event, canonical, digest
from .ledger import BATCH_KINDS, Ledger
from .request_records import Request
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
        "batches": [batch.to_dict() for batch in ledger.batches.values()],
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


COLUMNS = (
    "number", "allocation", "stage", "arm", "state", "outcome", "asked_at", "told_at",
    "code", "subject", "note", "asked_by", "changed_by", "changed_at", "change_reason",
)  # fmt: skip
MASKED_COLUMNS = ("number", "allocation", "code", "state", "subject", "note", "asked_at")
# good and pulls are the outcomes on record, so that the file can be read as counts
BATCH_COLUMNS = (
    "number", "batch", "stage", "arm", "code", "allotted", "good", "pulls", "pending", "cancelled",
    "subject", "note", "asked_at", "asked_by", "changed_by", "changed_at", "change_reason",
)  # fmt: skip
# of arms with other outcomes than good or bad too: what is on record, as `tell_batch` takes it
KIND_BATCH_COLUMNS = (*BATCH_COLUMNS[:6], "seen", *BATCH_COLUMNS[6:])
MASKED_BATCH_COLUMNS = (
    "number", "batch", "code", "allotted", "pulls", "pending", "cancelled", "subject", "note",
    "asked_at",
)  # fmt: skip


def outcomes_csv(events: Sequence[Event], *, masked: bool = False) -> str:
    """One row per allocation: arm, state, outcome, subject, and who did what when and why.

    Of a trial that allots batches, one row for every arm of every batch.

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
    rows: dict[str, dict[str, Any]] = {}
    batches = BatchRows()
    for event in events:
        data = event.data
        if event.kind == "created":
            first = Ledger(event.trial).extended([event])
        elif event.kind in BATCH_KINDS:
            batches.add(event, first)
        elif event.kind == "asked":
            rows[data["allocation"]] = {
                "number": data["number"] + 1, "allocation": data["allocation"],
                "stage": data["decision"]["stage"], "arm": data["arm"], "state": "open",
                "outcome": "", "asked_at": event.at, "told_at": "",
                "code": first.codes[first.position(data["arm"])],
                "subject": data.get("subject", ""), "note": data.get("note", ""),
                "asked_by": event.by, "changed_by": "", "changed_at": "", "change_reason": "",
            }  # fmt: skip
        elif event.kind in ("told", "corrected"):
            update = {"state": "told", "outcome": data["outcome"], "told_at": event.at}
            rows[data["allocation"]].update(update, **_changed(event))
        elif event.kind == "cancelled":
            rows[data["allocation"]].update(state="cancelled", **_changed(event))
    if batches.found or first.problem.repeat:
        full = BATCH_COLUMNS if first.problem.is_binary else KIND_BATCH_COLUMNS
        shown = batches.rows(first.kinds, masked=masked)
        return shown, MASKED_BATCH_COLUMNS if masked else full
    return rows.values(), MASKED_COLUMNS if masked else COLUMNS


class BatchRows:
    """Rows of the batches of a log, from one event after the other."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[Batch, dict[str, Any]]] = {}
        self._codes: dict[str, str] = {}

    def add(self, event: Event, first: Ledger) -> None:
        """One more event about a batch; `first`: the trial as it was created."""
        data, made = event.data, str(event.data["batch"])
        if event.kind == "batch_asked":
            stage = data["decision"]["stage"]
            batch = new_batch(made, first.problem, first.kinds, stage, data)
            names = [arm.name for arm in first.problem.arms]
            self._codes = dict(zip(names, first.codes, strict=True))
            about = {
                "number": data["number"] + 1, "batch": made, "stage": batch.stage,
                "subject": data.get("subject", ""), "note": data.get("note", ""),
                "asked_at": event.at, "asked_by": event.by,
                "changed_by": "", "changed_at": "", "change_reason": "",
            }  # fmt: skip
        else:
            before, about = self.found[made]
            said = Request.of(event.kind, data)
            counts = said.counts or ()
            batch = batch_moved(before, event.kind, counts, first.kinds, said.reason)
            about |= _changed(event)
        self.found[made] = batch, about

    def rows(self, kinds: Mapping[str, ArmModel], *, masked: bool) -> Iterator[dict[str, Any]]:
        """One for every arm of every batch; masked: by code, for the order of arms tells them."""
        for batch, about in self.found.values():
            arms = list(batch.arms)
            if masked:
                arms.sort(key=lambda one: in_order(self._codes[one.arm]))
            for one in arms:
                yield about | {
                    "arm": one.arm, "code": self._codes[one.arm], "allotted": one.pulls,
                    "seen": kinds[one.arm].write_tally(one.tally(kinds[one.arm])),
                    "good": one.good, "pulls": one.told, "pending": one.pending,
                    "cancelled": one.cancelled,
                }  # fmt: skip


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


def _changed(event: Event) -> dict[str, str]:
    """Who recorded, corrected or cancelled an allocation last, when and why."""
    return {
        "changed_by": event.by, "changed_at": event.at,
        "change_reason": event.data.get("reason", ""),
    }  # fmt: skip
