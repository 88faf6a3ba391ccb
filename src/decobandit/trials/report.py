"""The report of a trial: results, shares over time, deviations, the state of its log, settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from .arm_results import LEVEL, ArmResult, arm_results, control_of
from .decider import Decider
from .deviations import Change, Correction, Deviations, LateOutcome
from .events import Event
from .ledger import Ledger
from .shares import ShareBlock, share_blocks
from .staleness import STALE_AFTER, stale_limit
from .standing import Standing
from .status import status_of
from .verdicts import LookMade, declared_arms, looks_made
from .verification import Verification


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
        declared=declared_arms(ledger, decider),
        looks=looks_made(ledger, decider),
        changes=tuple(deviations.changes),
        audit=AuditState(
            verified.ok, verified.events, verified.head, verified.problems, verified.remarks
        ),
    )
