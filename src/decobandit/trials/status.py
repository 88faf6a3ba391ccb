"""The state of a trial: counts, posterior, the next decision, and the bound."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Row

from .._version import __version__
from ..bounds import BoundKind, Episode, retrace
from ..policies import known_of_arm
from ..problem import Outcome
from .allocations import Allocation, parts_by_arm, sole_arm, tallies
from .decider import Decider, decider_of, pending_state
from .decisions import Decision
from .errors import Conflict, TrialError
from .events import canonical, digest
from .ledger import Ledger
from .requests import CancellationCount, counted
from .rules import verdict_of
from .settings import NO_BOUND, TrialLimits, TrialSettings


@dataclass(frozen=True)
class Standing:
    """How far a trial has come. Slots are pulls; a stage has `pulls_per_stage` of them.

    Attributes
    ----------
    id : str
        Random.
    name : str
        Its name.
    state : str
        running, closed (no more allocations are made) or archived (closed, and hidden from lists).
    finished : bool
        Whether every slot has its outcome.
    created_at : str
        ISO 8601, UTC.
    policy : str
        Name of the policy.
    seed : int
        Of the draws.
    version : str
        Of decobandit.
    horizon : int
        Number of stages.
    pulls_per_stage : int
        Pulls of one stage.
    slots : int
        Pulls in all.
    allocated : int
        Slots in use.
    told : int
        Slots with an outcome.
    cancelled : int
        Allocations that were cancelled.
    cancellations : tuple[CancellationCount, ...]
        How many of them by each person and of each arm, and why.
    deployment : str | None
        The arm to deploy, at the end of a problem that deploys one.
    earned : float
        Total reward of the recorded outcomes.
    upper_bound : float | None
        On the expected total reward of any policy, at the start; null: the dual was not solved.
    best_bound : float | None
        The smallest upper bound that was known when the trial was made; null where none was
        computed.
    best_bound_is : str | None
        How that one was computed: optimum, joint, lagrangian, trivial or information.
    bound_from_here : float | None
        On the expected reward of any policy from the stages that are left; null likewise.
    loss_so_far : float | None
        Shortfall and congestion of the recorded outcomes; null where they cannot be
        compared with prices.
    rules : dict[str, Any] | None
        Rules of the design that the trial obeys, as the table `design` of a file has them.
    stopped : str | None
        Why a look has stopped the trial: superiority, inferiority, futility or equivalence.
    dropped : tuple[str, ...]
        Arms that looks have dropped.
    """

    id: str
    name: str
    state: str
    finished: bool
    created_at: str
    policy: str
    seed: int
    version: str
    horizon: int
    pulls_per_stage: int
    slots: int
    allocated: int
    told: int
    cancelled: int
    cancellations: tuple[CancellationCount, ...]
    deployment: str | None
    earned: float
    upper_bound: float | None
    best_bound: float | None
    best_bound_is: BoundKind | None
    bound_from_here: float | None
    loss_so_far: float | None
    rules: dict[str, Any] | None
    stopped: str | None
    dropped: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


# -- what a trial has earned and lost so far, and the bound on what is left ------------------------


History = list[tuple[int | str, Outcome | None]]  # arm, outcome


def earned(ledger: Ledger) -> float:
    """Total reward of the recorded outcomes."""
    problem, total = ledger.problem, 0.0
    for arm, parts in parts_by_arm(ledger.allocations.values()).items():
        group = problem.groups[problem.group_of_arm[ledger.position(arm)]]
        for slot, part, known, tally in tallies(group.model, parts):
            if part.good is not None:
                good, bad = group.reward_good[slot.stage], group.reward_bad[slot.stage]
                total += part.good * float(good) + (part.told - part.good) * float(bad)
            else:
                value = group.model.format.tally_value(known, tally)
                base, factor = group.reward_base[slot.stage], group.reward_factor[slot.stage]
                total += float(base) * part.told + float(factor) * value
    return total


def bound_from_here(ledger: Ledger, decider: Decider) -> float | None:
    """The dual function from the stage under way on, at the trial's prices; at the end, exact.

    Averaged over pending outcomes: knowing them at once could only raise what can be earned. None
    where the trial has no prices.
    """
    pending, problem = pending_state(ledger), ledger.problem
    if pending.stage == problem.horizon and not sum(pending.open):
        return decider.value_of_deployment(pending)
    prices, later = decider.settings.prices, slice(pending.stage, None)
    arms = decider.value_of_arms(pending)
    return (
        None
        if prices is None or arms is None
        else arms + float(problem.pulls[later] @ prices[later])
    )


def episode_of(ledger: Ledger, decider: Decider) -> Episode:
    """The recorded outcomes in the order of their allocations; `TrialError` without prices.

    With one pull per stage, pending ones are left out and later ones move up. With several, the
    episode ends before the first stage that is not complete.
    """
    settings = ledger.settings
    if ledger.problem.repeat:
        raise TrialError("outcomes of shared batches are not compared with the price of a pull")
    tables = decider.tables()
    if settings.solution is None or tables is None or settings.problem.repeat:
        raise TrialError(f"{NO_BOUND}, so that there are no prices to compare its outcomes with")
    history = _history(ledger)
    return retrace(
        settings.problem,
        history,
        solution=settings.solution,
        policy=settings.policy,
        relaxation=tables,
    )


def has_episode(settings: TrialSettings) -> bool:
    """Whether outcomes can be compared with prices."""
    return settings.solution is not None and not settings.problem.repeat


def _history(ledger: Ledger) -> History:
    history: History = []
    for slot in ledger.allocations.values():
        if slot.holds_slots and slot.told == slot.size:
            for part in slot.arms:
                kind = ledger.kinds[part.arm]
                history.append((ledger.position(part.arm), kind.format.sole(part.tally(kind))))
        elif slot.holds_slots and slot.size > 1:
            break
    return history


def loss_so_far(ledger: Ledger, decider: Decider) -> float | None:
    """Shortfall and congestion of the recorded outcomes; None where there is no episode."""
    if not has_episode(ledger.settings):
        return None
    episode = episode_of(ledger, decider)
    return float(episode.running_loss[-1]) if episode.stages else 0.0


# -- the state of a trial: counts, posterior, the next decision, and the bound ---------------------


@dataclass(frozen=True)
class Summary:
    """A trial in a list.

    Attributes
    ----------
    id : str
        Random.
    name : str
        Unique.
    policy : str
        Name of the policy.
    arms : int
        Number of arms.
    horizon : int
        Number of stages.
    allocated : int
        Slots in use.
    told : int
        Slots with an outcome.
    open : int
        Slots with a pending outcome.
    created_at : str
        ISO 8601, UTC.
    intact : bool
        False: the record was changed; nothing else is known.
    state : str
        running, closed or archived.
    open_since : str | None
        When the oldest pending allocation was made: ISO 8601, UTC.
    stale : bool
        Whether that is longer ago than `stale_after`.
    finished : bool
        Whether every slot has its outcome.
    stopped : str | None
        Why a look has stopped the trial: superiority, inferiority, futility or equivalence.

    Examples
    --------
    >>> from decobandit.trials import list_trials
    >>> found = list_trials(db=trial.store)[0]
    >>> found.intact, found.badge
    (True, 'running')
    """

    id: str
    name: str
    policy: str
    arms: int
    horizon: int
    allocated: int
    told: int
    open: int
    created_at: str
    intact: bool = True
    state: str = "running"
    open_since: str | None = None
    stale: bool = False
    finished: bool = False
    stopped: str | None = None

    @property
    def badge(self) -> str:
        """What lists mark it with: running, finished, stopped (by its rules), closed or archived
        (by people), damaged."""
        if not self.intact:
            return "damaged"
        if self.state == "archived":
            return self.state
        return "finished" if self.finished else "stopped" if self.stopped else self.state

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class ArmStatus:
    """What is known of an arm.

    Attributes
    ----------
    name : str
        Its name.
    good : int | None
        Good outcomes recorded; null where outcomes are not good or bad.
    bad : int | None
        Bad outcomes recorded.
    open : int
        Pending allocations.
    posterior_good : float | None
        Posterior pseudo-count of good outcomes.
    posterior_bad : float | None
        Posterior pseudo-count of bad outcomes.
    expected_reward : float | None
        Of the next pull; null where there is none.
    value_of_information : float | None
        Expected gain of later decisions from one more outcome.
    index : float | None
        By which the policy compares arms; for DeCo, the sum of the two.
    code : str
        What blinded people see instead of its name.
    seen : str | None
        What is on record of other outcomes than good or bad, as states are written.
    posterior : str | None
        What is known of such an arm.

    Examples
    --------
    >>> trial.status().arms[0].posterior_good
    1.0
    """

    name: str
    good: int | None
    bad: int | None
    open: int
    posterior_good: float | None
    posterior_bad: float | None
    expected_reward: float | None
    value_of_information: float | None
    index: float | None
    code: str
    seen: str | None = None
    posterior: str | None = None


@dataclass(frozen=True)
class Status(Standing):
    """A trial now. Slots are pulls; a stage has `pulls_per_stage` of them.

    Attributes
    ----------
    open : tuple[Allocation, ...]
        Allocations with a pending outcome.
    remaining : int
        Free slots.
    stage : int
        Stages completed by the slots in use.
    next_arm : str | None
        The arm that an ask would allocate now; null where a stage has several pulls.
    next_pulls : dict[str, int] | None
        Pulls by arm that an ask would allocate now.
    reason : str | None
        Why this arm, or these numbers.
    price : float | None
        Of a pull at this stage.
    arms : tuple[ArmStatus, ...]
        What is known of every arm.
    head : str
        Hash of the last event.
    limits : TrialLimits
        On pending and on cancelled allocations.
    by_rules : bool
        Whether the rules of the design chose or drew the next arm, not its index.

    Examples
    --------
    >>> status = trial.status()
    >>> status.stage, status.remaining, status.next_arm
    (0, 5, 'arm-1')
    """

    open: tuple[Allocation, ...]
    remaining: int
    stage: int
    next_arm: str | None
    next_pulls: dict[str, int] | None
    reason: str | None
    price: float | None
    arms: tuple[ArmStatus, ...]
    head: str
    limits: TrialLimits
    by_rules: bool

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do: every slot has its outcome, or a look stopped the trial
        and nothing is pending."""
        return self.finished or (self.stopped is not None and not self.pending)

    @property
    def pending(self) -> int:
        """Pulls without an outcome yet."""
        return sum(arm.open for arm in self.arms)


def summary_of(ledger: Ledger) -> Summary:
    waiting = sum(ledger.open)
    return Summary(
        ledger.trial,
        ledger.name,
        ledger.settings.policy,
        ledger.problem.n_arms,
        ledger.problem.horizon,
        ledger.used,
        ledger.told,
        waiting,
        ledger.created_at,
        state=ledger.state,
        open_since=next(iter(ledger.since.values()), None),
        finished=ledger.finished,
        stopped=_stopped(ledger),
    )


def _stopped(ledger: Ledger) -> str | None:
    """Why a look has stopped the trial; None, too, where its policy cannot be made here."""
    rules = ledger.settings.rules
    if rules is None or not rules.stop.any or not ledger.looks:
        return None
    try:
        return verdict_of(ledger, decider_of(ledger.settings).ruled).stopped
    except (TrialError, ValueError, ImportError):
        return None


def status_of(ledger: Ledger, decider: Decider) -> Status:
    problem, settings = ledger.problem, ledger.settings
    finished, verdict = ledger.finished, verdict_of(ledger, decider.ruled)
    decision = _next_decision(ledger, decider)
    names = [arm.name for arm in problem.arms]
    pulls = None
    if decision is not None:
        pulls = {name: n for name, n in zip(names, decision.pulls, strict=True) if n}
    keep = finished and problem.terminal is not None
    return Status(
        id=ledger.trial,
        name=ledger.name,
        policy=settings.policy,
        horizon=problem.horizon,
        pulls_per_stage=problem.pulls_per_stage,
        slots=ledger.slots,
        allocated=ledger.used,
        told=ledger.told,
        open=tuple(slot for slot in ledger.allocations.values() if slot.state == "open"),
        remaining=ledger.slots - ledger.used,
        stage=ledger.stage,
        finished=finished,
        next_arm=None if pulls is None else sole_arm(pulls),
        next_pulls=pulls,
        reason=None if decision is None else decision.reason,
        price=None if decision is None else decision.price,
        arms=_arms(ledger, decision),
        deployment=names[decider.deployment(ledger)] if keep else None,
        earned=earned(ledger),
        upper_bound=settings.upper_bound,
        **settings.best_bound_fields,
        bound_from_here=bound_from_here(ledger, decider),
        loss_so_far=loss_so_far(ledger, decider),
        rules=settings.plain_rules,
        stopped=verdict.stopped,
        dropped=verdict.dropped,
        created_at=ledger.created_at,
        version=__version__,
        seed=settings.seed,
        head=ledger.head,
        state=ledger.state,
        limits=ledger.limits,
        cancelled=ledger.cancelled,
        cancellations=counted(ledger.cancellations),
        by_rules=decision is not None and decision.by_rules,
    )


def _next_decision(ledger: Ledger, decider: Decider) -> Decision | None:
    if ledger.used >= ledger.slots or ledger.state != "running":
        return None
    try:
        return decider.decide(ledger)
    except Conflict:  # stopped by its rules, or too many outcomes are pending
        return None


def _arms(ledger: Ledger, decision: Decision | None) -> tuple[ArmStatus, ...]:
    def term(name: str, k: int) -> float | None:
        values: tuple[float, ...] | None = getattr(decision, name, None)
        return None if values is None else values[k]

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


# -- what lists show of a trial, kept beside its head: a list need not read the events -------------


_COMPUTED = frozenset({"intact", "stale"})  # when a list is made
_KEYS = frozenset(field.name for field in fields(Summary)) - _COMPUTED | {"head"}


def kept_summary(ledger: Ledger) -> str:
    """The summary of a trial as it is kept: its checksum and one line of JSON."""
    tree = {key: value for key, value in summary_of(ledger).to_dict().items() if key in _KEYS}
    line = canonical(tree | {"head": ledger.head})
    return f"{digest(line)} {line}"


def is_forged(kept: str | None, ledger: Ledger) -> bool:
    """Whether what is kept is not the summary of a ledger; an outdated form is not used."""
    if kept is None or kept == kept_summary(ledger):
        return False
    try:
        return set(json.loads(str(kept).partition(" ")[2])) == _KEYS
    except (ValueError, TypeError, RecursionError):
        return True


def summary_from(row: Row[Any]) -> Summary | None:
    """The summary of a row of trials with its last event; None where it does not fit the head."""
    if not all(isinstance(text, str) for text in (row.summary, row.last_body, row.last_hash)):
        return None
    checksum, _, line = row.summary.partition(" ")
    if digest(line) != checksum or not digest(row.last_body) == row.last_hash == row.head_hash:
        return None
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or set(tree) != _KEYS:  # kept by another version
        return None
    head = tree.pop("head")
    summary = Summary(**tree)
    fits = (head, summary.id, summary.name, summary.created_at)
    return summary if fits == (row.head_hash, row.id, row.name, row.created_at) else None
