"""Routes that limit, close, reopen and archive a trial, and that unmask an allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Body

from ...trials import Summary
from ..auth import Caller, allow
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import AllocationId, Key, Opened, key_of, reasoned
from .record_models import Out

_TRIAL = "/trials/{trial}"


MaybeReason = Annotated[sent.MaybeReasonIn | None, Body()]


def _summary(found: Summary) -> Out:
    return out.SummaryOut.model_validate(found.to_dict())


def _changed(
    change: Callable[..., Summary], body: sent.MaybeReasonIn | None, key: Key, caller: Caller
) -> Out:
    said = body or sent.MaybeReasonIn()
    return _summary(change(reason=said.reason, key=key_of(key, said), by=caller.name))


@router.post(f"{_TRIAL}/limits", response_model=out.SummaryOut)
@allow("admin")
def trial_limits(caller: Caller, trial: Opened, body: sent.LimitsIn, key: Key = None) -> Out:
    """Change how many allocations may be pending, cancelled or unmasked, and say why."""
    changed = trial.set_limits(
        reason=body.reason,
        max_open=body.max_open,
        max_cancelled=body.max_cancelled,
        max_unmasked=body.max_unmasked,
        key=key_of(key, body),
        by=caller.name,
    )
    return _summary(changed)


@router.post(f"{_TRIAL}/close", response_model=out.SummaryOut)
@allow("admin")
def trial_close(caller: Caller, trial: Opened, body: MaybeReason = None, key: Key = None) -> Out:
    """Make no more allocations; outcomes of pending ones can still be recorded."""
    return _changed(trial.close, body, key, caller)


@router.post(f"{_TRIAL}/reopen", response_model=out.SummaryOut)
@allow("admin")
def trial_reopen(caller: Caller, trial: Opened, body: sent.ReasonIn, key: Key = None) -> Out:
    """Make allocations again, and say why; an archived trial is listed again."""
    return _summary(trial.reopen(**reasoned(caller, body, key)))


@router.post(f"{_TRIAL}/archive", response_model=out.SummaryOut)
@allow("admin")
def trial_archive(caller: Caller, trial: Opened, body: MaybeReason = None, key: Key = None) -> Out:
    """Close a trial and hide it from lists."""
    return _changed(trial.archive, body, key, caller)


@router.post(_TRIAL + "/allocations/{allocation}/unmask", response_model=out.UnmaskedOut)
@allow("admin", "operator")
def trial_unmask(
    caller: Caller, trial: Opened, allocation: AllocationId, body: sent.ReasonIn, key: Key = None
) -> Out:
    """The name of the arm of one allocation; who asked and why is on record."""
    slot = trial.unmask(allocation, **reasoned(caller, body, key))
    arm = str(slot.arm)
    return out.UnmaskedOut(id=slot.id, arm=arm, code=trial.codes[arm])
