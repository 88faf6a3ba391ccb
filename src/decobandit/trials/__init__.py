"""Trials: decide with a policy, one outcome at a time, and never lose one.

    trial = create_trial(Problem.uniform(arms=3, horizon=50), name="pilot", db="pilot.db")
    allocation = trial.ask()
    trial.tell(allocation.id, 1)

Reading order: `service.py` (what can be asked of a trial), `decisions.py` (which arm is next),
`events.py` and `ledger.py` (the log, and what it amounts to), `books.py` and `store.py` (how it is
kept), `verification.py` and `replay.py` (how it is checked).
"""

from .errors import Conflict, Damaged, NoFreeSlot, NotFound, StoreError, TrialError
from .events import Event
from .ledger import Allocation
from .replay import Replay
from .reports import ArmStatus, Status, Summary, outcomes_csv
from .service import Trial, create_trial, list_trials, open_trial
from .store import Store, open_store
from .verification import Verification, verify_export

__all__ = [
    "Allocation",
    "ArmStatus",
    "Conflict",
    "Damaged",
    "Event",
    "NoFreeSlot",
    "NotFound",
    "Replay",
    "Status",
    "Store",
    "StoreError",
    "Summary",
    "Trial",
    "TrialError",
    "Verification",
    "create_trial",
    "list_trials",
    "open_store",
    "open_trial",
    "outcomes_csv",
    "verify_export",
]
