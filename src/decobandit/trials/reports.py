"""How a trial stands: for people, for other programs, and for an auditor."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import paths
from .._version import __version__
from .books import now
from .decisions import Decision
from .desks import Desk, situation_of
from .errors import Conflict
from .events import Event
from .ledger import Allocation, Ledger
from .verification import EXPORT_FORMAT


@dataclass(frozen=True)
class Summary:
    """One line of a list of trials."""

    id: str
    name: str
    policy: str
    arms: int
    horizon: int
    allocated: int
    told: int
    open: int
    created_at: str
    intact: bool = True  # False: what is on record was changed, and nothing else is known

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ArmStatus:
    """One arm: what was told, what is believed, what a pull of it is worth now."""

    name: str
    good: int
    bad: int
    open: int
    posterior_good: float
    posterior_bad: float
    expected_reward: float | None  # of the next pull; None when there is none
    value_of_information: float | None
    index: float | None


@dataclass(frozen=True)
class Status:
    """The trial now. Slots are pulls; a stage has `pulls_per_stage` of them."""

    trial: str
    name: str
    policy: str
    horizon: int
    pulls_per_stage: int
    slots: int
    allocated: int  # slots in use: open or told
    told: int
    open: tuple[Allocation, ...]
    remaining: int  # free slots
    stage: int
    finished: bool  # every slot is told
    next_arm: str | None  # what an ask would give now
    reason: str | None
    price: float | None
    arms: tuple[ArmStatus, ...]
    deployment: str | None  # the arm to keep, at the end of a problem that deploys one
    earned: float
    upper_bound: float  # on the expected reward of any policy, at the start
    bound_from_here: float  # on what any policy can expect of the stages that are left
    loss_so_far: float  # shortfall and congestion that can be read off the told outcomes
    created_at: str
    version: str
    seed: int
    head: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def summary_of(ledger: Ledger) -> Summary:
    waiting = sum(ledger.open)
    return Summary(
        ledger.trial, ledger.name, ledger.plan.policy, ledger.problem.number_of_arms,
        ledger.problem.horizon, ledger.used, ledger.used - waiting, waiting, ledger.created_at,
    )  # fmt: skip


def status_of(ledger: Ledger, desk: Desk) -> Status:
    problem, plan = ledger.problem, ledger.plan
    told = ledger.used - sum(ledger.open)
    finished = told == ledger.slots
    decision = _next_decision(ledger, desk)
    keep = finished and problem.terminal is not None
    return Status(
        trial=ledger.trial,
        name=ledger.name,
        policy=plan.policy,
        horizon=problem.horizon,
        pulls_per_stage=problem.pulls_per_stage,
        slots=ledger.slots,
        allocated=ledger.used,
        told=told,
        open=tuple(slot for slot in ledger.allocations.values() if slot.state == "open"),
        remaining=ledger.slots - ledger.used,
        stage=ledger.stage,
        finished=finished,
        next_arm=None if decision is None else problem.arms[decision.arm].name,
        reason=None if decision is None else decision.reason,
        price=None if decision is None else decision.price,
        arms=_arms(ledger, decision),
        deployment=problem.arms[desk.deployment(ledger)].name if keep else None,
        earned=_earned(ledger),
        upper_bound=plan.solution.upper_bound,
        bound_from_here=bound_from_here(ledger, desk),
        loss_so_far=_loss(ledger, desk),
        created_at=ledger.created_at,
        version=__version__,
        seed=plan.seed,
        head=ledger.head,
    )


def _next_decision(ledger: Ledger, desk: Desk) -> Decision | None:
    if ledger.used >= ledger.slots:
        return None
    try:
        return desk.decide(ledger)
    except Conflict:  # several pulls per stage, and no arm that may be pulled again in this one
        return None


def _arms(ledger: Ledger, decision: Decision | None) -> tuple[ArmStatus, ...]:
    def term(name: str, k: int) -> float | None:
        values: tuple[float, ...] | None = getattr(decision, name, None)
        return None if values is None else values[k]

    return tuple(
        ArmStatus(
            name=arm.name,
            good=ledger.good[k],
            bad=ledger.bad[k],
            open=ledger.open[k],
            posterior_good=arm.prior.good + ledger.good[k],
            posterior_bad=arm.prior.bad + ledger.bad[k],
            expected_reward=term("expected_reward", k),
            value_of_information=term("value_of_information", k),
            index=term("index", k),
        )
        for k, arm in enumerate(ledger.problem.arms)
    )


def _earned(ledger: Ledger) -> float:
    groups, of_arm = ledger.problem.groups, ledger.problem.group_of_arm
    total = 0.0
    for slot in ledger.allocations.values():
        if slot.state == "told":
            group = groups[of_arm[ledger.position(slot.arm)]]
            rewards = group.reward_good if slot.outcome else group.reward_bad
            total += float(rewards[slot.stage])
    return total


def bound_from_here(ledger: Ledger, desk: Desk) -> float:
    """The dual function from the stage under way on, at the plan's prices; at the end, exact.

    Open outcomes are averaged: knowing them at once could only raise what can be earned.
    """
    situation, problem = situation_of(ledger), ledger.problem
    if situation.stage == problem.horizon and not sum(situation.open):
        return desk.value_of_deployment(situation)
    later = slice(situation.stage, None)
    prices = float(problem.pulls[later] @ desk.plan.solution.prices[later])
    return prices + desk.value_of_arms(situation)


def path_of(ledger: Ledger, desk: Desk) -> paths.Path:
    """The told outcomes in the order of their asks.

    With one pull per stage, slots that are open are left out and later ones move up. With several,
    the path ends before the first stage that is not told, or has an arm twice after cancellations.
    """
    m = ledger.problem.pulls_per_stage
    slots = ledger.in_use()
    if m == 1:
        told = [slot for slot in slots if slot.state == "told"]
    else:
        told = []
        for start in range(0, len(slots) - m + 1, m):
            stage = slots[start : start + m]
            arms = {slot.arm for slot in stage}
            if len(arms) < m or any(slot.state != "told" for slot in stage):
                break
            told += stage
    history = [(ledger.position(slot.arm), slot.outcome) for slot in told]
    policy = ledger.plan.policy
    return paths.retrace(ledger.plan.solution, history, policy=policy, relaxation=desk.nearby)


def _loss(ledger: Ledger, desk: Desk) -> float:
    path = path_of(ledger, desk)
    return float(path.running_loss[-1]) if path.stages else 0.0


def exported(
    status: Status, events: Sequence[Event], allocations: Sequence[Allocation]
) -> dict[str, Any]:
    """The whole trial; each event with its body, byte for byte, so that its hash can be checked."""
    return {
        "format": EXPORT_FORMAT,
        "trial": status.trial,
        "name": status.name,
        "version": __version__,
        "exported_at": now(),
        "head": events[-1].hash,
        "status": status.to_dict(),
        "allocations": [slot.to_dict() for slot in allocations],
        "events": [event.to_dict() | {"body": event.body} for event in events],
    }


def outcomes_csv(events: Sequence[Event]) -> str:
    """One row per allocation, for a statistician: when it was asked and told, and what came."""
    rows: dict[str, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if event.kind == "asked":
            rows[data["allocation"]] = {
                "number": data["number"] + 1, "allocation": data["allocation"],
                "stage": data["decision"]["stage"], "arm": data["arm"], "state": "open",
                "outcome": "", "asked_at": event.at, "told_at": "",
            }  # fmt: skip
        elif event.kind in ("told", "corrected"):
            update = {"state": "told", "outcome": data["outcome"], "told_at": event.at}
            rows[data["allocation"]].update(update)
        elif event.kind == "cancelled":
            rows[data["allocation"]]["state"] = "cancelled"
    columns = ("number", "allocation", "stage", "arm", "state", "outcome", "asked_at", "told_at")
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.values())
    return text.getvalue()
