"""Trials: a policy allocates arms, outcomes are recorded, everything is logged.

Start with `trial.py` (the handle), `recording.py` (requests) and `ledger.py` (the state).
In the examples, `trial` is a new trial with 2 arms and 5 stages.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .allocations import Allocation as Allocation
    from .allocations import ArmPulls as ArmPulls
    from .database import Store as Store
    from .database import open_store as open_store
    from .errors import Closed as Closed
    from .errors import Conflict as Conflict
    from .errors import Damaged as Damaged
    from .errors import LimitReached as LimitReached
    from .errors import NoFreeSlot as NoFreeSlot
    from .errors import NotFound as NotFound
    from .errors import StoreError as StoreError
    from .errors import TrialError as TrialError
    from .event_log import PeopleLog as PeopleLog
    from .event_log import people_log as people_log
    from .events import CancellationCount as CancellationCount
    from .events import Event as Event
    from .export import outcomes_csv as outcomes_csv
    from .report import TrialReport as TrialReport
    from .settings import ArmChange as ArmChange
    from .settings import TrialLimits as TrialLimits
    from .status import ArmStatus as ArmStatus
    from .status import Status as Status
    from .status import Summary as Summary
    from .trial import Trial as Trial
    from .trial import create_trial as create_trial
    from .trial import list_trials as list_trials
    from .trial import open_trial as open_trial
    from .verification import Replay as Replay
    from .verification import Verification as Verification
    from .verification import replay_export as replay_export
    from .verification import verify_export as verify_export

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
