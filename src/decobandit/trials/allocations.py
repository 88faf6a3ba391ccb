"""Allocations: the pulls of a stage, allocated together, and how their outcomes are recorded.

Of every arm: pulls = recorded + pending + cancelled. Tallies: `ArmModel.format`, `Told`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np

from ..problem import LARGEST_SUM, ArmModel, MarkovModel, Outcome, Problem, Stats
from ..support import InvalidArgument
from ..support.frames import Shown
from ..support.records import doc, record_class
from .errors import BadOutcome, Contradiction

AllocationState = Literal["open", "told", "cancelled"]
Kinds = Mapping[str, ArmModel]  # of every arm by its name, in the order of the problem
Told = tuple[int, int] | str
Counts = tuple[tuple[str, Told], ...]  # arm, and its tally; each arm once


@record_class()
class ArmPulls:
    """Pulls of one arm in an allocation."""

    arm: str = doc("Name of the arm.")
    pulls: int = doc("Pulls allocated to it.")
    good: int | None = doc("Good outcomes recorded; null where outcomes are not good or bad.")
    bad: int | None = doc("Bad outcomes recorded.")
    pending: int = doc("Pulls without an outcome yet.")
    cancelled: int = doc("Cancelled pulls.", default=0)
    seen: str | None = doc("Recorded non-binary outcomes, in the form of `tell`.", default=None)

    @property
    def told(self) -> int:
        """Number of recorded outcomes."""
        return self.pulls - self.pending - self.cancelled

    @property
    def observed(self) -> bool:
        """Whether there is an outcome, or a state after a rest."""
        return self.told > 0 or (self.pulls == 0 and bool(self.seen))

    def tally(self, kind: ArmModel) -> Stats:
        """Return the recorded outcomes in the form of the arm's model."""
        if self.seen is None:
            return (self.good or 0, self.bad or 0)
        return kind.format.read_tally(self.seen)

    def recorded(self, kind: ArmModel, tally: Stats) -> ArmPulls:
        """Return the part with these outcomes recorded; the rest is pending."""
        number = kind.format.tally_pulls(tally) if self.pulls else 0
        pending = self.pulls - self.cancelled - number
        if kind.counts_good:
            good, bad = map(int, tally)
            return replace(self, good=good, bad=bad, pending=pending)
        return replace(self, seen=kind.format.write_tally(tally), pending=pending)


@record_class()
class Allocation(Shown):
    """Pulls of one stage, allocated together."""

    id: str = doc("Random id.")
    arm: str | None = doc("Name of the arm of a single pull; null where there are several pulls.")
    stage: int = doc("From 0; counted by segment, where there are some.")
    reason: str = doc("Why this arm, or these numbers.")
    state: AllocationState = doc(
        "open: outcomes are pending; told: all that were not cancelled are recorded, or the stage "
        "has no pull, within a budget; cancelled: all were cancelled, and the slots are free "
        "again.",
        default="open",
    )
    outcome: Outcome | None = doc(
        "Of a single pull: 1 is good, 0 is bad; the number of a class, a number, a count, the "
        "name of an outcome, as the arm has them; null while it is pending.",
        default=None,
    )
    subject: str | None = doc("Subject of the allocation, if `ask` named one.", default=None)
    note: str | None = doc("Note of the ask.", default=None)
    change_reason: str | None = doc("Why it was cancelled, or corrected last.", default=None)
    pulls: dict[str, int] = doc("Pulls by arm, in the order of the problem.", default_factory=dict)
    told: int = doc("Outcomes recorded.", default=0)
    pending: int = doc("Pulls without an outcome yet.", default=0)
    arms: tuple[ArmPulls, ...] = doc(
        "Pulls of every arm with some, in the order of the problem; of all arms where these move "
        "at rest: `seen` is then the state after the stage.",
        default=(),
    )
    segment: str | None = doc("Segment that the ask named; null without segments.", default=None)
    probability: float | None = doc(
        "Probability with which the policy chose the arm of a single pull; 1 where it does not "
        "draw, null where it was not computed.",
        default=None,
    )

    @property
    def size(self) -> int:
        """Pulls of all arms."""
        return sum(self.pulls.values())

    @property
    def holds_slots(self) -> bool:
        """Whether its slots are in use."""
        return self.state != "cancelled"

    def part(self, arm: str) -> ArmPulls | None:
        """Return the pulls of one arm in this allocation; None if it has none."""
        return next((part for part in self.arms if part.arm == arm), None)

    @property
    def has_states(self) -> bool:
        """Whether states of resting arms belong to it."""
        return any(not part.pulls for part in self.arms)

    def needs_counts(self) -> BadOutcome:
        """Return the refusal of a single outcome, or of outcomes of some arms, for several."""
        if self.has_states:
            rule = (
                f"arms move at rest: give the states of all {len(self.arms)} arms after the stage"
            )
        else:
            rule = f"the allocation has {self.size} pulls: give their outcomes by arm"
        return BadOutcome(rule, field="outcome")

    def to_dict(self) -> dict[str, Any]:
        """Return the allocation as JSON values."""
        tree = asdict(self)
        return tree | {"arms": list(tree["arms"])}


def new_allocation(
    slot_id: str, problem: Problem, kinds: Kinds, stage: int, data: Mapping[str, Any]
) -> Allocation:
    """Return the allocation of the event of an ask."""
    pulls = {name: data["pulls"][name] for name in kinds if name in data["pulls"]}
    most, unit = problem.most_per_stage, problem.unit
    if len(pulls) != len(data["pulls"]):
        raise InvalidArgument("there are pulls of an unknown arm")
    if any(type(n) is not int or not 0 < n <= most or n % unit for n in pulls.values()):
        raise InvalidArgument("an arm has more pulls than a stage allows")
    missing = problem.pulls_per_stage - sum(pulls.values())
    if missing < 0 or (missing and problem.budget is None):
        raise InvalidArgument("an allocation has all pulls of a stage")
    if data["arm"] != sole_arm(problem, pulls):
        raise InvalidArgument("the arm is not the one that is pulled")
    shown = [name for name, kind in kinds.items() if kind.rests_observed or name in pulls]
    parts = tuple(
        ArmPulls(name, pulls.get(name, 0), None, None, pulls.get(name, 0)).recorded(
            kinds[name], kinds[name].format.no_tally
        )
        for name in shown
    )
    return Allocation(
        slot_id,
        data["arm"],
        stage,
        data["reason"],
        state="open" if pulls else "told",
        subject=data.get("subject"),
        note=data.get("note"),
        pulls=pulls,
        pending=sum(pulls.values()),
        arms=parts,
        segment=data.get("segment"),
        probability=data["decision"].get("probability"),
    )


def sole_arm(problem: Problem, pulls: Mapping[str, int]) -> str | None:
    """Return the arm of a single pull; None if there are several, or all arms have outcomes."""
    states = any(group.model.rests_observed for group in problem.groups)
    several = states or sum(pulls.values()) != 1
    return None if several else next(iter(pulls))


def told_counts(slot: Allocation, kinds: Kinds, data: Mapping[str, Any]) -> Counts:
    """Return the tallies of an event or request: its counts, or the outcome of a single pull."""
    if data.get("outcome") is None:
        return counts_from(data["counts"])
    if slot.arm is None:
        raise slot.needs_counts()
    kind, outcome = kinds[slot.arm], data["outcome"]
    if kind.format.plain(outcome) != outcome or isinstance(outcome, bool):
        raise InvalidArgument("not an outcome as logs have it")
    return ((slot.arm, told_of(kind, kind.format.tally([outcome]))),)


def changed(
    slot: Allocation, event: str, counts: Counts, kinds: Kinds, why: str | None
) -> Allocation:
    """Return the allocation after an event; `Contradiction` if it is not allowed."""
    if slot.state == "cancelled":
        raise Contradiction("the allocation was cancelled")
    if event == "cancelled":
        if not slot.pending:
            raise Contradiction("no outcome of the allocation is pending; it cannot be cancelled")
        parts = {
            part.arm: replace(part, pending=0, cancelled=part.cancelled + part.pending)
            for part in slot.arms
        }
        return replace(_with(slot, parts), change_reason=why)
    tallies = {arm: tally_of(kinds[arm], tally) for arm, tally in counts}
    if any(kind.rests_observed for kind in kinds.values()):
        if any(kinds[arm].format.tally_pulls(tally) != 1 for arm, tally in tallies.items()):
            raise BadOutcome("give one state of every arm, that after the stage", field="outcome")
        if (
            event == "told"
            and slot.pending
            and not {part.arm for part in slot.arms} <= set(tallies)
        ):
            raise slot.needs_counts()
    parts = {}
    for arm, tally in tallies.items():
        before, kind = slot.part(arm) or ArmPulls(arm, 0, 0, 0, 0), kinds[arm]
        now = kind.format.joined(before.tally(kind), tally) if event == "told" else tally
        told_of(kind, now)  # refuses a sum that is too large
        parts[arm] = before.recorded(kind, now)
    _check_counts(slot, event, parts)
    later = _with(slot, parts, kinds)
    return replace(later, change_reason=why) if event == "corrected" else later


def _check_counts(slot: Allocation, event: str, parts: Mapping[str, ArmPulls]) -> None:
    """Refuse more outcomes than pulls, and corrections without an outcome."""
    recorded = {part.arm for part in slot.arms if part.observed}
    untold = [arm for arm in parts if arm not in recorded]
    if event == "corrected" and untold:
        raise Contradiction("no outcome to correct in this allocation; tell it", *untold)
    full = [arm for arm, part in parts.items() if part.pending < 0 or slot.part(arm) is None]
    if event == "told" and slot.has_states and not slot.pending:
        full = list(parts)
    if full and slot.arm in full:
        raise Contradiction("another outcome is recorded; an administrator can correct it")
    if full:
        raise Contradiction("more outcomes than pulls are pending in this allocation", *full)


def _with(
    slot: Allocation, parts: Mapping[str, ArmPulls], kinds: Kinds | None = None
) -> Allocation:
    arms = tuple(parts.get(part.arm, part) for part in slot.arms)
    recorded, pending = sum(part.told for part in arms), sum(part.pending for part in arms)
    state: AllocationState = "open" if pending else "told" if recorded else "cancelled"
    outcome = slot.outcome
    if kinds is not None and slot.arm is not None:
        kind = kinds[slot.arm]
        outcome = kind.format.sole(arms[0].tally(kind)) if recorded else None
    return replace(slot, arms=arms, told=recorded, pending=pending, state=state, outcome=outcome)


def is_on_record(slot: Allocation, event: str, counts: Counts, kinds: Kinds) -> bool:
    """Tell whether an event would change nothing: a single pull has this outcome already."""
    if event == "cancelled":
        return slot.state == "cancelled"
    if event == "told" and slot.arm is None and not slot.has_states:
        return False  # more outcomes, which are as those before
    parts = [(slot.part(arm), kinds[arm], outcome) for arm, outcome in counts]
    return all(
        part is not None and part.observed and part.tally(kind) == tally_of(kind, outcome)
        for part, kind, outcome in parts
    )


def tally_of(kind: ArmModel, outcome: Told) -> Stats:
    """Parse the tally of an event; a ValueError if it is not one of the arm."""
    if kind.counts_good != (not isinstance(outcome, str)):
        raise InvalidArgument("outcomes of another kind than the arm has")
    if not isinstance(outcome, str):
        good, pulls = outcome
        if type(good) is not int or type(pulls) is not int or not 0 <= good <= pulls or not pulls:
            raise InvalidArgument("counts are good outcomes and outcomes, one at least")
        return (good, pulls - good)
    tally = kind.format.read_tally(outcome)
    if told_of(kind, tally) != outcome or not kind.format.tally_pulls(tally):
        raise InvalidArgument("not written as logs have it")
    return tally


def told_of(kind: ArmModel, tally: Stats) -> Told:
    """Return the form of a tally in events; `BadOutcome` if it is too large."""
    if not all(abs(number) <= LARGEST_SUM for number in tally):
        raise BadOutcome("the sum of the outcomes is too large", field="outcome")
    if kind.counts_good:
        good, bad = map(int, tally)
        return (good, good + bad)
    return kind.format.write_tally(tally)


def told_text(tally: Told) -> str:
    """Return a tally as text, "30/50" for good and pulls."""
    return tally if isinstance(tally, str) else f"{tally[0]}/{tally[1]}"


def given_tally(kind: ArmModel, entry: object) -> Stats:
    """Parse a tally from text or its parts; a ValueError if it is none."""
    form, mark = kind.format.tally_form
    if isinstance(entry, str):
        return kind.format.read_tally(entry.strip())
    parts = list(entry) if isinstance(entry, Iterable) else [None]
    if any(isinstance(x, bool) or not isinstance(x, int | float | np.number | str) for x in parts):
        raise InvalidArgument(f"{entry!r}; must be {form}")
    texts = [repr(float(x)) if isinstance(x, float | np.floating) else str(x) for x in parts]
    return kind.format.read_tally(mark.join(texts).strip())


def counts_tree(counts: Counts) -> dict[str, Any]:
    """Return counts in the form of events."""
    return {arm: tally if isinstance(tally, str) else list(tally) for arm, tally in counts}


def counts_from(tree: Mapping[str, Any]) -> Counts:
    """Parse the result of `counts_tree`; `tally_of` checks the entries."""
    if not tree:
        raise InvalidArgument("counts name an arm at least")
    return tuple(
        (arm, entry if isinstance(entry, str) else tuple(entry))
        for arm, entry in sorted(tree.items())
    )


def kinds_of(problem: Problem) -> list[ArmModel]:
    """Return the outcome model of every arm."""
    return [group.model for group in problem.arm_groups]


def kinds_by_name(problem: Problem) -> dict[str, ArmModel]:
    """Return the outcome models by the names of the arms."""
    return dict(zip((arm.name for arm in problem.arms), kinds_of(problem), strict=True))


Parts = dict[str, list[tuple[Allocation, ArmPulls]]]


def parts_by_arm(allocations: Iterable[Allocation]) -> Parts:
    """Return the parts of all allocations by arm, in order."""
    parts: Parts = {}
    for slot in allocations:
        for part in slot.arms:
            parts.setdefault(part.arm, []).append((slot, part))
    return parts


def tallies(
    kind: ArmModel, parts: Iterable[tuple[Allocation, ArmPulls]]
) -> Iterator[tuple[Allocation, ArmPulls, Stats, Stats, Stats]]:
    """Yield the parts of an arm with outcomes: the tally, the statistics before and after it."""
    stats, stage = kind.initial(), 0
    for slot, part in parts:
        if part.observed:
            before, tally = _at_rest(kind, stats, slot.stage - stage), part.tally(kind)
            if part.pulls or not isinstance(kind, MarkovModel):
                stats = kind.format.after_tally(before, tally)
            else:
                stats = kind.following(before, tally[0], pulled=False)
            stage = slot.stage + 1
            yield slot, part, tally, before, stats


def known_of(kind: ArmModel, parts: Iterable[tuple[Allocation, ArmPulls]], stage: int = 0) -> Stats:
    """Return the statistics of an arm after all recorded outcomes, at this stage at least."""
    stats, reached = kind.initial(), 0
    for slot, *_, after in tallies(kind, parts):
        stats, reached = after, slot.stage + 1
    return _at_rest(kind, stats, stage - reached)


def _at_rest(kind: ArmModel, stats: Stats, stages: int) -> Stats:
    """Return the statistics after stages without a pull, where these follow from the model."""
    if kind.rests_observed or not kind.restless:
        return stats
    for _ in range(stages):
        stats = tuple(kind.rested(np.zeros(()), np.array(stats, dtype=float)).tolist())
    return stats


def values(
    kind: ArmModel, parts: Iterable[tuple[Allocation, ArmPulls]]
) -> Iterator[tuple[Allocation, ArmPulls, float]]:
    """Yield the parts of an arm with outcomes, and what these count, or the rest of the arm."""
    for slot, part, tally, before, _ in tallies(kind, parts):
        if part.good is not None:
            yield slot, part, float(part.good)
        elif part.pulls:
            yield slot, part, kind.format.tally_value(before, tally)
        else:
            yield slot, part, float(kind.rest_mean(np.array(before, dtype=float)))


def check_order(kinds: Kinds, allocations: Iterable[Allocation]) -> None:
    """Refuse outcomes of Markov arms out of the order of their pulls."""
    if not any(kind.ordered for kind in kinds.values()):
        return
    for arm, parts in parts_by_arm(allocations).items():
        if not kinds[arm].ordered:
            continue
        first_pending = next((k for k, (_, part) in enumerate(parts) if part.pending), len(parts))
        if any(part.observed for _, part in parts[first_pending + 1 :]):
            rule = "an earlier allocation of this arm is pending; record that one first"
            raise BadOutcome(rule, field="outcome")
        try:
            known_of(kinds[arm], parts)
        except ValueError:  # its text names the state, which blinded users must not read
            rule = "the outcomes cannot follow those recorded for this arm"
            raise BadOutcome(rule, field="outcome") from None
