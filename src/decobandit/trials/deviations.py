"""Where a trial departed from its plan, as its log has it: for the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..problem import Outcome
from .allocations import Allocation, told_counts
from .events import Event
from .ledger import TURNS, Ledger

SEVERAL = "(several)"  # in place of an arm


@dataclass(frozen=True)
class Correction:
    """A recorded outcome that was replaced.

    Attributes
    ----------
    allocation : str
        Id of the allocation.
    number : int
        Of the allocation, from 1.
    arm : str
        Name of the arm.
    before : int | float | str
        The outcome that was replaced: 1 is good, 0 is bad; of several pulls, good/pulls or
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
        Name of the arm; `(several)` where the allocation has several pulls.
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
class _Course:
    """What is remembered of an allocation while events are read."""

    number: int
    asked_at: str
    told_at: str | None = None  # when its last pending outcome was recorded


@dataclass
class Deviations:
    """Collects what is read from the events of a trial, one after the other."""

    ledger: Ledger
    courses: dict[str, _Course] = field(default_factory=dict)
    corrections: list[Correction] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    refused: int = 0
    versions: dict[str, None] = field(default_factory=dict)  # that wrote the log, in order
    created_by: str = ""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Deviations:
        """Of all events of a trial."""
        found = cls(Ledger(""))
        for event in events:
            found._read(event)
        return found

    def _read(self, event: Event) -> None:
        data, kind = event.data, event.kind
        self.versions[event.version] = None
        before = self.ledger.allocations.get(str(data.get("allocation")))
        self.ledger.advance(event)
        if kind == "created":
            self.created_by = event.by
        elif kind == "refused":
            self.refused += 1
        elif kind in (*TURNS, "limited", "unmasked"):
            self.changes.append(Change(kind, event.by, event.at, data.get("reason") or ""))
        elif before is None:
            self.courses[data["allocation"]] = _Course(data["number"] + 1, event.at)
        else:
            if kind == "corrected":
                self._correct(before, event)
            course = self.courses[before.id]
            if self.ledger.allocations[before.id].pending:
                course.told_at = None
            elif course.told_at is None:
                course.told_at = event.at

    def _correct(self, before: Allocation, event: Event) -> None:
        after, number = self.ledger.allocations[before.id], self.courses[before.id].number
        for arm, _ in told_counts(before, self.ledger.kinds, event.data):
            self.corrections.append(
                Correction(
                    before.id,
                    number,
                    arm,
                    _recorded(before, arm, self.ledger),
                    _recorded(after, arm, self.ledger),
                    event.by,
                    event.at,
                    event.data["reason"],
                )
            )

    def late(self, limit: timedelta, now: datetime) -> tuple[LateOutcome, ...]:
        """Outcomes that took longer, or are pending for longer, in the order of allocations."""
        late = []
        for made, course in self.courses.items():
            slot = self.ledger.allocations[made]
            end = now if course.told_at is None else datetime.fromisoformat(course.told_at)
            passed = end - datetime.fromisoformat(course.asked_at)
            if slot.holds_slots and passed > limit:
                about = (made, course.number, slot.arm or SEVERAL, course.asked_at, course.told_at)
                late.append(LateOutcome(*about, round(passed.total_seconds() / 3600.0, 2)))
        return tuple(late)


def _recorded(slot: Allocation, arm: str, ledger: Ledger) -> Outcome:
    """What is on record of an arm: the outcome of a single pull, or a tally."""
    if slot.outcome is not None:
        return slot.outcome
    kind = ledger.kinds[arm]
    return kind.format.write_tally(next(part for part in slot.arms if part.arm == arm).tally(kind))
