"""Trials: a policy allocates arms, outcomes are recorded, everything is logged.

    trial = create_trial(Problem.uniform(arms=3, horizon=50), name="pilot", db="pilot.db")
    allocation = trial.ask()
    trial.tell(allocation.id, 1)

Reading order: `trial.py` (the handle), `recording.py` (requests, and how they become events),
`requests.py`, `allocations.py`, `events.py` and `ledger.py` (the log, and the state that follows
from it), `decider.py` and `decisions.py` (the next allocation), `event_log.py`, `database.py`,
`backends.py` and `schema.py` (storage), `verification.py` and `checkpoints.py` (integrity),
`settings.py` (settings, limits, codes), `people.py` (the access log), `status.py`, `lists.py`,
`report.py`, `export.py` (output).
In the examples, `trial` is a new trial with 2 arms and 5 stages.
"""

from ..support.lazy import explain_missing_extras

with explain_missing_extras():
    import sqlalchemy as sqlalchemy  # the extra `trials`

from .allocations import Allocation, ArmPulls
from .database import Store, open_store
from .errors import (
    Closed,
    Conflict,
    Damaged,
    LimitReached,
    NoFreeSlot,
    NotFound,
    StoreError,
    TrialError,
)
from .events import Event
from .export import outcomes_csv
from .people import PeopleLog, people_log
from .report import TrialReport
from .requests import CancellationCount
from .settings import TrialLimits
from .status import ArmStatus, Status, Summary
from .trial import Trial, create_trial, list_trials, open_trial
from .verification import Replay, Verification, replay_export, verify_export

__all__ = [
    "Allocation",
    "ArmPulls",
    "ArmStatus",
    "CancellationCount",
    "Closed",
    "Conflict",
    "Damaged",
    "Event",
    "LimitReached",
    "NoFreeSlot",
    "NotFound",
    "PeopleLog",
    "Replay",
    "Status",
    "Store",
    "StoreError",
    "Summary",
    "Trial",
    "TrialError",
    "TrialLimits",
    "TrialReport",
    "Verification",
    "create_trial",
    "list_trials",
    "open_store",
    "open_trial",
    "outcomes_csv",
    "people_log",
    "replay_export",
    "verify_export",
]
