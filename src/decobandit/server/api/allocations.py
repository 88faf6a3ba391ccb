"""Ask, tell, cancel, correct.

The routes that are used most: they are made first, for routes are tried in order.
"""

from __future__ import annotations

from ..auth import EVERYBODY, Caller, allow
from ..shared_commits import made
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import ALLOCATION, AllocationId, Key, Opened, Seen, key_of, reasoned, shown_to
from .record_models import Out


@router.post("/trials/{trial}/ask", response_model=ALLOCATION, response_model_exclude_unset=True)
@allow("admin", "operator")
async def trial_ask(
    caller: Caller, trial: Opened, body: sent.AskIn | None = None, key: Key = None
) -> Out:
    """Allocate the next stage; the same subject gets the same allocation."""
    asked = body or sent.AskIn()
    change = trial.asking(
        subject=asked.subject, note=asked.note, key=key_of(key, asked), by=caller.name
    )
    return shown_to(caller, await made(change), trial)


_ALLOCATION = "/trials/{trial}/allocations/{allocation}"


@router.post(f"{_ALLOCATION}/tell", response_model=ALLOCATION, response_model_exclude_unset=True)
@allow("admin", "operator")
async def trial_tell(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.OutcomesIn, key: Key = None
) -> Out:
    """Record outcomes: of a single pull, or counts or rows by arm, which add up."""
    change = trial.telling(
        allocation,
        body.given(),
        key=key_of(key, body),
        by=caller.name,
        by_code=caller.blinded,
        confirm_range=body.confirm_range,
    )
    return shown_to(caller, await made(change), trial)


@router.post(f"{_ALLOCATION}/cancel", response_model=ALLOCATION, response_model_exclude_unset=True)
@allow("admin", "operator")
def trial_cancel(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.ReasonIn, key: Key = None
) -> Out:
    """Cancel what is pending, and say why; without outcomes, the slots are free again."""
    gone = trial.cancel(allocation, **reasoned(caller, body, key))
    return shown_to(caller, gone, trial)


@router.post(f"{_ALLOCATION}/correct", response_model=out.AllocationOut)
@allow("admin")
def trial_correct(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.CorrectIn, key: Key = None
) -> Out:
    """Replace recorded outcomes, and say why; the old ones stay in the log."""
    fixed = trial.correct(
        allocation,
        body.given(),
        reason=body.reason,
        key=key_of(key, body),
        by=caller.name,
        confirm_range=body.confirm_range,
    )
    return out.AllocationOut.model_validate(fixed)


@router.get(_ALLOCATION, response_model=ALLOCATION, response_model_exclude_unset=True)
@allow(*EVERYBODY)
def trial_allocation(caller: Caller, trial: Seen, allocation: AllocationId) -> Out:
    """One allocation: what every arm has of it, and what is pending."""
    return shown_to(caller, trial.allocation(allocation), trial)
