"""Shared parts of API routes: checks before an endpoint, parameters, changes, answers.

Roles, content types and bodies are checked before an endpoint runs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import anyio
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State

from ...support import Cache
from ...support.validation import JsonError, parse
from ...trials import Allocation, Trial, open_trial
from ...trials.allocations import AllocationState
from ...trials.lists import MAX_PAGE, Page
from ...trials.recording import NEEDS_MORE, Change, answered
from ...trials.settings import in_order
from ..auth import SECURITY, Caller, access_of
from ..errors import CODES, ApiError
from ..request_context import Principal
from . import responses as out
from . import schemas as sent

# -- checks before an endpoint --------------------------------------------------------------------

LIGHT_BYTES = 8 * 1024  # of a body that is checked at once; a larger one is checked in a thread
MAX_CHECKS = 2  # bodies that are checked in threads at once
JSON_TYPES = ("", "charset=utf-8", 'charset="utf-8"')  # what may follow application/json

_DOCUMENTED = {
    400: "The request cannot be served.",
    401: "No valid token.",
    403: "The role does not permit this, or the request comes from another site.",
    404: "No such trial, allocation or token.",
    405: "The path has other methods.",
    408: "The body came too slowly.",
    409: "The request contradicts what is recorded, or no slot is free.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The request is malformed.",
    429: "Too many requests; see Retry-After.",
    503: "Busy, or the database cannot be used; see Retry-After.",
}
assert set(_DOCUMENTED) < set(CODES)
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _ERROR} for status, text in _DOCUMENTED.items()
}
# one model puts it into the document; a model per status and route would slow the start
ERRORS[400] = {"description": _DOCUMENTED[400], "model": out.ErrorOut}


class StrictRequest(Request):
    """A request whose body was checked before: `json` returns the model."""

    sent: sent.In | None = None

    async def json(self) -> Any:
        return self.sent


class ApiRoute(APIRoute):
    """Checks role and content type before the body is parsed."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.access, self.model = access_of(endpoint), body_model(endpoint)
        if self.access.roles:
            options["openapi_extra"] = {"security": SECURITY}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def checked(request: Request) -> Response:
            await self.access.check(request)
            strict = StrictRequest(request.scope, request.receive)
            body = await strict.body()
            if body and not _is_json(strict.headers.get("content-type", "")):
                raise ApiError(415, "not_json", "the body must be application/json")
            if body and self.model is not None:
                strict.sent = await _checked_body(self.model, body, request)
            return await handler(strict)

        return checked


def body_model(endpoint: Callable[..., Any]) -> type[sent.In] | None:
    """Return the class of the body of an endpoint, or None."""
    for hint in get_type_hints(endpoint).values():
        for kind in (hint, *get_args(hint)):
            if inspect.isclass(kind) and issubclass(kind, sent.In):
                return kind
    return None


async def _checked_body(model: type[sent.In], body: bytes, request: Request) -> sent.In:
    if len(body) <= LIGHT_BYTES:
        return _sent(model, body)
    limiter: anyio.CapacityLimiter = request.app.state.body_checks
    return await anyio.to_thread.run_sync(_sent, model, body, limiter=limiter)


def _sent(model: type[sent.In], body: bytes) -> sent.In:
    try:
        return model.model_validate(parse(body, whole=True))
    except JsonError as error:
        raise ApiError(422, "bad_json", f"body: {error}") from None
    except ValidationError as error:
        details = error.errors(include_url=False)
        places = [{**detail, "loc": ("body", *detail["loc"])} for detail in details]
        raise RequestValidationError(places) from None


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.partition(";")
    charset = rest.replace(" ", "").lower()
    return kind.strip().lower() == "application/json" and charset in JSON_TYPES


router = APIRouter(
    prefix="/api/v1",
    route_class=ApiRoute,
    responses=ERRORS,
    generate_unique_id_function=lambda route: route.name,
)


# -- parameters ------------------------------------------------------------------------------------

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


def key_of(header: str | None, body: sent.Keyed) -> str | None:
    """Return the idempotency key of a request, from its header or its body."""
    if header is not None and body.key is not None and header != body.key:
        message = "the key in the header is not the key in the body"
        raise ApiError(422, "invalid", message, field="key")
    return body.key if header is None else header


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
    tree: dict[str, Any] = {"id": shown.id, "arm": shown.arm, "subject": shown.subject}
    if shown.segment is not None:
        tree["segment"] = shown.segment
    if shown.arm is None:
        names = out.BlindArmPulls.model_fields
        arms = [{name: getattr(part, name) for name in names} for part in shown.arms]
        tree |= {"pending": shown.pending, "arms": arms}
    return tree


def answer(content: Any, status: int = 200) -> JSONResponse:
    """Return a tree or a record of the library as a response; it is not validated again."""
    return JSONResponse(content if isinstance(content, dict) else content.to_dict(), status)


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
