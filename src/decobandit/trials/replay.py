"""Every decision of a log made again from what was known then, and compared with the record.

By a second road: policy and tables are made anew, and where they fit DeCo's terms come from whole
tables rather than from `Nearby`, which decides in a trial. The bound is computed again, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .desks import Desk, decision_record, situation_of
from .errors import TrialError
from .events import Event
from .ledger import Ledger
from .plans import check_bound

TOLERANCE = 1e-9  # of recomputed numbers: another machine may add in another order
WHOLE_TABLES = 2e9  # states of all stages and groups, up to which whole tables are made
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
    problem = ledger.problem
    states = len(problem.groups) * problem.stages**3 / 6
    desk = Desk(ledger.plan, near=states > WHOLE_TABLES)
    differences = _compared_plan(events[0], ledger)
    decisions = 0
    for event in events[1:]:
        if event.kind == "asked":
            decisions += 1
            try:
                differences += _compared(event, ledger, desk)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                differences.append(f"event {event.seq}: cannot be made again: {error}")
        ledger.advance(event)  # ours alone: nobody sees it change
    return Replay(trial, decisions, tuple(differences))


def _compared_plan(event: Event, ledger: Ledger) -> list[str]:
    found = []
    if event.data.get("multipliers_hash") != ledger.plan.multipliers_hash:
        found.append(f"event {event.seq}: the hash of the multipliers is not theirs")
    try:
        check_bound(ledger.plan.solution)
    except TrialError as error:
        found.append(f"event {event.seq}: {error}")
    return found


def _compared(event: Event, ledger: Ledger, desk: Desk) -> list[str]:
    decision = desk.decide(ledger)
    again = decision_record(decision, situation_of(ledger), desk.plan)
    kept = event.data["decision"]
    where = f"event {event.seq}"
    found = []
    arm = desk.plan.problem.arms[decision.arm].name
    again_said = {"arm": arm, "reason": decision.reason, "number": ledger.asks}
    found += [
        f"{where}: {name} {event.data.get(name)!r} on record, {value!r} now"
        for name, value in again_said.items()
        if event.data.get(name) != value
    ]
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
