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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..support import Place, dotted, one_line
from ..support.errors import error_dict
from ..trials import errors as refusals
from ..trials.errors import Damaged, StoreError, TrialError
from .principal import is_blinded

log = logging.getLogger("decobandit.server")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
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


def error_response(error: HTTPException) -> JSONResponse:
    """Return an error that has a status as JSON."""
    if not isinstance(error, ApiError):
        code = CODES.get(error.status_code, "error")
        error = ApiError(error.status_code, code, str(error.detail), error.headers)
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


def stopping() -> ApiError:
    """Return the answer to a request that is dropped because the server stops."""
    again = {"Retry-After": "5", "Connection": "close"}
    return ApiError(503, "unavailable", "the server stops; try again", again)


def trial_error(error: TrialError, *, blinded: bool) -> ApiError:
    """Return status, code and message of a refusal by a trial.

    Of a database that fails, the log has the details: they may name its file, its host or its user.
    What is wrong with the record of a trial is for those who may read it: it tells how long the
    trial is.
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


def trial_response(error: TrialError, *, blinded: bool) -> JSONResponse:
    """Return the refusal as JSON."""
    return error_response(trial_error(error, blinded=blinded))


def validation_response(error: RequestValidationError) -> JSONResponse:
    """Return the first error and its place; the refused value is not repeated."""
    places: list[str] = []  # one_line names the place of one error, the one it picks

    def where(keys: Place) -> str:
        places.append(_short_place(keys))
        return places[-1]

    message = one_line(error.errors(), where=where, show_value=False)
    field = _printable(places[0])
    return error_response(ApiError(422, "invalid", _printable(message), field=field))


def _short_place(keys: Place) -> str:
    place = dotted(keys)
    return place if len(place) <= _MAX_PLACE else place[:_MAX_PLACE] + "..."


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _method_refused(scope: Scope) -> ApiError:
    """With the methods of all routes of the path: a route knows its own only."""
    request_scope = {"type": "http", "path": scope["path"], "root_path": scope.get("root_path", "")}
    allowed = ", ".join(
        method
        for method in METHODS
        if any(
            route.matches({**request_scope, "method": method})[0] is Match.FULL
            for route in scope["app"].routes
        )
    )
    method = scope["method"] if scope["method"] in METHODS else "this method"
    return ApiError(
        405, CODES[405], f"{method} is not allowed here; the path has {allowed}", {"Allow": allowed}
    )


def install(app: FastAPI) -> None:
    """Turn the errors of routes into responses."""

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            return error_response(_method_refused(request.scope))
        return error_response(error)

    async def trial(request: Request, error: Exception) -> Response:
        assert isinstance(error, TrialError)
        return trial_response(error, blinded=is_blinded(request.scope))

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return validation_response(error)

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(TrialError, trial)
    app.add_exception_handler(RequestValidationError, validation)


class CatchAll:
    """Logs every other error, and answers it without details."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except (Exception, asyncio.CancelledError) as error:
            if scope["type"] != "http" or started:
                raise  # the response has begun: the connection can only be closed
            await _unhandled_response(error, scope)(scope, receive, send)


def _unhandled_response(error: BaseException, scope: Scope) -> Response:
    if isinstance(error, asyncio.CancelledError):  # the server does not wait for it any longer
        return error_response(stopping())
    if isinstance(error, HTTPException):
        return error_response(error)
    if isinstance(error, TrialError):
        return trial_response(error, blinded=is_blinded(scope))
    return error_response(internal(error, scope))


def internal(error: BaseException, scope: Scope) -> ApiError:
    """Return the answer to an internal error, with the number of its log entry."""
    number = secrets.token_hex(4)
    log.error("error %s in %s %r", number, scope["method"], scope["path"], exc_info=error)
    return ApiError(500, "internal", f"internal error; the log of the server has it as {number}")
