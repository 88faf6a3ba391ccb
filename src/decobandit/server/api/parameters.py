"""Parameters and answers that routes share: trials, allocations, keys, pages of lists."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State

from ...support import Cache
from ...trials import Allocation, Trial, open_trial
from ...trials.allocations import AllocationState
from ...trials.lists import MAX_PAGE, Page
from ...trials.recording import NEEDS_MORE, Change, answered
from ...trials.settings import in_order
from ..auth import Caller
from ..errors import ApiError
from ..request_context import Principal
from . import responses as out
from . import schemas as sent

MAX_TRIALS = 1000  # that are kept open
ID_PATTERN = r"^[^\x00-\x1f\x7f]{1,100}$"
_AFTER = "The list begins after this one: `next` of the page before."

TrialId = Annotated[str, Path(pattern=ID_PATTERN, description="Id or name of the trial.")]
_SLOT = "Id of the allocation, or its subject."
AllocationId = Annotated[str, Path(pattern=ID_PATTERN, description=_SLOT)]
ArmName = Annotated[str, Path(pattern=ID_PATTERN, description="Name of the arm.")]
TokenName = Annotated[str, Path(pattern=ID_PATTERN, description="Name of the token.")]
GivenHead = Annotated[
    str | None,
    Query(pattern="^[0-9a-fA-F]{64}$", description="A head that some event of the log must have."),
]
ControlArm = Annotated[
    str | None,
    Query(max_length=100, description="The arm that others are compared with; else the first."),
]
OfSegment = Annotated[
    str | None,
    Query(max_length=100, description="Segment; needed where the trial has segments."),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=sent.KEY_PATTERN,
        description="Makes the request safe to repeat: the same key gives the same answer.",
    ),
]


# -- trials -------------------------------------------------------------------------------------


def open_cached(state: State, trial: str) -> Trial:
    """Return a trial by name or id; `NotFound` if there is none."""
    cache: Cache[str, Trial] = state.trial_cache
    return cache.get_or_make(trial, lambda: open_trial(trial, db=state.store))


async def opened(request: Request, trial: TrialId) -> Trial:
    """Return a trial by name or id."""
    state = request.app.state
    cached: Trial | None = state.trial_cache.get(trial)
    return await run_in_threadpool(open_cached, state, trial) if cached is None else cached


Opened = Annotated[Trial, Depends(opened)]


async def _slot_id(trial: Opened, allocation: AllocationId) -> str:
    known = allocation in trial.latest.allocations
    return allocation if known else await run_in_threadpool(trial.slot_of, allocation)


SlotId = Annotated[str, Depends(_slot_id)]


async def _read_trial(request: Request, caller: Caller, trial: Opened) -> Trial:
    request.state.recorder.saw(caller, trial, request.scope["route"].name)
    return trial


Seen = Annotated[Trial, Depends(_read_trial)]  # the access log says who saw results


# -- changes ------------------------------------------------------------------------------------

Answer = TypeVar("Answer")


async def made(change: Change[Answer]) -> Answer:
    """Make a change; it is on disk then.

    With SQLite, requests that come while a commit is under way share the next one. One thread
    commits for all of them; a thread for each would cost more than the change itself. A change that
    is slow gets its own thread, as everything does on PostgreSQL, where transactions run
    side by side.
    """
    store = change.log.store
    if not (store.shares_commits and change.is_short()):
        return await run_in_threadpool(change.made)
    try:
        return answered(await asyncio.wrap_future(store.submit(change.attempt, change.trial)))
    except NEEDS_MORE as error:
        return await run_in_threadpool(change.resume, error)


def key_of(header: str | None, body: sent.Keyed | None) -> str | None:
    """Return the idempotency key of a request, from its header or its body."""
    inside = None if body is None else body.key
    if header is not None and inside is not None and header != inside:
        message = "the key in the header is not the key in the body"
        raise ApiError(422, "invalid", message, field="key")
    return inside if header is None else header


def reasoned(
    caller: Principal, body: sent.ReasonIn | sent.MaybeReasonIn, key: str | None
) -> dict[str, Any]:
    """Return actor, key and reason of a request."""
    return {"reason": body.reason, "key": key_of(key, body), "by": caller.name}


def masked(slot: Allocation, trial: Trial) -> Allocation:
    """Return an allocation for blinded callers: codes in their order, no outcomes or reasons."""
    codes = trial.codes
    parts = [
        replace(part, arm=codes[part.arm], good=None, bad=None, seen=None) for part in slot.arms
    ]
    parts.sort(key=lambda part: in_order(part.arm))
    return replace(
        slot,
        arm=None if slot.arm is None else codes[slot.arm],
        pulls={part.arm: part.pulls for part in parts if part.pulls},
        arms=tuple(parts),
        reason="",
        change_reason=None,
        note=None,
        outcome=None,
        probability=None,
    )


def blind(slot: Allocation, trial: Trial) -> dict[str, Any]:
    """Return a masked allocation as JSON values: what a blinded answer has, by name."""
    shown = masked(slot, trial)
    tree: dict[str, Any] = {"id": shown.id, "subject": shown.subject, "arm": shown.arm}
    if shown.segment is not None:
        tree["segment"] = shown.segment
    if shown.arm is None:
        names = out.BlindArmPulls.model_fields
        arms = [{name: getattr(part, name) for name in names} for part in shown.arms]
        tree |= {"pending": shown.pending, "arms": arms}
    return tree


class Record(Protocol):
    """A record of the library."""

    def to_dict(self) -> dict[str, Any]: ...


def answer(content: dict[str, Any] | out.Out | Record, status: int = 200) -> JSONResponse:
    """Return a response; FastAPI does not validate it again."""
    if isinstance(content, out.Out):
        content = content.model_dump(exclude_unset=True)
    elif not isinstance(content, dict):
        content = content.to_dict()
    return JSONResponse(content, status)


def shown_to(caller: Principal, slot: Allocation, trial: Trial) -> JSONResponse:
    """Return an allocation as the caller may see it."""
    return answer(blind(slot, trial) if caller.blinded else slot)


# -- pages of lists -----------------------------------------------------------------------------

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Entries at most.")]
After = Annotated[str | None, Query(pattern=ID_PATTERN, description=_AFTER)]
AfterEvent = Annotated[int, Query(ge=-1, lt=2**31, description=_AFTER)]
OfState = Annotated[AllocationState | None, Query(description="Only those in this state.")]


def next_key(page: Page[object]) -> dict[str, str]:
    """Return the key `next` if there is a next page."""
    return {} if page.next is None else {"next": page.next}
