"""Batches: the pulls of a whole stage, allotted at once as a number for every arm.

Outcomes of a batch are recorded as tallies, in one or several requests, which add up: counts of
good ones and of all; of arms with other outcomes counts of classes, their number and sum, own ones
in their order (`ArmModel.read_tally`). Of every arm

    pulls = recorded + pending + cancelled

and the pulls of all arms are those of the stage. What is left of a batch can be cancelled: if no
outcome was recorded, the stage is free again; otherwise those pulls are lost, and the stage stays
used, because the batch has gone by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..problem import ArmModel, Problem, Stats
from .told import Counts, tally_of, told_of

BatchState = Literal["open", "told", "cancelled"]
Kinds = Mapping[str, ArmModel]  # of every arm by its name, in the order of the problem


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
    good : int | None
        Good outcomes recorded; null where outcomes are not good or bad.
    bad : int | None
        Bad outcomes recorded.
    pending : int
        Pulls without an outcome yet.
    cancelled : int
        Pulls that will have none.
    seen : str | None
        Other outcomes than good or bad that were recorded, as `tell_batch` takes them.

    Examples
    --------
    >>> trial.ask_batch().arms[0]
    BatchArm(arm='arm-1', pulls=1, share=1.0, good=0, bad=0, pending=1, cancelled=0, seen=None)
    """

    arm: str
    pulls: int
    share: float
    good: int | None
    bad: int | None
    pending: int
    cancelled: int
    seen: str | None = None

    @property
    def told(self) -> int:
        """Outcomes recorded."""
        return self.pulls - self.pending - self.cancelled

    def tally(self, kind: ArmModel) -> Stats:
        """What was recorded, as the kind of the arm has it."""
        if self.seen is None:
            return (self.good or 0, self.bad or 0)
        return kind.read_tally(self.seen)

    def recorded(self, kind: ArmModel, tally: Stats) -> BatchArm:
        """The same with these outcomes on record; those that are left are pending."""
        pending = self.pulls - self.cancelled - kind.tally_pulls(tally)
        if kind.counts_good:
            good, bad = map(int, tally)
            return replace(self, good=good, bad=bad, pending=pending)
        return replace(self, seen=kind.write_tally(tally), pending=pending)


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


def new_batch(
    made: str, problem: Problem, kinds: Kinds, stage: int, data: Mapping[str, Any]
) -> Batch:
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
        BatchArm(name, n, n / total, None, None, n, 0).recorded(kind, kind.no_tally)
        for (name, kind), n in zip(kinds.items(), own, strict=True)
    )
    about = {key: data.get(key) for key in ("subject", "note")}
    return Batch(made, stage, data["reason"], "open", total, 0, total, arms, **about)


def with_outcomes(batch: Batch, counts: Counts, kinds: Kinds) -> Batch:
    """More outcomes were recorded: they add up."""
    changed = {}
    for arm, told in counts:
        before, kind = batch.arm(arm), kinds[arm]
        more = tally_of(kind, told)
        if (pulls := kind.tally_pulls(more)) > before.pending:
            raise ValueError(too_many(arm, pulls, before.pending))
        both = kind.joined(before.tally(kind), more)
        told_of(kind, both)  # refuses a sum that is too large
        changed[arm] = before.recorded(kind, both)
    return _with(batch, changed)


def with_corrected(batch: Batch, counts: Counts, kinds: Kinds, reason: str | None) -> Batch:
    """The recorded outcomes of some arms were replaced."""
    changed = {}
    for arm, told in counts:
        before, kind = batch.arm(arm), kinds[arm]
        if not before.told:
            raise ValueError(f"{arm} has no outcome to correct; tell it")
        tally, most = tally_of(kind, told), before.told + before.pending
        if (pulls := kind.tally_pulls(tally)) > most:
            raise ValueError(too_many(arm, pulls, most))
        changed[arm] = before.recorded(kind, tally)
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


def batch_moved(batch: Batch, kind: str, counts: Counts, kinds: Kinds, reason: str | None) -> Batch:
    """The batch after an event of a kind; a ValueError where that event is not allowed."""
    if batch.state == "cancelled":
        raise ValueError("the batch was cancelled")
    if kind == "batch_cancelled":
        return with_rest_cancelled(batch, reason)
    if not counts:
        raise ValueError("there are no counts")
    if kind == "batch_told":
        return with_outcomes(batch, counts, kinds)
    return with_corrected(batch, counts, kinds, reason)


def too_many(arm: str, given: int, most: int) -> str:
    """Why counts are refused."""
    return f"{arm}: {given} outcomes, where the batch has {most} to record"


def _with(batch: Batch, changed: Mapping[str, BatchArm]) -> Batch:
    arms = tuple(changed.get(one.arm, one) for one in batch.arms)
    told, pending = sum(one.told for one in arms), sum(one.pending for one in arms)
    state: BatchState = "open" if pending else "told" if told else "cancelled"
    return replace(batch, arms=arms, told=told, pending=pending, state=state)
