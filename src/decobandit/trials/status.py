"""The state of a trial: counts, posterior, the next decision, and the bound."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any

from sqlalchemy import Row

from .._version import __version__
from ..bounds import Episode, retrace
from ..policies import known_of_arm
from ..problem import Outcome, Problem
from ..support.frames import Shown
from ..support.records import doc, record_class
from .allocations import Allocation, parts_by_arm, sole_arm, values
from .decisions import (
    Decider,
    Decision,
    decider_of,
    expected_rewards,
    pending_state,
    stopped_and_dropped,
)
from .errors import Conflict, Stopped, TrialError
from .events import CancellationCount, Request, canonical, digest
from .ledger import Ledger
from .settings import NO_BOUND, ArmChange, TrialLimits, TrialSettings, known_with, settings_after


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
    stopped: str | None = doc("Why looks stopped it: superiority, inferiority, futility, ...")

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
    cancellations: tuple[CancellationCount, ...] = doc("Cancelled pulls by person and arm.")
    deployment: str | None = doc("The arm to deploy, at the end; several with commas.")
    earned: float = doc("Total reward of the recorded outcomes.")
    spent: float | None = doc("Money that pulls have cost, pending ones too; null without one.")
    left: float | None = doc("Money left of the budget; null without one.")
    upper_bound: float | None = doc("Bound on the reward of any policy, at the start; or null.")
    best_bound: float | None = doc("Smallest upper bound at the creation of the trial; or null.")
    best_bound_is: str | None = doc("Its method: optimum, joint, lagrangian, trivial, ...")
    bound_from_here: float | None = doc("Bound on the reward of the remaining stages; or null.")
    loss_so_far: float | None = doc("Shortfall and congestion so far; null without prices.")
    rules: dict[str, Any] | None = doc("Rules of the design, as in the table `design` of a file.")
    dropped: tuple[str, ...] = doc("Arms that looks have dropped.")
    arm_changes: tuple[ArmChange, ...] = doc("Arms that joined or left while the trial ran.")


def rewards(ledger: Ledger) -> Iterator[tuple[Allocation, float]]:
    """Yield allocations with the rewards of one of their arms, arm by arm."""
    problem = ledger.problem
    for arm, parts in parts_by_arm(ledger.allocations.values()).items():
        group = problem.groups[problem.group_of_arm[ledger.position(arm)]]
        for slot, part, value in values(group.model, parts):
            stage = min(slot.stage, problem.horizon - 1)  # visitors beyond are of a segment
            base, factor = (float(played[stage]) for played in group.played_rewards)
            yield slot, base * part.told + factor * value


def bound_from_here(ledger: Ledger, decider: Decider) -> float | None:
    """Return the dual function from the current stage on, at the trial's prices.

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
    """Return the content of the event of an arm that joins or leaves."""
    ledger.check_arms()
    before = ledger.settings
    stopped, dropped = stopped_and_dropped(ledger)
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


def episode_of(ledger: Ledger) -> Episode:
    """Retrace the recorded outcomes in the order of allocations; `TrialError` without prices.

    With one pull per stage, pending outcomes are skipped. With several, the episode ends before the
    first incomplete stage.
    """
    settings, problem = ledger.settings, ledger.problem
    if problem.repeat:
        raise TrialError("outcomes of shared batches are not compared with the price of a pull")
    if problem.is_restless:
        raise TrialError("outcomes of arms that move at rest are not compared with prices")
    tables = decider_of(settings).tables()
    if settings.solution is None or tables is None:
        raise TrialError(f"{NO_BOUND}, so that there are no prices to compare its outcomes with")
    history: list[tuple[int | str | None, Outcome | None]] = []  # arm, outcome; None: no pull
    for slot in ledger.allocations.values():
        if slot.holds_slots and slot.told == slot.size:
            for part in slot.arms:
                kind = ledger.kinds[part.arm]
                history.append((ledger.position(part.arm), kind.format.sole(part.tally(kind))))
            history += [(None, None)] * (problem.pulls_per_stage - slot.size)
        elif slot.holds_slots and slot.size > 1:
            break
    return retrace(
        problem,
        history[: problem.horizon * problem.pulls_per_stage],
        solution=settings.solution,
        policy=settings.policy,
        relaxation=tables,
    )


def has_episode(settings: TrialSettings) -> bool:
    """Tell whether outcomes can be compared with prices."""
    problem = settings.problem
    return settings.solution is not None and not problem.repeat and not problem.is_restless


@record_class()
class Summary(TrialFields):
    """One line of a list of trials."""

    arms: int = doc("Number of arms.")
    open: int = doc("Slots with a pending outcome.")
    intact: bool = doc("False: the log was changed, and nothing else can be said.", default=True)
    open_since: str | None = doc("When the oldest pending allocation was made: UTC.", default=None)
    stale: bool = doc("Whether that is longer ago than `stale_after`.", default=False)
    leader: str | None = doc("Arm with the largest expected reward, if known.", default=None)
    leader_share: float | None = doc("Share of the allocated pulls that it got.", default=None)
    next_look: int | None = doc("Recorded outcomes at the next look; null if none.", default=None)

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
    """Counts and posterior of an arm."""

    name: str = doc("Name of the arm.")
    good: int | None = doc("Good outcomes recorded; null where outcomes are not good or bad.")
    bad: int | None = doc("Bad outcomes recorded.")
    open: int = doc("Pending allocations.")
    posterior_good: float | None = doc("Posterior pseudo-count of good outcomes.")
    posterior_bad: float | None = doc("Posterior pseudo-count of bad outcomes.")
    expected_reward: float | None = doc("Expected reward of the next pull; null if there is none.")
    value_of_information: float | None = doc("What one more outcome is worth to later decisions.")
    index: float | None = doc("Index of the policy; for DeCo, the sum of the two.")
    code: str = doc("Shown to blinded users instead of the name.")
    seen: str | None = doc("Statistics of non-binary outcomes, as states have them.", default=None)
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
    loss_so_far: float | None = doc("Shortfall and congestion so far; null without prices.")


@record_class()
class Status(Standing):
    """State of a trial. Slots are pulls; a stage has `pulls_per_stage` of them."""

    open: tuple[Allocation, ...] = doc("Allocations with a pending outcome.")
    remaining: int = doc("Free slots.")
    stage: int = doc("Stages completed by the slots in use.")
    next_arm: str | None = doc("The arm that an ask would allocate now; null for several pulls.")
    next_pulls: dict[str, int] | None = doc("Pulls by arm that an ask would allocate now.")
    reason: str | None = doc("Why this arm, or these numbers.")
    price: float | None = doc("Of a pull at this stage.")
    arms: tuple[ArmStatus, ...] = doc("Counts and posterior of every arm.")
    head: str = doc("Hash of the last event.")
    limits: TrialLimits = doc("Limits on pending and cancelled allocations.")
    by_rules: bool = doc("Whether rules of the design chose the next arm, not its index.")
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
    problem, rules = ledger.problem, ledger.settings.rules
    leader: dict[str, Any] = {}
    if ledger.told and not problem.segments:
        pending = replace(pending_state(ledger), stage=min(ledger.stage, problem.horizon - 1))
        best = int(expected_rewards(problem, pending).argmax())
        pulls = [sum(known) for known in zip(pending.known.pulls, ledger.open, strict=True)]
        leader = {"leader": problem.arms[best].name, "leader_share": pulls[best] / sum(pulls)}
    look = None
    if rules is not None and not problem.segments and ledger.state == "running":
        look = None if ledger.finished else rules.next_look(ledger.told)
    return Summary(
        **fields_of(ledger),
        arms=problem.n_arms,
        open=sum(ledger.open),
        open_since=next(iter(ledger.since.values()), None),
        stopped=_stopped(ledger),
        **leader,
        next_look=look if look is not None and look <= ledger.slots else None,
    )


def _stopped(ledger: Ledger) -> str | None:
    """Return why a look stopped the trial; None also if its policy cannot be made here."""
    rules = ledger.settings.rules
    if rules is None or not rules.stop.any or not all(part.looks for part in ledger.parts):
        return None
    try:
        return _all_stopped(stopped_and_dropped(part)[0] for part in ledger.parts)
    except (TrialError, ValueError, ImportError):
        return None


def _all_stopped(reasons: Iterable[str | None]) -> str | None:
    """Return why looks stopped a trial: every segment of it."""
    stopped = list(reasons)
    return None if None in stopped else ", ".join(dict.fromkeys(map(str, stopped)))


def status_of(ledger: Ledger) -> Status:
    """Return the status of a trial, with its next decision and its bounds."""
    problem, settings = ledger.problem, ledger.settings
    parts = [_of_part(part) for part in ledger.parts]
    segments = tuple(
        SegmentStatus(
            name=segment.name, share=segment.share, **{name: part[name] for name in _OF_SEGMENT}
        )
        for segment, part in zip(problem.segments, parts, strict=False)
    )
    return Status(
        **fields_of(ledger),
        **{name: getattr(ledger, name) for name in _FROM_LEDGER},
        seed=settings.seed,
        version=__version__,
        pulls_per_stage=problem.pulls_per_stage,
        planned=problem.described(),
        remaining=ledger.slots - ledger.used,
        open=tuple(slot for slot in ledger.allocations.values() if slot.state == "open"),
        cancellations=tuple(ledger.cancellations.values()),
        spent=None if ledger.left is None else ledger.spent,
        upper_bound=settings.upper_bound,
        **settings.best_bound_fields,
        rules=settings.plain_rules,
        segments=segments,
        **(_in_all(ledger, parts) if segments else {name: parts[0][name] for name in _OF_TRIAL}),
    )


def _of_part(ledger: Ledger) -> dict[str, Any]:
    """Return what is decided and known in a trial without segments, or in one of them."""
    decider, problem, decision = decider_of(ledger.settings), ledger.problem, None
    over = not ledger.can_pay or ledger.used >= ledger.slots or ledger.state != "running"
    if not over and not ledger.awaits_states:
        with suppress(Conflict):  # stopped by its rules, or too many outcomes are pending
            decision = decider.decide(ledger)
    pulls = None if decision is None else decision.by_name(problem)
    stopped, dropped = stopped_and_dropped(ledger)
    loss, deployed = None, None
    if has_episode(ledger.settings):
        episode = episode_of(ledger)
        loss = float(episode.running_loss[-1]) if episode.stages else 0.0
    if ledger.finished and problem.terminal is not None:
        deployed = ", ".join(problem.arms[k].name for k in decider.deployment(ledger))
    return {
        "allocated": ledger.used,
        "told": ledger.told,
        "pending": sum(ledger.open),
        "stage": ledger.stage,
        "upper_bound": ledger.settings.upper_bound,
        "next_arm": None if pulls is None else sole_arm(problem, pulls),
        "next_pulls": pulls,
        "reason": None if decision is None else decision.reason,
        "price": None if decision is None else decision.price,
        "by_rules": decision is not None and decision.probabilities is not None,
        "arms": _arms(ledger, decision),
        "deployment": deployed,
        "earned": sum(reward for _, reward in rewards(ledger)),
        "bound_from_here": bound_from_here(ledger, decider),
        "loss_so_far": loss,
        "stopped": stopped,
        "dropped": dropped,
    }


_FROM_LEDGER = ("cancelled", "stage", "head", "limits", "arm_changes", "left")
_OF_BOTH = ("next_arm", "next_pulls", "reason", "price", "arms", "earned", "loss_so_far", "stopped")
_OF_TRIAL = (*_OF_BOTH, "dropped", "by_rules", "deployment", "bound_from_here")
_OF_SEGMENT = (*_OF_BOTH, "dropped", "allocated", "told", "pending", "stage", "upper_bound")


def _in_all(ledger: Ledger, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of all segments together."""
    losses = [part["loss_so_far"] for part in parts]
    none = dict.fromkeys(("next_arm", "next_pulls", "reason", "price", "deployment"))
    return none | {
        "by_rules": False,
        "arms": _arms_in_all([part["arms"] for part in parts], ledger.problem),
        "earned": sum(part["earned"] for part in parts),
        "bound_from_here": None if ledger.used < ledger.slots else 0.0,
        "loss_so_far": None if None in losses else sum(losses),
        "stopped": _all_stopped(part["stopped"] for part in parts),
        "dropped": (),
    }


def _arms_in_all(parts: Sequence[Sequence[ArmStatus]], problem: Problem) -> tuple[ArmStatus, ...]:
    """Return the arms with counts of all segments; a reward is averaged over visitors."""
    shares = [segment.share for segment in problem.segments]
    rows = []
    for arms in zip(*parts, strict=True):
        row: dict[str, Any] = dict.fromkeys(field.name for field in fields(ArmStatus))
        row |= {"name": arms[0].name, "code": arms[0].code}
        for name in ("good", "bad", "open", "expected_reward"):
            weights = shares if name == "expected_reward" else [1] * len(arms)
            column = [getattr(arm, name) for arm in arms]
            if None not in column:
                row[name] = sum(w * x for w, x in zip(weights, column, strict=True))
        rows.append(ArmStatus(**row))
    return tuple(rows)


def _arms(ledger: Ledger, decision: Decision | None) -> tuple[ArmStatus, ...]:
    able, state, rows = ledger.problem.available_at(ledger.stage), ledger.known, []
    for k, arm in enumerate(ledger.problem.arms):
        terms = dict.fromkeys(("expected_reward", "value_of_information", "index"))
        for name in terms if decision is not None and able[k] else ():
            column = getattr(decision, name)
            terms[name] = None if column is None else column[k]
        known = known_of_arm(ledger.problem, state, k)
        about = {"open": ledger.open[k], "code": ledger.codes[k]}
        rows.append(ArmStatus(name=arm.name, **known, **about, **terms))  # type: ignore[arg-type]
    return tuple(rows)


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
    tree = _parsed(str(stored).partition(" ")[2])
    return tree is None or set(tree) == _KEYS


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def summary_from(row: Row[Any]) -> Summary | None:
    """Return the summary of a row of trials with its last event; None if it does not fit."""
    if not all(isinstance(text, str) for text in (row.summary, row.last_body, row.last_hash)):
        return None
    checksum, _, line = row.summary.partition(" ")
    if digest(line) != checksum or not digest(row.last_body) == row.last_hash == row.head_hash:
        return None
    tree = _parsed(line)
    if tree is None or set(tree) != _KEYS:  # written by another version
        return None
    fits = [tree.pop("head"), *(tree[name] for name in ("id", "name", "created_at"))]
    return Summary(**tree) if fits == [row.head_hash, row.id, row.name, row.created_at] else None
