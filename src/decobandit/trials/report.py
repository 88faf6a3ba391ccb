"""The report of a trial: results, shares over time, deviations, the state of its log, settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from ..problem import Outcome
from .allocations import Allocation, told_counts
from .arm_results import LEVEL, ArmResult, arm_results, control_of
from .decider import Decider
from .events import Event
from .ledger import TURNS, Ledger
from .lists import STALE_AFTER, stale_limit
from .rules import LookMade, declared_arms, looks_made
from .status import Standing, status_of
from .verification import Verification

MOST_BLOCKS, LEAST_LENGTH = 12, 5


@dataclass(frozen=True)
class ShareBlock:
    """Shares of the arms in a block of consecutive allocations.

    Attributes
    ----------
    first : int
        Number of its first allocation, cancelled ones not counted, from 1.
    last : int
        Number of its last one.
    shares : tuple[float, ...]
        Share of every arm, in the order of the problem.

    Examples
    --------
    >>> _ = trial.ask()
    >>> trial.report().shares[0].shares
    (1.0, 0.0)
    """

    first: int
    last: int
    shares: tuple[float, ...]


def share_blocks(arms: Sequence[int], n_arms: int, *, whole: int = 1) -> tuple[ShareBlock, ...]:
    """At most twelve blocks of about equal length; `arms`: the arm of every allocation.

    whole: pulls that a block has all or none of, those of a stage.
    """
    n = len(arms) // whole
    number = min(MOST_BLOCKS, -(-n // (LEAST_LENGTH if whole == 1 else 1)))
    ends = (whole * np.linspace(0, n, number + 1).round().astype(int)).tolist()
    blocks = []
    for start, end in pairwise(ends):
        counts = np.bincount(np.asarray(arms[start:end], dtype=np.int64), minlength=n_arms)
        shares = tuple((counts / (end - start)).tolist())
        blocks.append(ShareBlock(start + 1, end, shares))
    return tuple(blocks)


# -- where a trial departed from its plan, as its log has it: for the report -----------------------


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


# -- the report of a trial: results, shares over time, deviations, the state of its log, s----------


@dataclass(frozen=True)
class AuditState:
    """Whether the log is as it was written.

    Attributes
    ----------
    ok : bool
        No problem was found.
    events : int
        Events that were checked.
    head : str
        Hash of the last event.
    problems : tuple[str, ...]
        What was found.
    remarks : tuple[str, ...]
        What is worth a look, and no proof of a change.

    Examples
    --------
    >>> trial.report().audit.events
    1
    """

    ok: bool
    events: int
    head: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class TrialReport(Standing):
    """A trial as a report shows it, running or finished.

    Attributes
    ----------
    created_by : str
        Who created it.
    reported_at : str
        When the report was made: ISO 8601, UTC.
    control : str
        Name of the control arm.
    level : float
        Of the intervals.
    parameters : dict[str, float] | None
        That the policy was tuned to; null where there are none.
    ties : str
        How ties between arms are broken.
    versions : tuple[str, ...]
        Of decobandit, which wrote the log.
    pending : int
        Slots with a pending outcome.
    deploy : float
        How many pulls the deployment at the end is worth; 0 without one.
    arms : tuple[ArmResult, ...]
        Results of every arm.
    shares : tuple[ShareBlock, ...]
        Shares of the arms over time.
    corrections : tuple[Correction, ...]
        Outcomes that were replaced.
    late_after : float
        Hours after which an outcome is late.
    late : tuple[LateOutcome, ...]
        Outcomes that came later, or are pending for longer.
    refused : int
        Requests on record that contradicted the log and were refused.
    declared : tuple[str, ...] | None
        At the end, arms that the test of the rules declares better than control; without a control
        arm, best. Null before the end, and without rules.
    looks : tuple[LookMade, ...]
        Looks that were made, where the rules stop trials or drop arms.
    changes : tuple[Change, ...]
        Closing, reopening, archiving, changed limits, unmasking.
    audit : AuditState
        Whether the log is as it was written.

    Examples
    --------
    >>> report = trial.report()
    >>> report.control, report.told, report.audit.ok
    ('arm-1', 0, True)
    """

    created_by: str
    reported_at: str
    control: str
    level: float
    parameters: dict[str, float] | None
    ties: str
    versions: tuple[str, ...]
    pending: int
    deploy: float
    arms: tuple[ArmResult, ...]
    shares: tuple[ShareBlock, ...]
    corrections: tuple[Correction, ...]
    late_after: float
    late: tuple[LateOutcome, ...]
    refused: int
    declared: tuple[str, ...] | None
    looks: tuple[LookMade, ...]
    changes: tuple[Change, ...]
    audit: AuditState


def report_of(
    ledger: Ledger,
    decider: Decider,
    events: Iterable[Event],
    verified: Verification,
    *,
    control: str | None = None,
    late_after: float = STALE_AFTER,
    now: datetime | None = None,
) -> TrialReport:
    """The report of a trial at one state, from its events and the check of its log."""
    now, deviations = now or datetime.now(UTC), Deviations.of(events)
    stale_limit(late_after, now)  # refuses hours that are not allowed
    problem, settings = ledger.problem, ledger.settings
    planned = None if settings.rules is None else settings.rules.control
    at, status = control_of(problem, control or planned), status_of(ledger, decider)
    used = [
        ledger.position(part.arm)
        for slot in ledger.allocations.values()
        if slot.holds_slots
        for part in slot.arms  # pulls of a stage have no order: arm by arm
        for _ in range(part.pulls)
    ]
    parameters = settings.parameters
    standing = {each.name: getattr(status, each.name) for each in fields(Standing)}
    return TrialReport(
        **standing,
        created_by=deviations.created_by,
        reported_at=now.isoformat(timespec="seconds"),
        control=problem.arms[at].name,
        level=LEVEL,
        parameters=None if parameters is None else dict(parameters),
        ties=settings.ties,
        versions=tuple(deviations.versions),
        pending=sum(ledger.open),
        deploy=0.0 if problem.terminal is None else problem.terminal.deploy,
        arms=arm_results(ledger, at),
        shares=share_blocks(used, problem.n_arms, whole=problem.pulls_per_stage),
        corrections=tuple(deviations.corrections),
        late_after=late_after,
        late=deviations.late(timedelta(hours=late_after), now),
        refused=deviations.refused,
        declared=declared_arms(ledger, decider.ruled),
        looks=looks_made(ledger, decider.ruled),
        changes=tuple(deviations.changes),
        audit=AuditState(
            verified.ok, verified.events, verified.head, verified.problems, verified.remarks
        ),
    )
