"""What routes take and answer in the same way: trials, allocations and keys."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from ...trials import Allocation, Trial
from ...trials.settings import in_order
from ..auth import Caller
from ..errors import ApiError
from ..principal import Principal
from ..trial_cache import TrialCache
from . import responses as out
from . import schemas as sent
from .record_models import Out

ID_PATTERN = r"^[^\x00-\x1f\x7f]{1,100}$"
TrialId = Annotated[str, Path(pattern=ID_PATTERN, description="Id or name of the trial.")]
AllocationId = Annotated[str, Path(pattern=ID_PATTERN, description="Id of the allocation.")]
GivenHead = Annotated[
    str | None,
    Query(pattern="^[0-9a-fA-F]{64}$", description="A head that some event of the log must have."),
]
TokenName = Annotated[str, Path(pattern=ID_PATTERN, description="Name of the token.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=sent.KEY_PATTERN,
        description="Makes the request safe to repeat: the same key gives the same answer.",
    ),
]


async def _trial(request: Request, trial: TrialId) -> Trial:
    trials: TrialCache = request.app.state.trial_cache
    opened = trials.cached(trial)
    return await run_in_threadpool(trials.open, trial) if opened is None else opened


Opened = Annotated[Trial, Depends(_trial)]


async def _seen(request: Request, caller: Caller, trial: Opened) -> Trial:
    request.state.recorder.saw(caller, trial, request.scope["route"].name)
    return trial


Seen = Annotated[Trial, Depends(_seen)]  # the log of people says who saw results


def key_of(header: str | None, body: sent.Keyed | None) -> str | None:
    """The key of a request, which may stand in its header or in its body."""
    inside = None if body is None else body.key
    if header is not None and inside is not None and header != inside:
        raise ApiError(422, "invalid", "the key in the header is not the key in the body")
    return inside if header is None else header


class Reasoned(TypedDict):
    """Why, under which key, by whom: as changes of a trial take them."""

    reason: str
    key: str | None
    by: str


def reasoned(caller: Principal, body: sent.ReasonIn, key: str | None) -> Reasoned:
    """What a request with a reason says of itself."""
    return {"reason": body.reason, "key": key_of(key, body), "by": caller.name}


ALLOCATION = out.AllocationOut | out.BlindAllocation


def masked(slot: Allocation, trial: Trial) -> out.BlindAllocation:
    """An allocation for blinded people: codes of its arms in their order, and no outcomes."""
    if slot.arm is not None:
        return out.BlindAllocation(id=slot.id, arm=trial.codes[slot.arm], subject=slot.subject)
    arms = [
        out.BlindArmPulls(arm=trial.codes[part.arm], pulls=part.pulls, pending=part.pending)
        for part in slot.arms
    ]
    arms.sort(key=lambda part: in_order(part.arm))
    return out.BlindAllocation(
        id=slot.id, arm=None, subject=slot.subject, pending=slot.pending, arms=arms
    )


def shown_to(caller: Principal, slot: Allocation, trial: Trial) -> Out:
    """An allocation, as the sender of the request may see it."""
    return masked(slot, trial) if caller.blinded else out.AllocationOut.model_validate(slot)
