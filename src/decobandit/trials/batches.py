"""Batches: the pulls of a whole stage, allotted at once as a number for every arm.

Outcomes of a batch are recorded as counts, in one or several requests, which add up. Of every arm

    pulls = good + bad + pending + cancelled

and the pulls of all arms are those of the stage. What is left of a batch can be cancelled: if no
outcome was recorded, the stage is free again; otherwise those pulls are lost, and the stage stays
used, because the batch has gone by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..problem import Problem

BatchState = Literal["open", "told", "cancelled"]
Counts = tuple[tuple[str, int, int], ...]  # arm, good outcomes, outcomes; each arm once


@dataclass(frozen=True)
class BatchArm:
    """What one arm has of a batch.

    Attributes
    ----------
    arm : str
        Name of the arm.
    pulls : int
        Pulls allotted to it.
    share : float
        The same as a proportion of the batch.
    good : int
        Good outcomes recorded.
    bad : int
        Bad outcomes recorded.
    pending : int
        Pulls without an outcome yet.
    cancelled : int
        Pulls that will have none.

    Examples
    --------
    >>> trial.ask_batch().arms[0]
    BatchArm(arm='arm-1', pulls=1, share=1.0, good=0, bad=0, pending=1, cancelled=0)
    """

    arm: str
    pulls: int
    share: float
    good: int
    bad: int
    pending: int
    cancelled: int

    @property
    def told(self) -> int:
        """Outcomes recorded."""
        return self.good + self.bad


@dataclass(frozen=True)
class Batch:
    """The pulls of a stage, allotted at once.

    Attributes
    ----------
    id : str
        Random.
    stage : int
        From 0.
    reason : str
        Why these numbers.
    state : BatchState
        open: outcomes are pending; told: all that were not cancelled are recorded; cancelled: all
        were cancelled, and the stage is free again.
    pulls : int
        Of all arms.
    told : int
        Outcomes recorded.
    pending : int
        Pulls without an outcome yet.
    arms : tuple[BatchArm, ...]
        What every arm has of it, in the order of the problem.
    subject : str | None
        Who or what the batch is for, where the ask named it.
    note : str | None
        What was noted with the ask.
    change_reason : str | None
        Why the rest was cancelled, or outcomes were corrected last.

    Examples
    --------
    >>> batch = trial.ask_batch()
    >>> trial.tell_batch(batch.id, {"arm-1": (1, 1)}).state
    'told'
    """

    id: str
    stage: int
    reason: str
    state: BatchState
    pulls: int
    told: int
    pending: int
    arms: tuple[BatchArm, ...]
    subject: str | None = None
    note: str | None = None
    change_reason: str | None = None

    @property
    def holds_slots(self) -> bool:
        """Whether the stage is used by it."""
        return self.state != "cancelled"

    def arm(self, name: str) -> BatchArm:
        """What an arm has of it; a LookupError if there is no such arm."""
        found = next((one for one in self.arms if one.arm == name), None)
        if found is None:
            raise LookupError(f"no arm is called {name!r}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


# -- how a batch changes: a ValueError where it cannot ------------------------------------------


def new_batch(made: str, problem: Problem, stage: int, data: Mapping[str, Any]) -> Batch:
    """The batch of an event that allotted it."""
    counts = data["counts"]
    names = [arm.name for arm in problem.arms]
    if set(counts) != set(names):
        raise ValueError("a batch has a number for every arm")
    own = [counts[name] for name in names]
    most, unit = (problem.pulls_per_stage, problem.unit) if problem.repeat else (1, 1)
    if any(type(n) is not int or not 0 <= n <= most or n % unit for n in own):
        raise ValueError("an arm cannot have so many pulls of a batch")
    total = sum(own)
    if total != problem.pulls_per_stage:
        raise ValueError("a batch has all pulls of a stage")
    arms = tuple(
        BatchArm(name, n, n / total, 0, 0, n, 0) for name, n in zip(names, own, strict=True)
    )
    about = {key: data.get(key) for key in ("subject", "note")}
    return Batch(made, stage, data["reason"], "open", total, 0, total, arms, **about)


def with_outcomes(batch: Batch, counts: Counts) -> Batch:
    """More outcomes were recorded: they add up."""
    own = {arm: (batch.arm(arm), good, pulls) for arm, good, pulls in counts}
    for arm, (before, _, pulls) in own.items():
        if pulls > before.pending:
            raise ValueError(too_many(arm, pulls, before.pending))
    return _with(
        batch,
        {
            arm: replace(
                before, good=before.good + good, bad=before.bad + pulls - good,
                pending=before.pending - pulls,
            )
            for arm, (before, good, pulls) in own.items()
        },
    )  # fmt: skip


def with_corrected(batch: Batch, counts: Counts, reason: str | None) -> Batch:
    """The recorded outcomes of some arms were replaced."""
    changed = {}
    for arm, good, pulls in counts:
        before = batch.arm(arm)
        if not before.told:
            raise ValueError(f"{arm} has no outcome to correct; tell it")
        most = before.told + before.pending
        if pulls > most:
            raise ValueError(too_many(arm, pulls, most))
        changed[arm] = replace(before, good=good, bad=pulls - good, pending=most - pulls)
    return replace(_with(batch, changed), change_reason=reason)


def with_rest_cancelled(batch: Batch, reason: str | None) -> Batch:
    """What is pending was cancelled."""
    if not batch.pending:
        raise ValueError("no outcome of the batch is pending")
    gone = {
        one.arm: replace(one, pending=0, cancelled=one.cancelled + one.pending)
        for one in batch.arms
    }
    return replace(_with(batch, gone), change_reason=reason)


def batch_moved(batch: Batch, kind: str, counts: Counts, reason: str | None) -> Batch:
    """The batch after an event of a kind; a ValueError where that event is not allowed."""
    if batch.state == "cancelled":
        raise ValueError("the batch was cancelled")
    if kind == "batch_cancelled":
        return with_rest_cancelled(batch, reason)
    if not counts:
        raise ValueError("there are no counts")
    if kind == "batch_told":
        return with_outcomes(batch, counts)
    return with_corrected(batch, counts, reason)


def too_many(arm: str, given: int, most: int) -> str:
    """Why counts are refused."""
    return f"{arm}: {given} outcomes, where the batch has {most} to record"


def _with(batch: Batch, changed: Mapping[str, BatchArm]) -> Batch:
    arms = tuple(changed.get(one.arm, one) for one in batch.arms)
    told, pending = sum(one.told for one in arms), sum(one.pending for one in arms)
    state: BatchState = "open" if pending else "told" if told else "cancelled"
    return replace(batch, arms=arms, told=told, pending=pending, state=state)


# -- counts in events ---------------------------------------------------------------------------


def counts_tree(counts: Counts) -> dict[str, list[int]]:
    """As events have them: good outcomes and outcomes of every arm that is named."""
    return {arm: [good, pulls] for arm, good, pulls in counts}


def counts_from(tree: Mapping[str, Any]) -> Counts:
    """Read what `counts_tree` wrote; a ValueError where it cannot be that."""
    found = []
    for arm, (good, pulls) in sorted(tree.items()):
        whole = type(good) is int and type(pulls) is int
        if not whole or not 0 <= good <= pulls or not pulls:
            raise ValueError("counts are good outcomes and outcomes, one at least")
        found.append((str(arm), good, pulls))
    if not found:
        raise ValueError("counts name an arm at least")
    return tuple(found)
