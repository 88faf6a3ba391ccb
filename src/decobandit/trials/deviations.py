"""Where a trial departed from its plan, as its log has it: for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..problem import ArmModel, Outcome, Stats
from .events import Event
from .ledger import BATCH_KINDS, TURNS
from .told import counts_from, tally_of

BATCH = "(batch)"  # in place of an arm


@dataclass(frozen=True)
class Correction:
    """A recorded outcome that was replaced.

    Attributes
    ----------
    allocation : str
        Id of the allocation, or of the batch.
    number : int
        Of the allocation or batch, from 1.
    arm : str
        Name of the arm.
    before : int | float | str
        The outcome that was replaced: 1 is good, 0 is bad; of a batch, good/pulls or
        what was recorded of other outcomes.
    after : int | float | str
        What replaced it.
    by : str
        Who did so.
    at : str
        ISO 8601, UTC.
    reason : str
        Why.

    Examples
    --------
    >>> slot = trial.tell(trial.ask().id, 1)
    >>> _ = trial.correct(slot.id, 0, reason="misread")
    >>> trial.report().corrections[0].reason
    'misread'
    """

    allocation: str
    number: int
    arm: str
    before: Outcome
    after: Outcome
    by: str
    at: str
    reason: str


@dataclass(frozen=True)
class LateOutcome:
    """An outcome that was recorded, or is pending, longer than the limit.

    Attributes
    ----------
    allocation : str
        Its id.
    number : int
        Of the allocation, from 1.
    arm : str
        Name of the arm; `(batch)` where a batch is not complete.
    asked_at : str
        When it was allocated: ISO 8601, UTC.
    told_at : str | None
        When its outcome was first recorded; null while it is pending.
    hours : float
        Between the two, or until the report was made.

    Examples
    --------
    >>> trial.report().late
    ()
    """

    allocation: str
    number: int
    arm: str
    asked_at: str
    told_at: str | None
    hours: float


@dataclass(frozen=True)
class Change:
    """A change of the trial as a whole, or an unmasking.

    Attributes
    ----------
    kind : str
        closed, reopened, archived, limited or unmasked.
    by : str
        Who did so.
    at : str
        ISO 8601, UTC.
    reason : str
        Why; empty where none is on record.

    Examples
    --------
    >>> _ = trial.close(reason="enough")
    >>> trial.report().changes[0].kind
    'closed'
    """

    kind: str
    by: str
    at: str
    reason: str


@dataclass
class _Slot:
    """What is remembered of an allocation while events are read."""

    number: int
    arm: str
    asked_at: str
    told_at: str | None = None
    outcome: Outcome = 0
    cancelled: bool = False
    counts: dict[str, Stats] = field(default_factory=dict)  # tallies, of a batch
    pending: int = 0  # pulls of a batch


@dataclass
class Deviations:
    """Collects what is read from the events of a trial, one after the other."""

    slots: dict[str, _Slot] = field(default_factory=dict)
    corrections: list[Correction] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    refused: int = 0
    versions: dict[str, None] = field(default_factory=dict)  # that wrote the log, in order
    created_by: str = ""
    kinds: Mapping[str, ArmModel] = field(default_factory=dict)  # of every arm by its name

    @classmethod
    def of(cls, events: Iterable[Event], kinds: Mapping[str, ArmModel]) -> Deviations:
        """Of all events of a trial."""
        found = cls(kinds=kinds)
        for event in events:
            found._read(event)
        return found

    def _read(self, event: Event) -> None:
        data, kind = event.data, event.kind
        self.versions[event.version] = None
        slot = self.slots.get(str(data.get("allocation")))
        if kind in BATCH_KINDS:
            self._read_batch(event)
        elif kind == "created":
            self.created_by = event.by
        elif kind == "asked":
            made = _Slot(data["number"] + 1, data["arm"], event.at)
            self.slots[data["allocation"]] = made
        elif kind == "refused":
            self.refused += 1
        elif kind in (*TURNS, "limited", "unmasked"):
            self.changes.append(Change(kind, event.by, event.at, data.get("reason") or ""))
        elif slot is not None and kind == "cancelled":
            slot.cancelled = True
        elif slot is not None and kind == "told":
            slot.told_at, slot.outcome = event.at, data["outcome"]
        elif slot is not None and kind == "corrected":
            self._correct(slot, event)

    def _correct(self, slot: _Slot, event: Event) -> None:
        data = event.data
        self.corrections.append(
            Correction(
                data["allocation"], slot.number, slot.arm, slot.outcome, data["outcome"],
                event.by, event.at, data.get("reason") or "",
            )
        )  # fmt: skip
        slot.outcome = data["outcome"]

    def _read_batch(self, event: Event) -> None:
        data, kind, made = event.data, event.kind, event.data["batch"]
        if kind == "batch_asked":
            pending = sum(data["counts"].values())
            self.slots[made] = _Slot(data["number"] + 1, BATCH, event.at, pending=pending)
            return
        slot = self.slots[made]
        for arm, told in counts_from(data["counts"]) if "counts" in data else ():
            own = self.kinds[arm]
            before, tally = slot.counts.get(arm, own.no_tally), tally_of(own, told)
            if kind == "batch_told":
                slot.counts[arm] = own.joined(before, tally)
            else:
                slot.counts[arm] = tally
                self.corrections.append(
                    Correction(
                        made, slot.number, arm, own.write_tally(before), own.write_tally(tally),
                        event.by, event.at, data.get("reason") or "",
                    )
                )  # fmt: skip
            slot.pending -= own.tally_pulls(slot.counts[arm]) - own.tally_pulls(before)
        if kind == "batch_cancelled":
            slot.cancelled, slot.pending = not slot.counts, 0
        if slot.pending:
            slot.told_at = None
        elif slot.told_at is None:
            slot.told_at = event.at

    def late(self, limit: timedelta, now: datetime) -> tuple[LateOutcome, ...]:
        """Outcomes that took longer, or are pending for longer, in the order of allocations."""
        found = []
        for made, slot in self.slots.items():
            if slot.cancelled:
                continue
            end = now if slot.told_at is None else datetime.fromisoformat(slot.told_at)
            passed = end - datetime.fromisoformat(slot.asked_at)
            if passed > limit:
                hours = round(passed.total_seconds() / 3600.0, 2)
                found.append(
                    LateOutcome(made, slot.number, slot.arm, slot.asked_at, slot.told_at, hours)
                )
        return tuple(found)
