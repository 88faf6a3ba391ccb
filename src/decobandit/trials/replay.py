"""Every decision of a log made again from what was known then, and compared with the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .desks import Desk, decision_record, desk_of, situation_of
from .events import Event
from .ledger import Ledger

TOLERANCE = 1e-9  # of recomputed numbers: another machine may add in another order
_EXACT = ("stage", "state", "policy", "multipliers_hash", "seed")
_NUMBERS = ("price", "expected_reward", "value_of_information", "index")


@dataclass(frozen=True)
class Replay:
    """How many decisions were made again, and which of them came out otherwise."""

    trial: str
    decisions: int
    differences: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        return {
            "trial": self.trial, "ok": self.ok, "decisions": self.decisions,
            "differences": list(self.differences),
        }  # fmt: skip


def replayed(events: Sequence[Event]) -> Replay:
    """Make all decisions of a log again."""
    trial = events[0].trial
    ledger = Ledger(trial).extended(events[:1])
    desk = desk_of(ledger.plan)
    differences: list[str] = []
    decisions = 0
    for event in events[1:]:
        if event.kind == "asked":
            decisions += 1
            differences += _compared(event, ledger, desk)
        ledger = ledger.extended([event])
    return Replay(trial, decisions, tuple(differences))


def _compared(event: Event, ledger: Ledger, desk: Desk) -> list[str]:
    decision = desk.decide(ledger)
    again = decision_record(decision, situation_of(ledger), desk.plan)
    kept = event.data["decision"]
    where = f"event {event.seq}"
    found = []
    arm = desk.plan.problem.arms[decision.arm].name
    if arm != event.data["arm"]:
        found.append(f"{where}: arm {event.data['arm']!r} on record, {arm!r} now")
    found += [
        f"{where}: {name} {kept.get(name)!r} on record, {again[name]!r} now"
        for name in _EXACT
        if kept.get(name) != again[name]
    ]
    found += [
        f"{where}: {name} differs from the record"
        for name in _NUMBERS
        if not _close(kept.get(name), again[name])
    ]
    return found


def _close(kept: Any, again: Any) -> bool:
    if kept is None or again is None:
        return kept is None and again is None
    return np.shape(kept) == np.shape(again) and bool(
        np.allclose(kept, again, rtol=TOLERANCE, atol=TOLERANCE)
    )
