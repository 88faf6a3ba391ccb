"""What is on record of arms with other outcomes than good or bad."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..problem import ArmModel, Outcome, Problem, Seen, Stats
from .allocations import Allocation
from .batches import Batch


class EarlierPending(ValueError):
    """Outcomes of an arm whose order matters are recorded in that of its allocations."""


def kinds_of(problem: Problem) -> list[ArmModel]:
    """The kind of every arm."""
    return [problem.groups[k].model for k in problem.group_of_arm]


def kinds_by_name(problem: Problem) -> dict[str, ArmModel]:
    """The same by the names of the arms."""
    return dict(zip((arm.name for arm in problem.arms), kinds_of(problem), strict=True))


def outcomes_of(
    arm: str, allocations: Iterable[Allocation], left_out: Collection[Allocation] = ()
) -> list[Outcome]:
    """Recorded outcomes of an arm, in the order of its allocations."""
    return [
        slot.outcome
        for slot in allocations
        if slot.arm == arm and slot.outcome is not None and slot not in left_out
    ]


def seen(
    problem: Problem,
    allocations: Collection[Allocation],
    batches: Collection[Batch],
    left_out: Collection[Allocation] = (),
) -> tuple[Seen | None, ...]:
    """What follows from the recorded outcomes, of every arm; () where all are good or bad."""
    if problem.is_binary:
        return ()
    found: list[Seen | None] = []
    for k, (arm, kind) in enumerate(zip(problem.arms, kinds_of(problem), strict=True)):
        if kind.counts_good:
            found.append(None)
        else:
            known = kind.known(outcomes_of(arm.name, allocations, left_out))
            for batch in batches:
                known = kind.after_tally(known, batch.arms[k].tally(kind))
            found.append(Seen.of(kind, known))
    return tuple(found)


def tallies(
    kind: ArmModel, k: int, batches: Iterable[Batch]
) -> Iterator[tuple[Batch, Stats, Stats]]:
    """Of the arm at a position: batches, what was known of it before, and the tally of each."""
    known = kind.initial()
    for batch in batches:
        tally = batch.arms[k].tally(kind)
        yield batch, known, tally
        known = kind.after_tally(known, tally)


def check_batch_order(problem: Problem, batches: Collection[Batch]) -> None:
    """A ValueError where outcomes of an arm whose order matters are not those of its pulls."""
    for k, kind in enumerate(kinds_of(problem)):
        if not kind.ordered:
            continue
        waits = False
        for batch, _, tally in tallies(kind, k, batches):
            if waits and tally:
                raise EarlierPending(
                    "an earlier batch has pending outcomes of this arm; record those first"
                )
            waits = waits or batch.arms[k].pending > 0


def check_order(
    kind: ArmModel, allocations: Iterable[Allocation], slot: Allocation, outcome: Outcome
) -> None:
    """A ValueError where an outcome cannot be one of the arm in the state that it was in.

    Where the order of outcomes matters, they are recorded in that of the arm's allocations.
    """
    if not kind.ordered:
        return
    outcomes, reached = list[Outcome](), False
    for each in allocations:
        if each.arm != slot.arm or each.state == "cancelled":
            continue
        reached = reached or each.id == slot.id
        if each.id == slot.id:
            outcomes.append(outcome)
        elif each.outcome is not None:
            outcomes.append(each.outcome)
        elif not reached:
            raise EarlierPending(
                "an earlier allocation of this arm is pending; record that one first"
            )
    kind.known(outcomes)


def written(others: tuple[Seen | None, ...]) -> list[str | None]:
    """As decisions keep it: as text, and nothing of arms with good and bad outcomes."""
    return [None if each is None else each.text for each in others]
