"""Every decision of a log computed again from what was known then, and compared with the record.

Policy and tables are made anew. Where whole tables fit into memory, DeCo's terms come from them,
not from `Cones`, which a trial uses: two computations of one number. The bound is checked, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .check_result import CheckResult
from .decider import Decider, decision_record, pending_state
from .errors import TrialError
from .events import Event
from .ledger import Ledger
from .settings import check_bound

TOLERANCE = 1e-9  # of recomputed numbers: another machine may add in another order
MAX_TABLE_STATES = 2e9  # states of all stages and groups, up to which whole tables are made
_EXACT = ("stage", "state", "policy", "multipliers_hash", "seed")
_NUMBERS = ("price", "expected_reward", "value_of_information", "index")


@dataclass(frozen=True)
class Replay(CheckResult):
    """Whether every decision comes out the same again.

    Attributes
    ----------
    trial : str
        Id of the trial.
    decisions : int
        Decisions that were computed again.
    differences : tuple[str, ...]
        What was found.

    Examples
    --------
    >>> _ = trial.ask()
    >>> trial.replay().decisions
    1
    """

    decisions: int
    differences: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        return self.differences


def replayed(events: Sequence[Event]) -> Replay:
    """Make all decisions of a log again."""
    trial = events[0].trial
    ledger = Ledger(trial).extended(events[:1])
    problem = ledger.problem
    states = len(problem.groups) * problem.stages**3 / 6
    decider = Decider(ledger.settings, use_cones=states > MAX_TABLE_STATES)
    differences = _compared_settings(events[0], ledger)
    decisions = 0
    for event in events[1:]:
        if event.kind == "asked":
            decisions += 1
            try:
                differences += _compared(event, ledger, decider)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                differences.append(f"event {event.seq}: cannot be made again: {error}")
        ledger.advance(event)  # ours alone: nobody sees it change
    return Replay(trial, decisions, tuple(differences))


def _compared_settings(event: Event, ledger: Ledger) -> list[str]:
    found = []
    if event.data.get("multipliers_hash") != ledger.settings.multipliers_hash:
        found.append(f"event {event.seq}: the hash of the multipliers is not theirs")
    solution = ledger.settings.solution
    try:
        if solution is not None:
            check_bound(solution)
    except TrialError as error:
        found.append(f"event {event.seq}: {error}")
    return found


def _compared(event: Event, ledger: Ledger, decider: Decider) -> list[str]:
    decision, arms = decider.decide(ledger), ledger.problem.arms
    pulls = {arm.name: n for arm, n in zip(arms, decision.pulls, strict=True) if n}
    said = {"pulls": pulls, "reason": decision.reason, "number": ledger.asks}
    again = decision_record(decision, pending_state(ledger), ledger.settings)
    return _differences(event, said, again)


def _differences(event: Event, said: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """What an ask has on record that comes out otherwise."""
    kept, where = event.data["decision"], f"event {event.seq}"
    found = [
        f"{where}: {name} {event.data.get(name)!r} on record, {value!r} now"
        for name, value in said.items()
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
