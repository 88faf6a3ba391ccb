"""The state of a trial: counts, posterior, the next decision, and the bound."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from sqlalchemy import Row

from .._version import __version__
from ..bounds import Episode, retrace
from ..policies import known_of_arm
from ..problem import Outcome
from ..support.frames import Shown
from ..support.records import doc, record_class
from .allocations import Allocation, parts_by_arm, sole_arm, tallies, value_of
from .arm_changes import ArmChange, known_with, settings_after
from .decider import Decider, decider_of, pending_state, stopped_and_dropped
from .decisions import Decision, expected_rewards
from .errors import Conflict, Stopped, TrialError
from .events import canonical, digest
from .ledger import Ledger
from .requests import CancellationCount, Request
from .settings import NO_BOUND, TrialLimits, TrialSettings


@record_class()
class TrialFields(Shown):
    """Fields shared by lists, status and report. Slots are pulls."""

    id: str = doc("Random id.")
    name: str = doc("Name of the trial.")
    state: str = doc(
        "running, closed (no more allocations are made), archived (closed, and hidden from "
        "lists) or locked (closed, and nothing changes)."
    )
    finished: bool = doc("Whether every slot has its outcome.")
    created_at: str = doc("ISO 8601, UTC.")
    policy: str = doc("Name of the policy.")
    horizon: int = doc("Number of stages.")
    slots: int = doc("Total number of pulls.")
    allocated: int = doc("Slots in use.")
    told: int = doc("Slots with an outcome.")
    stopped: str | None = doc(
        "Why a look has stopped the trial: superiority, inferiority, futility or equivalence."
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return asdict(self)


@record_class()
class Standing(TrialFields):
    """Trial counts shared by status and report."""

    seed: int = doc("Random seed.")
    version: str = doc("Version of decobandit.")
    pulls_per_stage: int = doc("Pulls of one stage.")
    planned: str = doc("Arms, stages and pulls as planned, in words.")
    cancelled: int = doc("Allocations that were cancelled.")
    cancellations: tuple[CancellationCount, ...] = doc(
        "Cancelled pulls by person and arm, with reasons."
    )
    deployment: str | None = doc(
        "The arm to deploy, at the end of a problem that deploys one; several with commas."
    )
    earned: float = doc("Total reward of the recorded outcomes.")
    spent: float | None = doc(
        "Money that pulls have cost, pending and lost ones included; null without a budget."
    )
    left: float | None = doc("Money left of the budget; null without one.")
    upper_bound: float | None = doc(
        "Bound on the expected total reward of any policy at the start; null without a dual."
    )
    best_bound: float | None = doc(
        "Smallest upper bound computed when the trial was created; null if none was."
    )
    best_bound_is: str | None = doc(
        "Method of the best bound: optimum, joint, lagrangian, trivial or information."
    )
    bound_from_here: float | None = doc(
        "Bound on the expected reward of the remaining stages; null without a dual."
    )
    loss_so_far: float | None = doc(
        "Shortfall and congestion of the recorded outcomes; null without prices of pulls."
    )
    rules: dict[str, Any] | None = doc(
        "Rules of the design that the trial obeys, in the form of the table `design` of a file."
    )
    dropped: tuple[str, ...] = doc("Arms that looks have dropped.")
    arm_changes: tuple[ArmChange, ...] = doc("Arms that joined or left while the trial ran.")


History = list[tuple[int | str | None, Outcome | None]]  # arm, outcome; None: no pull


def earned(ledger: Ledger) -> float:
    """Return the total reward of the recorded outcomes of a trial without segments, or of one."""
    return sum(reward for _, reward in rewards(ledger))


def rewards(ledger: Ledger) -> Iterator[tuple[Allocation, float]]:
    """Yield allocations with the rewards of one of their arms; of a segment, where there are some.

    Allocations of an arm follow each other.
    """
    problem = ledger.problem
    for arm, parts in parts_by_arm(ledger.allocations.values()).items():
        group = problem.groups[problem.group_of_arm[ledger.position(arm)]]
        for slot, part, before, tally in tallies(group.model, parts):
            if part.good is not None:
                value = float(part.good)
            else:
                value = value_of(group.model, part, before, tally)
            stage = min(slot.stage, problem.horizon - 1)  # visitors beyond are of a segment
            base, factor = (float(played[stage]) for played in group.played_rewards)
            yield slot, base * part.told + factor * value


def bound_from_here(ledger: Ledger, decider: Decider) -> float | None:
    """Return the dual function from the stage under way on, at the trial's prices.

    Averaged over pending outcomes, which is an upper bound: earlier information cannot hurt. Exact
    at the end; None without prices.
    """
    pending, problem = pending_state(ledger), ledger.problem
    if ledger.segment is not None:
        # the law of its visitors was that before the first one came
        return None if ledger.used < ledger.slots else 0.0
    if not ledger.can_pay:
        pending = replace(pending, stage=problem.horizon)
    if pending.stage == problem.horizon and not sum(pending.open):
        return decider.value_of_deployment(pending)
    if ledger.awaits_states:
        return None
    prices, later = decider.settings.prices, slice(pending.stage, None)
    arms = decider.value_of_arms(pending)
    if prices is None or arms is None:
        return None
    solution, left = decider.settings.solution, ledger.left
    money = 0.0 if solution is None or left is None else (solution.budget_price or 0.0) * left
    total = arms + float(problem.pulls[later] @ prices[later]) + money
    # after the last stage, only outcomes are missing
    return total / float(problem.survival[min(pending.stage, problem.stages - 1)])


def arm_change_record(ledger: Ledger, request: Request) -> dict[str, Any]:
    """Return the content of the event of an arm that joins or leaves.

    The settings of the stages left, and the bound that they certify there.
    """
    ledger.check_arms()
    before = ledger.settings
    stopped, dropped = stopped_and_dropped(ledger, decider_of(before).ruled)
    if stopped:
        raise Stopped(f"the trial was stopped by its rules ({stopped})")
    control = None if before.rules is None else before.rules.control
    if request.kind == "arm_closed" and control is not None and request.arm == control:
        raise Conflict(f"{request.arm} is the control of the design and stays", field="arm")
    problem = ledger.problem_after(request, dropped)
    known = known_with(problem, ledger.known)
    settings = settings_after(before, problem, ledger.stage, known, ledger.left, request.policy)
    return {
        "stage": ledger.stage,
        "plan": settings.to_dict(),
        "multipliers_hash": settings.multipliers_hash,
        "bound_from_here": bound_from_here(ledger.using(settings), decider_of(settings)),
    }


def episode_of(ledger: Ledger, decider: Decider) -> Episode:
    """Retrace the recorded outcomes in the order of allocations; `TrialError` without prices.

    With one pull per stage, pending outcomes are skipped. With several, the episode ends before the
    first incomplete stage.
    """
    settings = ledger.settings
    if settings.problem.repeat:
        raise TrialError("outcomes of shared batches are not compared with the price of a pull")
    if settings.problem.is_restless:
        raise TrialError("outcomes of arms that move at rest are not compared with prices")
    tables = decider.tables()
    if settings.solution is None or tables is None:
        raise TrialError(f"{NO_BOUND}, so that there are no prices to compare its outcomes with")
    most = settings.problem.horizon * settings.problem.pulls_per_stage
    return retrace(
        settings.problem,
        _history(ledger)[:most],
        solution=settings.solution,
        policy=settings.policy,
        relaxation=tables,
    )


def has_episode(settings: TrialSettings) -> bool:
    """Tell whether outcomes can be compared with prices."""
    problem = settings.problem
    return settings.solution is not None and not problem.repeat and not problem.is_restless


def _history(ledger: Ledger) -> History:
    history: History = []
    for slot in ledger.allocations.values():
        if slot.holds_slots and slot.told == slot.size:
            for part in slot.arms:
                kind = ledger.kinds[part.arm]
                history.append((ledger.position(part.arm), kind.format.sole(part.tally(kind))))
            history += [(None, None)] * (ledger.problem.pulls_per_stage - slot.size)
        elif slot.holds_slots and slot.size > 1:
            break
    return history


def loss_so_far(ledger: Ledger, decider: Decider) -> float | None:
    """Return shortfall plus congestion of the recorded outcomes; None without an episode."""
    if not has_episode(ledger.settings):
        return None
    episode = episode_of(ledger, decider)
    return float(episode.running_loss[-1]) if episode.stages else 0.0


@record_class()
class Summary(TrialFields):
    """One line of a list of trials.

    Examples
    --------
    >>> from decobandit.trials import list_trials
    >>> summary = list_trials(db=trial.store)[0]
    >>> summary.intact, summary.badge
    (True, 'running')
    """

    arms: int = doc("Number of arms.")
    open: int = doc("Slots with a pending outcome.")
    intact: bool = doc("False: the log was changed, and nothing else can be said.", default=True)
    open_since: str | None = doc(
        "When the oldest pending allocation was made: ISO 8601, UTC.", default=None
    )
    stale: bool = doc("Whether that is longer ago than `stale_after`.", default=False)
    leader: str | None = doc(
        "Arm with the largest expected reward; null before the first outcome, and with segments.",
        default=None,
    )
    leader_share: float | None = doc("Share of the allocated pulls that it got.", default=None)
    next_look: int | None = doc(
        "Recorded outcomes at the next interim look; null if there is none.", default=None
    )

    @property
    def badge(self) -> str:
        """Mark in lists: running, finished, stopped, closed, archived or damaged."""
        if not self.intact:
            return "damaged"
        if self.state == "archived":
            return self.state
        return "finished" if self.finished else "stopped" if self.stopped else self.state


@record_class()
class ArmStatus:
    """Counts and posterior of an arm.

    Examples
    --------
    >>> trial.status().arms[0].posterior_good
    1.0
    """

    name: str = doc("Name of the arm.")
    good: int | None = doc("Good outcomes recorded; null where outcomes are not good or bad.")
    bad: int | None = doc("Bad outcomes recorded.")
    open: int = doc("Pending allocations.")
    posterior_good: float | None = doc("Posterior pseudo-count of good outcomes.")
    posterior_bad: float | None = doc("Posterior pseudo-count of bad outcomes.")
    expected_reward: float | None = doc("Expected reward of the next pull; null if there is none.")
    value_of_information: float | None = doc(
        "Expected gain of later decisions from one more outcome."
    )
    index: float | None = doc("Index of the policy; for DeCo, the sum of the two.")
    code: str = doc("Shown to blinded users instead of the name.")
    seen: str | None = doc(
        "Statistics of non-binary outcomes, in the notation of states.", default=None
    )
    posterior: str | None = doc("Posterior of an arm with non-binary outcomes.", default=None)


@record_class()
class SegmentStanding:
    """Counts of a segment shared by status and report."""

    name: str = doc("Name of the segment.")
    share: float = doc("Probability that a visitor belongs to it, as planned.")
    allocated: int = doc("Slots in use.")
    told: int = doc("Slots with an outcome.")
    pending: int = doc("Slots with a pending outcome.")
    earned: float = doc("Total reward of the recorded outcomes.")
    upper_bound: float | None = doc(
        "Bound, at the start, on the expected reward in this segment of policies that count its "
        "visitors only; null without a dual."
    )
    stopped: str | None = doc("Why a look has stopped it.")
    dropped: tuple[str, ...] = doc("Arms that looks have dropped.")


@record_class()
class SegmentStatus(SegmentStanding):
    """State of one segment of a trial, on the clock of its own visitors."""

    stage: int = doc("Stages completed by its slots in use.")
    next_arm: str | None = doc("The arm that an ask would allocate now; null for several pulls.")
    next_pulls: dict[str, int] | None = doc("Pulls by arm that an ask would allocate now.")
    reason: str | None = doc("Why this arm, or these arms.")
    price: float | None = doc("Of a pull at this stage.")
    arms: tuple[ArmStatus, ...] = doc("Counts and posterior of every arm.")
    loss_so_far: float | None = doc(
        "Shortfall and congestion of the recorded outcomes; null without prices of pulls."
    )


@record_class()
class Status(Standing):
    """State of a trial. Slots are pulls; a stage has `pulls_per_stage` of them.

    Examples
    --------
    >>> status = trial.status()
    >>> status.stage, status.remaining, status.next_arm
    (0, 5, 'arm-1')
    """

    open: tuple[Allocation, ...] = doc("Allocations with a pending outcome.")
    remaining: int = doc("Free slots.")
    stage: int = doc("Stages completed by the slots in use.")
    next_arm: str | None = doc(
        "The arm that an ask would allocate now; null where a stage has several pulls."
    )
    next_pulls: dict[str, int] | None = doc("Pulls by arm that an ask would allocate now.")
    reason: str | None = doc("Why this arm, or these numbers.")
    price: float | None = doc("Of a pull at this stage.")
    arms: tuple[ArmStatus, ...] = doc("Counts and posterior of every arm.")
    head: str = doc("Hash of the last event.")
    limits: TrialLimits = doc("Limits on pending and cancelled allocations.")
    by_rules: bool = doc(
        "Whether the rules of the design chose or drew the next arm, not its index."
    )
    segments: tuple[SegmentStatus, ...] = doc(
        "State of every segment; none in a trial without segments. Next arm, reason and price are "
        "theirs then."
    )

    @property
    def is_over(self) -> bool:
        """Whether the trial is finished, or stopped with nothing pending."""
        return self.finished or (self.stopped is not None and not self.pending)

    @property
    def pending(self) -> int:
        """Pulls without an outcome yet."""
        return sum(arm.open for arm in self.arms)


def fields_of(ledger: Ledger) -> dict[str, Any]:
    """Return the fields of `TrialFields`, but why looks have stopped the trial."""
    names = ("name", "state", "finished", "created_at", "slots", "told")
    return {name: getattr(ledger, name) for name in names} | {
        "id": ledger.trial,
        "policy": ledger.settings.policy,
        "horizon": ledger.problem.horizon,
        "allocated": ledger.used,
    }


def summary_of(ledger: Ledger) -> Summary:
    """Summarise a trial for lists."""
    return Summary(
        **fields_of(ledger),
        arms=ledger.problem.n_arms,
        open=sum(ledger.open),
        open_since=next(iter(ledger.since.values()), None),
        stopped=_stopped(ledger),
        **_leader(ledger),
        next_look=_next_look(ledger),
    )


def _leader(ledger: Ledger) -> dict[str, Any]:
    problem = ledger.problem
    if problem.segments or not ledger.told:
        return {}
    pending = replace(pending_state(ledger), stage=min(ledger.stage, problem.horizon - 1))
    best = int(expected_rewards(problem, pending).argmax())
    pulls = [sum(known) for known in zip(pending.known.pulls, ledger.open, strict=True)]
    return {"leader": problem.arms[best].name, "leader_share": pulls[best] / sum(pulls)}


def _next_look(ledger: Ledger) -> int | None:
    rules = ledger.settings.rules
    look = None if rules is None or ledger.problem.segments else rules.next_look(ledger.told)
    running = ledger.state == "running" and not ledger.finished
    return look if running and look is not None and look <= ledger.slots else None


def _stopped(ledger: Ledger) -> str | None:
    """Return why a look stopped the trial; None also if its policy cannot be made here."""
    rules = ledger.settings.rules
    if rules is None or not rules.stop.any or not all(part.looks for part in ledger.parts):
        return None
    try:
        return _all_stopped(
            stopped_and_dropped(part, decider_of(part.settings).ruled)[0] for part in ledger.parts
        )
    except (TrialError, ValueError, ImportError):
        return None


def _all_stopped(reasons: Iterable[str | None]) -> str | None:
    """Return why looks stopped a trial: every segment of it."""
    stopped = list(reasons)
    return None if None in stopped else ", ".join(dict.fromkeys(map(str, stopped)))


Deciders = Callable[[Ledger], Decider]  # of a trial without segments, or of one of them


def status_of(ledger: Ledger, deciders: Deciders) -> Status:
    """Return the status of a trial, with its next decision and its bounds."""
    problem, settings = ledger.problem, ledger.settings
    common: dict[str, Any] = {
        **fields_of(ledger),
        **{name: getattr(ledger, name) for name in _FROM_LEDGER},
        "seed": settings.seed,
        "version": __version__,
        "pulls_per_stage": problem.pulls_per_stage,
        "planned": problem.described(),
        "remaining": ledger.slots - ledger.used,
        "open": tuple(slot for slot in ledger.allocations.values() if slot.state == "open"),
        "cancellations": tuple(ledger.cancellations.values()),
        "spent": None if ledger.left is None else ledger.spent,
        "upper_bound": settings.upper_bound,
        **settings.best_bound_fields,
        "rules": settings.plain_rules,
    }
    if problem.segments:
        return _status_of_segments(ledger, deciders, common)
    decider = deciders(ledger)
    stopped, dropped = stopped_and_dropped(ledger, decider.ruled)
    decision = _next_decision(ledger, decider)
    pulls = None if decision is None else decision.by_name(problem)
    names = [arm.name for arm in problem.arms]
    deploys = ledger.finished and problem.terminal is not None
    return Status(
        **common,
        next_arm=None if pulls is None else sole_arm(ledger.problem, pulls),
        next_pulls=pulls,
        reason=None if decision is None else decision.reason,
        price=None if decision is None else decision.price,
        by_rules=decision is not None and decision.by_rules,
        arms=_arms(ledger, decision),
        deployment=", ".join(names[k] for k in decider.deployment(ledger)) if deploys else None,
        earned=earned(ledger),
        bound_from_here=bound_from_here(ledger, decider),
        loss_so_far=loss_so_far(ledger, decider),
        stopped=stopped,
        dropped=dropped,
        segments=(),
    )


def _status_of_segments(ledger: Ledger, deciders: Deciders, common: dict[str, Any]) -> Status:
    """Return the status of a trial with segments: in all, and of each."""
    shares = [segment.share for segment in ledger.problem.segments]
    parts = [status_of(part, deciders) for part in ledger.parts]
    losses = [part.loss_so_far for part in parts]
    return Status(
        **common,
        next_arm=None,
        next_pulls=None,
        reason=None,
        price=None,
        by_rules=False,
        arms=_arms_in_all(parts, shares),
        deployment=None,
        earned=sum(part.earned for part in parts),
        bound_from_here=None if ledger.used < ledger.slots else 0.0,
        loss_so_far=None if None in losses else sum(loss or 0.0 for loss in losses),
        stopped=_all_stopped(part.stopped for part in parts),
        dropped=(),
        segments=tuple(
            SegmentStatus(
                name=segment.name,
                share=segment.share,
                pending=part.pending,
                **{name: getattr(part, name) for name in _OF_SEGMENT},
            )
            for segment, part in zip(ledger.problem.segments, parts, strict=True)
        ),
    )


def _arms_in_all(parts: Sequence[Status], shares: Sequence[float]) -> tuple[ArmStatus, ...]:
    """Return the arms with counts of all segments; a reward is averaged over visitors."""
    rows = []
    for arms in zip(*(part.arms for part in parts), strict=True):
        rewards = [arm.expected_reward for arm in arms]
        counted = {
            name: None if None in values else sum(values)
            for name in ("good", "bad", "open")
            for values in [[getattr(arm, name) for arm in arms]]
        }
        known = zip(shares, rewards, strict=True)
        reward = None if None in rewards else sum(share * float(r or 0.0) for share, r in known)
        row: dict[str, Any] = dict.fromkeys(field.name for field in fields(ArmStatus)) | counted
        row |= {"name": arms[0].name, "code": arms[0].code, "expected_reward": reward}
        rows.append(ArmStatus(**row))
    return tuple(rows)


_OF_SEGMENT = (
    *("allocated", "told", "stage", "next_arm", "next_pulls", "reason", "price", "arms"),
    *("earned", "upper_bound", "loss_so_far", "stopped", "dropped"),
)
_FROM_LEDGER = ("cancelled", "stage", "head", "limits", "arm_changes", "left")


def _next_decision(ledger: Ledger, decider: Decider) -> Decision | None:
    over = not ledger.can_pay or ledger.used >= ledger.slots or ledger.state != "running"
    if over or ledger.awaits_states:
        return None
    try:
        return decider.decide(ledger)
    except Conflict:  # stopped by its rules, or too many outcomes are pending
        return None


def _arms(ledger: Ledger, decision: Decision | None) -> tuple[ArmStatus, ...]:
    able = ledger.problem.available_at(ledger.stage)

    def term(name: str, k: int) -> float | None:
        values: tuple[float, ...] | None = getattr(decision, name, None)
        return None if values is None or not able[k] else values[k]

    state = ledger.known
    return tuple(
        ArmStatus(
            name=arm.name,
            **known_of_arm(ledger.problem, state, k),
            open=ledger.open[k],
            expected_reward=term("expected_reward", k),
            value_of_information=term("value_of_information", k),
            index=term("index", k),
            code=ledger.codes[k],
        )
        for k, arm in enumerate(ledger.problem.arms)
    )


_COMPUTED = frozenset({"intact", "stale"})  # when a list is made
_KEYS = frozenset(field.name for field in fields(Summary)) - _COMPUTED | {"head"}


def stored_summary(ledger: Ledger) -> str:
    """Return the stored form of a summary: its checksum and one line of JSON."""
    tree = {key: value for key, value in summary_of(ledger).to_dict().items() if key in _KEYS}
    line = canonical(tree | {"head": ledger.head})
    return f"{digest(line)} {line}"


def is_forged(stored: str | None, ledger: Ledger) -> bool:
    """Tell whether a stored summary contradicts the ledger; an outdated form does not."""
    if stored is None or stored == stored_summary(ledger):
        return False
    try:
        return set(json.loads(str(stored).partition(" ")[2])) == _KEYS
    except (ValueError, TypeError, RecursionError):
        return True


def summary_from(row: Row[Any]) -> Summary | None:
    """Return the summary of a row of trials with its last event; None if it does not fit."""
    if not all(isinstance(text, str) for text in (row.summary, row.last_body, row.last_hash)):
        return None
    checksum, _, line = row.summary.partition(" ")
    if digest(line) != checksum or not digest(row.last_body) == row.last_hash == row.head_hash:
        return None
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or set(tree) != _KEYS:  # written by another version
        return None
    head = tree.pop("head")
    summary = Summary(**tree)
    fits = (head, summary.id, summary.name, summary.created_at)
    return summary if fits == (row.head_hash, row.id, row.name, row.created_at) else None
