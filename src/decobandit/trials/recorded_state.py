"""The state that follows from all outcomes on record."""

from __future__ import annotations

from ..problem import State
from .kind_records import seen
from .ledger import Ledger


def recorded_state(ledger: Ledger) -> State:
    """All outcomes on record, those of the stage under way included."""
    others = seen(ledger.problem, ledger.allocations.values())
    return State(tuple(ledger.good), tuple(ledger.bad), others)
