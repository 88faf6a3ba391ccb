"""Ask, tell, cancel, correct.

The routes that are used most: they are made first, for routes are tried in order.
"""

from __future__ import annotations

from ..auth import Caller, allow
from ..shared_commits import made
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import ALLOCATION, AllocationId, Key, Opened, key_of, reasoned, shown_to
from .record_models import Out


@router.post("/trials/{trial}/ask", response_model=ALLOCATION)
@allow("admin", "operator")
async def trial_ask(
    caller: Caller, trial: Opened, body: sent.AskIn | None = None, key: Key = None
) -> Out:
    """Allocate the next slot to an arm; the same subject gets the same allocation."""
    asked = body or sent.AskIn()
    change = trial.asking(
        subject=asked.subject, note=asked.note, key=key_of(key, asked), by=caller.name
    )
    return shown_to(caller, await made(change), trial)


@router.post(
    "/trials/{trial}/allocations/{allocation}/tell",
    response_model=ALLOCATION,
)
@allow("admin", "operator")
async def trial_tell(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.OutcomeIn, key: Key = None
) -> Out:
    """Record an outcome."""
    change = trial.telling(
        allocation, body.outcome, key=key_of(key, body), by=caller.name,
        confirm_range=body.confirm_range,
    )  # fmt: skip
    return shown_to(caller, await made(change), trial)


@router.post(
    "/trials/{trial}/allocations/{allocation}/cancel",
    response_model=ALLOCATION,
)
@allow("admin", "operator")
def trial_cancel(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.ReasonIn, key: Key = None
) -> Out:
    """Cancel an allocation, and say why; its slot is free again."""
    gone = trial.cancel(allocation, **reasoned(caller, body, key))
    return shown_to(caller, gone, trial)


@router.post("/trials/{trial}/allocations/{allocation}/correct", response_model=out.AllocationOut)
@allow("admin")
def trial_correct(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.CorrectIn, key: Key = None
) -> Out:
    """Replace a recorded outcome, and say why; the old one stays in the log."""
    fixed = trial.correct(
        allocation, body.outcome, reason=body.reason, key=key_of(key, body), by=caller.name,
        confirm_range=body.confirm_range,
    )  # fmt: skip
    return out.AllocationOut.model_validate(fixed)
