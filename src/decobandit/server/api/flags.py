"""Trials as feature flags: the OpenFeature Remote Evaluation Protocol (OFREP) 0.3.

A flag is a trial with single pulls, its value the name of an arm. The targeting key is the subject:
its first evaluation allocates an arm, every later one returns the same. Subjects that come while an
event is written share the next one (`Desk`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from ...support import Cache
from ...support.validation import JsonError, parse
from ...trials import Allocation, NotFound, Trial, TrialError
from ...trials.events import line_of
from ...trials.ledger import Ledger
from ...trials.lists import page_of_trials
from ..auth import allow
from ..errors import ApiError, api_error
from . import responses as out
from . import schemas as sent
from .routing import ERRORS, MAX_TRIALS, ApiRoute, TrialId, made, opened

FRESH_SECONDS = 1.0  # for which the trial is not read again for a subject that has its allocation
DRAWN_TOGETHER = 8  # allocations drawn ahead that are asked for at once
SERVER = "server"  # who asks for them, in the log
REFUSED = (400, 409, 422)  # statuses of refusals that OFREP answers by 400


# -- allocations of subjects ----------------------------------------------------------------------


class Desk:
    """Allocations of one trial by subject; keeps `ahead` of them drawn ahead."""

    def __init__(self, trial: Trial, ahead: int) -> None:
        self.trial = trial
        problem = trial.problem
        # the flag's value is one arm; a stock has no place for segments
        self.single = problem.pulls_per_stage == 1 and not problem.is_restless
        self.ahead = 0 if problem.segments or not self.single else ahead
        self._read_at = time.monotonic()
        self._waiting: dict[str, list[tuple[str, asyncio.Future[Allocation | None]]]] = {}
        self._assigning: asyncio.Task[None] | None = None
        self._drawing: asyncio.Task[None] | None = None

    async def allocation(self, subject: str, segment: str | None, by: str) -> Allocation:
        """Return the allocation of a subject; allocate an arm if it has none."""
        ledger, slot = await self._ledger(), None
        if subject in ledger.subjects:
            slot = ledger.allocations[ledger.subjects[subject]]
            if slot.segment == segment:
                return slot
        elif ledger.ahead and segment is None:
            slot = await self._assigned(subject, by)
        if slot is None or slot.segment != segment:
            change = self.trial.asking(subject=subject, segment=segment, by=by)
            slot = await made(change)
        if self._drawing is None and 2 * len(self.trial.latest.ahead) < self.ahead:
            self._drawing = asyncio.ensure_future(self._draw())
        return slot

    async def _ledger(self) -> Ledger:
        """Return the trial as it was read last, a second ago at most by requests before this."""
        now = time.monotonic()
        if now - self._read_at >= FRESH_SECONDS:
            self._read_at = now
            return await run_in_threadpool(self.trial.read)
        return self.trial.latest

    async def _assigned(self, subject: str, by: str) -> Allocation | None:
        """Return an allocation drawn ahead; None if the subject has to ask."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(by, []).append((subject, future))
        if self._assigning is None:
            self._assigning = asyncio.ensure_future(self._assign())
        slot: Allocation | None = await future
        return slot

    async def _assign(self) -> None:
        """Give all waiting subjects their allocations; those of one sender in one event."""
        while self._waiting:
            by = next(iter(self._waiting))
            waiting = self._waiting.pop(by)
            slots: dict[str, Allocation] = {}
            error: Exception | None = None
            try:
                slots = await made(self.trial.assigning([name for name, _ in waiting], by=by))
            except Exception as failure:
                error = failure
            for subject, future in waiting:
                if not future.done() and error is not None:
                    future.set_exception(error)
                elif not future.done():
                    future.set_result(slots.get(subject))
        self._assigning = None

    async def _draw(self) -> None:
        """Draw allocations ahead, until there are enough or the trial refuses more."""
        try:
            while (missing := self.ahead - len(self.trial.latest.ahead)) > 0:
                asks = [self.trial.asking(ahead=True, by=SERVER) for _ in range(DRAWN_TOGETHER)]
                await asyncio.gather(*map(made, asks[:missing]))
        except TrialError:  # no slot is free, or the trial was closed
            await asyncio.sleep(FRESH_SECONDS)
        finally:
            self._drawing = None


class Desks:
    """The desks of a server; `ahead`: allocations of each trial that are drawn ahead."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._desks = Cache[str, Desk](MAX_TRIALS)

    def of(self, trial: Trial) -> Desk:
        return self._desks.get_or_make(trial.id, lambda: Desk(trial, self._ahead))


# -- the protocol ---------------------------------------------------------------------------------


class FlagError(Exception):
    """An evaluation that failed, by the codes of OpenFeature."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        super().__init__(details)
        self.code, self.status = code, status

    def tree(self, key: str | None) -> dict[str, Any]:
        failure = {"errorCode": self.code, "errorDetails": str(self)}
        return failure if key is None else {"key": key, **failure}


class FlagRoute(ApiRoute):
    """Route that checks role and context; its refusals have the form of OFREP.

    Calls its endpoint itself: evaluations are frequent, and have one parameter.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def evaluated(request: Request) -> Response:
            trial = request.path_params.get("trial")
            try:
                with_trial = {} if trial is None else {"trial": trial}
                await self.access.check(request)
                body = _context_of(await request.body())
                answer: Response = await self.endpoint(request=request, body=body, **with_trial)
                return answer
            except (TrialError, FlagError) as error:
                failure = _failure(request, error)
                return JSONResponse(failure.tree(trial), failure.status)

        return evaluated


def _context_of(body: bytes) -> sent.FlagIn:
    try:
        return sent.FlagIn.model_validate(parse(body))
    except (JsonError, ValidationError):
        raise FlagError("PARSE_ERROR", 'the body must be JSON: {"context": {...}}') from None


def _failure(request: Request, error: TrialError | FlagError) -> FlagError:
    """Return the failure of an evaluation; raise errors of another kind, as of a database."""
    if isinstance(error, FlagError):
        return error
    if isinstance(error, NotFound):
        return FlagError("FLAG_NOT_FOUND", "no trial has this name or id", 404)
    refusal = api_error(error, request.scope)
    if refusal.status_code not in REFUSED:
        raise refusal from None
    invalid = refusal.field in ("segment", "subject") and refusal.code != "conflict"
    return FlagError("INVALID_CONTEXT" if invalid else "GENERAL", str(refusal))


async def _evaluated(request: Request, key: str, trial: Trial, body: sent.FlagIn) -> dict[str, Any]:
    subject, segment = body.context.get("targetingKey"), body.context.get("segment")
    if subject in (None, ""):
        raise FlagError("TARGETING_KEY_MISSING", "context.targetingKey must name the subject")
    desk: Desk = request.app.state.desks.of(trial)
    if not desk.single:
        raise FlagError("GENERAL", "the trial allocates several pulls at once: it is not a flag")
    named = segment if trial.problem.segments else None  # otherwise an attribute of their own
    by = request.state.principal.name
    segment = None if named is None else line_of(named, "segment")
    slot = await desk.allocation(line_of(subject, "subject"), segment, by)
    if slot.arm is None:
        raise FlagError("GENERAL", "no arm can be paid at this stage")
    metadata: dict[str, Any] = {"allocation": slot.id}
    if slot.probability is not None:
        metadata["probability"] = slot.probability
    value = {"value": slot.arm, "variant": slot.arm, "reason": "SPLIT"}
    return {"key": key, **value, "metadata": metadata}


router = APIRouter(
    prefix="/ofrep/v1",
    route_class=FlagRoute,
    responses=ERRORS
    | {
        400: {"model": out.FlagFailure},
        404: {"model": out.FlagFailure | out.ErrorOut},  # no such flag, or no such address
    },
    generate_unique_id_function=lambda route: route.name,
)


@router.post("/evaluate/flags/{trial}", response_model=out.FlagOut)
@allow("admin", "app")
async def flag_evaluate(request: Request, trial: TrialId, body: sent.FlagIn) -> Response:
    """Return the arm of a subject, as OFREP evaluates one flag."""
    return JSONResponse(await _evaluated(request, trial, await opened(request, trial), body))


@router.post("/evaluate/flags", response_model=out.FlagsOut)
@allow("admin", "app")
async def flags_evaluate(
    request: Request,
    body: sent.FlagIn,
    if_none_match: Annotated[str | None, Header(description="ETag of an earlier answer.")] = None,
) -> Response:
    """Return the arms of a subject in all trials of the token that are flags."""
    if not body.context.get("targetingKey"):
        raise FlagError("TARGETING_KEY_MISSING", "context.targetingKey must name the subject")
    only, store = request.state.principal.only_trials, request.app.state.store
    listed = await run_in_threadpool(lambda: page_of_trials(store, only=only).items)
    flags = await asyncio.gather(*(_listed(request, one.name, body) for one in listed))
    content = json.dumps({"flags": [flag for flag in flags if flag is not None]}).encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    known = request.headers.get("if-none-match", "").split(",")
    if {tag, "*"} & {one.strip().removeprefix("W/") for one in known}:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type="application/json", headers={"ETag": tag})


async def _listed(request: Request, name: str, body: sent.FlagIn) -> dict[str, Any] | None:
    """Return the evaluation of one of several trials, or its failure; None if it is no flag."""
    try:
        trial = await opened(request, name)
        if not request.app.state.desks.of(trial).single:
            return None
        return await _evaluated(request, name, trial, body)
    except (TrialError, FlagError, ApiError) as error:
        if isinstance(error, ApiError):
            return FlagError("GENERAL", str(error)).tree(name)
        return _failure(request, error).tree(name)
