"""A stored log followed event by event: what was true after each of them.

Written from the documentation of the log alone (docs/trials.md), so that it can be compared with
what the package answers. A position is the number of an event; the state at a position is the one
after that event.
"""

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from helpers.faults.rows import Row, StoredTrial

NEEDED = {"told": "open", "cancelled": "open", "corrected": "told"}


@dataclass(frozen=True)
class Slot:
    """An allocation at one moment."""

    arm: str
    state: str  # open, told, cancelled
    outcome: int | None = None


@dataclass
class LogStates:
    """All states of one trial."""

    slots: int = 0  # the cap
    arms: tuple[str, ...] = ()
    bodies: list[dict[str, Any]] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    used: list[int] = field(default_factory=list)  # slots in use, by position
    told: list[int] = field(default_factory=list)
    counts: list[Counter[tuple[str, str, int | None]]] = field(default_factory=list)
    lives: dict[str, list[tuple[int, Slot]]] = field(default_factory=dict)  # by allocation

    @property
    def last(self) -> int:
        return len(self.bodies) - 1

    def slot(self, allocation: str | None, position: int) -> Slot | None:
        """An allocation as it was at a position."""
        life = self.lives.get(allocation or "", [])
        since = bisect_right(life, position, key=lambda change: change[0])
        return life[since - 1][1] if since else None

    def advance(self, body: dict[str, Any], digest: str) -> str:
        """One more event; what is wrong with it, or nothing."""
        counts = self.counts[-1].copy() if self.counts else Counter()
        kind, data, wrong = body["kind"], body["data"], ""
        position = len(self.bodies)
        if kind == "created":
            problem = data["plan"]["problem"]
            self.slots, self.arms = _size(problem)
        elif kind == "asked":
            wrong = "the allocation exists" if data["allocation"] in self.lives else ""
            slot = Slot(data["arm"], "open")
            self.lives.setdefault(data["allocation"], []).append((position, slot))
            counts[slot.arm, slot.state, slot.outcome] += 1
        elif kind in NEEDED:
            before = self.slot(data["allocation"], position)
            if before is None or before.state != NEEDED[kind]:
                return f"{kind} does not go with the allocation, {before}"
            after = Slot(before.arm, *_after(kind, data))
            self.lives[data["allocation"]].append((position, after))
            counts[before.arm, before.state, before.outcome] -= 1
            counts[after.arm, after.state, after.outcome] += 1
        self.bodies.append(body)
        self.hashes.append(digest)
        self.counts.append(counts)
        self.told.append(_sum(counts, "told"))
        self.used.append(self.told[-1] + _sum(counts, "open"))
        return wrong

    def arm_counts(self, position: int) -> dict[str, tuple[int, int, int]]:
        """Good outcomes, bad ones and open allocations of every arm."""
        counts = self.counts[position]
        return {
            arm: (counts[arm, "told", 1], counts[arm, "told", 0], counts[arm, "open", None])
            for arm in self.arms
        }

    def open_at(self, position: int) -> set[str]:
        """Allocations that were pending."""
        states = {name: self.slot(name, position) for name in self.lives}
        return {name for name, slot in states.items() if slot and slot.state == "open"}


def _size(problem: dict[str, Any]) -> tuple[int, tuple[str, ...]]:
    pulls = problem.get("pulls_per_stage", 1)
    return problem["horizon"] * pulls, tuple(arm["name"] for arm in problem["arms"])


def _after(kind: str, data: dict[str, Any]) -> tuple[str, int | None]:
    return ("cancelled", None) if kind == "cancelled" else ("told", data["outcome"])


def _sum(counts: Counter[tuple[str, str, int | None]], state: str) -> int:
    return sum(number for (_, of, _), number in counts.items() if of == state)


def broken_links(trial: StoredTrial) -> Iterator[str]:
    """Where the chain of hashes does not hold."""
    previous = "0" * 64
    for expected, row in enumerate(trial.rows):
        body = json.loads(row.body)
        if hashlib.sha256(row.body.encode()).hexdigest() != row.hash:
            yield f"event {expected}: its hash is not that of its body"
        if body["previous"] != previous:
            yield f"event {expected}: does not follow the one before"
        columns = (trial.id, expected, row.kind, row.key)
        if (body["trial"], body["seq"], body["kind"], body["key"]) != columns:
            yield f"event {expected}: its columns are not those of its body"
        if row.seq != expected:
            yield f"event {expected}: has the number {row.seq}"
        previous = row.hash
    if (trial.head_seq, trial.head_hash) != (len(trial.rows) - 1, previous):
        yield f"the head is at {trial.head_seq}, the last event is {len(trial.rows) - 1}"


def followed(rows: tuple[Row, ...]) -> tuple[LogStates, list[str]]:
    """The states of a log, and its events that cannot have happened."""
    states, wrong = LogStates(), []
    for row in rows:
        said = states.advance(json.loads(row.body), row.hash)
        if said:
            wrong.append(f"event {row.seq}: {said}")
            break  # what comes after it means nothing
    return states, wrong
