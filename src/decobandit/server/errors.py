"""Errors as JSON: {"error": {"code", "field", "message"}}; `field` only where there is one.

Errors must not tell an operator how a trial is going, nor anybody how the server is built:
unexpected errors are logged under a number, and the answer has the number only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from ..support import Place, dotted, one_line
from ..support.errors import error_dict
from ..trials import errors as refusals
from ..trials.errors import Damaged, StoreError, TrialError
from .request_context import HttpMiddleware, at_start, is_blinded

log = logging.getLogger("decobandit.server")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# of refusals that are not our own: Starlette's, and the statuses that the API documents
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "not_json",
    421: "wrong_host",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    503: "unavailable",
}
# status of what a trial or its database refuses; its code is the exception's own
_TRIAL_ERRORS: tuple[tuple[type[TrialError], int], ...] = (
    (refusals.NotFound, 404),
    (refusals.Conflict, 409),
    (refusals.NotPermitted, 403),
    (StoreError, 503),
    (refusals.OutOfMemory, 503),
    (refusals.BadOutcome, 422),
    (refusals.OutOfRange, 422),
    (TrialError, 400),
)
_MAX_PLACE = 100  # characters of the place of an error: its keys are the client's own
DATABASE_FAILED = "the database of trials cannot be used"


class ApiError(HTTPException):
    """Refusal with a status, a code and the field at fault."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        field: str | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.field = code, field

    def __str__(self) -> str:
        return str(self.detail)


def error_response(error: ApiError) -> JSONResponse:
    """Return an error as JSON."""
    return JSONResponse(error_dict(error), error.status_code, dict(error.headers or {}))


def unauthorized() -> ApiError:
    """Return the answer to a request that is not authenticated."""
    return ApiError(401, "unauthorized", "a valid token is needed", {"WWW-Authenticate": "Bearer"})


def busy(message: str = "too many requests at once", seconds: int = 1) -> ApiError:
    """Return the answer when all places are taken."""
    return ApiError(503, "busy", message, {"Retry-After": str(seconds)})


def database_silent() -> ApiError:
    """Return the answer when the database does not answer in time."""
    return ApiError(503, "unavailable", "the database does not answer", {"Retry-After": "5"})


def trial_error(error: TrialError, *, blinded: bool) -> ApiError:
    """Return status, code and message of a refusal by a trial.

    Details of a failing database are only in the log: they may name its file, host or user. Details
    of a failed integrity check are only for people who may read the trial: they reveal its length.
    """
    status = next(status for kind, status in _TRIAL_ERRORS if isinstance(error, kind))
    again = {} if isinstance(error, Damaged) or status != 503 else {"Retry-After": "5"}
    if isinstance(error, refusals.BadOutcome) and blinded:
        text = "outcome: not one that the arm of the allocation can have"
        return ApiError(status, error.code, text, field="outcome")
    if not isinstance(error, StoreError):
        text = error.for_blinded if blinded and error.for_blinded else str(error)
        field = None if blinded else error.field
        return ApiError(status, error.code, text, again, field=field)
    log.error("database: %s", error)
    of_record = isinstance(error, Damaged) and str(error).startswith("trial ")
    text = str(error) if of_record and not blinded else DATABASE_FAILED
    return ApiError(status, error.code, text, again)


def _validation_error(error: RequestValidationError) -> ApiError:
    """Return the first error and its place; the refused value is not repeated."""
    places: list[str] = []  # one_line names the place of one error, the one it picks

    def where(keys: Place) -> str:
        place = dotted(keys)
        place = place if len(place) <= _MAX_PLACE else f"{place[:_MAX_PLACE]}..."
        places.append("".join(sign if sign.isprintable() else "?" for sign in place))
        return places[-1]

    message = one_line(error.errors(), where=where, show_value=False)
    return ApiError(422, "invalid", message, field=places[0])


def _method_refused(scope: Scope) -> ApiError:
    """With the methods of all routes of the path: a route knows its own only."""
    request_scope = {"type": "http", "path": scope["path"], "root_path": scope.get("root_path", "")}

    def fits(method: str) -> bool:
        wanted = request_scope | {"method": method}
        return any(one.matches(wanted)[0] is Match.FULL for one in scope["app"].routes)

    allowed = ", ".join(filter(fits, METHODS))
    method = scope["method"] if scope["method"] in METHODS else "this method"
    text = f"{method} is not allowed here; the path has {allowed}"
    return ApiError(405, CODES[405], text, {"Allow": allowed})


def api_error(error: BaseException, scope: Scope) -> ApiError:
    """Return the answer to a request that ended with this error."""
    if isinstance(error, TrialError):
        return trial_error(error, blinded=is_blinded(scope))
    if isinstance(error, RequestValidationError):
        return _validation_error(error)
    if isinstance(error, asyncio.CancelledError):  # the server does not wait for it any longer
        again = {"Retry-After": "5", "Connection": "close"}
        return ApiError(503, "unavailable", "the server stops; try again", again)
    if not isinstance(error, HTTPException):  # of the program itself: the log has it by a number
        number = secrets.token_hex(4)
        log.error("error %s in %s %r", number, scope["method"], scope["path"], exc_info=error)
        text = f"internal error; the log of the server has it as {number}"
        return ApiError(500, "internal", text)
    if error.status_code == 405:
        return _method_refused(scope)
    if isinstance(error, ApiError):
        return error
    code = CODES.get(error.status_code, "error")
    return ApiError(error.status_code, code, str(error.detail), error.headers)


def install(app: FastAPI) -> None:
    """Turn the errors of routes into responses."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(api_error(error, request.scope))

    for kind in (HTTPException, TrialError, RequestValidationError):
        app.add_exception_handler(kind, answer)


class CatchAll(HttpMiddleware):
    """Answers every other error, without details."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        starts: list[Message] = []
        try:
            await self.app(scope, receive, at_start(send, starts.append))
        except (Exception, asyncio.CancelledError) as error:
            if starts:
                raise  # the response has begun: the connection can only be closed
            await error_response(api_error(error, scope))(scope, receive, send)
