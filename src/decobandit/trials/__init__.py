"""Trials: a policy allocates arms, outcomes are recorded, everything is logged.

    trial = create_trial(Problem.uniform(arms=3, horizon=50), name="pilot", db="pilot.db")
    allocation = trial.ask()
    trial.tell(allocation.id, 1)

Reading order: `opening.py` and `trial.py` (what can be asked of a trial), `decider.py` and
`decisions.py` (which arm is next), `events.py` and `ledger.py` (the log, and the state that follows
from it), `event_log.py` and `database.py` (how it is stored), `verification.py`, `replay.py`,
`export_check.py` and `checkpoints.py` (how it is checked), `lifecycle.py` and `limits.py` (closing
a trial, limits), `people.py` (the log of people), `report.py` and `report_text.py` (the report). Of
its own: `pending.py` (while outcomes are pending), `batches.py`, `codes.py` (of arms, for blinded
people), `damage.py`, `staleness.py`, `names.py`, `verdicts.py` (looks and the test at the end),
`summaries.py` and `log_pages.py` (lists). In the examples of this room, `trial` is one that was
just created, with 2 arms and 5 stages.
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
from .export_check import replay_export, verify_export
from .limits import TrialLimits
from .opening import create_trial, list_trials, open_trial
from .people import PeopleLog, people_log
from .replay import Replay
from .report import TrialReport
from .requests import CancellationCount
from .status import ArmStatus, Status, Summary
from .trial import Trial
from .verification import Verification

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
