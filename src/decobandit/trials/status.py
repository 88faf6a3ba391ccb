"""The state of a trial: counts, posterior, the next decision, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..policies import known_of_arm
from .allocations import Allocation, sole_arm
from .decider import Decider, decider_of
from .decisions import Decision
from .errors import Conflict, TrialError
from .ledger import Ledger
from .limits import TrialLimits
from .performance import bound_from_here, earned, loss_so_far
from .requests import counted
from .standing import Standing
from .verdicts import verdict_of


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
        ledger.trial, ledger.name, ledger.settings.policy, ledger.problem.n_arms,
        ledger.problem.horizon, ledger.used, ledger.told, waiting, ledger.created_at,
        state=ledger.state, open_since=next(iter(ledger.since.values()), None),
        finished=ledger.finished, stopped=_stopped(ledger),
    )  # fmt: skip


def _stopped(ledger: Ledger) -> str | None:
    """Why a look has stopped the trial; None, too, where its policy cannot be made here."""
    rules = ledger.settings.rules
    if rules is None or not rules.stop.any or not ledger.looks:
        return None
    try:
        return verdict_of(ledger, decider_of(ledger.settings)).stopped
    except (TrialError, ValueError, ImportError):
        return None


def status_of(ledger: Ledger, decider: Decider) -> Status:
    problem, settings = ledger.problem, ledger.settings
    finished, verdict = ledger.finished, verdict_of(ledger, decider)
    decision = _next_decision(ledger, decider)
    names = [arm.name for arm in problem.arms]
    pulls = None
    if decision is not None:
        pulls = {name: n for name, n in zip(names, decision.pulls, strict=True) if n}
    keep = finished and problem.terminal is not None
    return Status(
        id=ledger.trial, name=ledger.name, policy=settings.policy, horizon=problem.horizon,
        pulls_per_stage=problem.pulls_per_stage,
        slots=ledger.slots, allocated=ledger.used, told=ledger.told,
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
        upper_bound=settings.upper_bound, **settings.best_bound_fields,
        bound_from_here=bound_from_here(ledger, decider),
        loss_so_far=loss_so_far(ledger, decider),
        rules=settings.plain_rules, stopped=verdict.stopped, dropped=verdict.dropped,
        created_at=ledger.created_at, version=__version__, seed=settings.seed, head=ledger.head,
        state=ledger.state, limits=ledger.limits, cancelled=ledger.cancelled,
        cancellations=counted(ledger.cancellations),
        by_rules=decision is not None and decision.by_rules,
    )  # fmt: skip


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
