"""Errors as JSON: {"error": {"code", "message"}}, the same form for every way to fail.

An operator must not learn how a trial goes from what fails, and nobody learns how the server is
built: unexpected errors are logged under a number, and only the number is told.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..trials.errors import Conflict, Damaged, NoFreeSlot, NotFound, StoreError, TrialError

log = logging.getLogger("decobandit.web")

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
_TRIAL_CODES: dict[type[TrialError], str] = {
    NotFound: "not_found", NoFreeSlot: "no_free_slot", Conflict: "conflict", Damaged: "damaged",
}  # fmt: skip
_MOST_PLACE = 100  # characters of the place of a mistake: its keys are the client's own


class ApiError(HTTPException):
    """An answer other than success."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code


def error_response(error: HTTPException) -> JSONResponse:
    """An error that has a status, as JSON."""
    code = error.code if isinstance(error, ApiError) else CODES.get(error.status_code, "error")
    return _json(error.status_code, code, str(error.detail), error.headers)


def trial_response(error: TrialError, *, blinded: bool) -> JSONResponse:
    """What a trial refused. The details of a damaged database tell how long a trial is."""
    code = _TRIAL_CODES.get(type(error), CODES.get(error.status, "error"))
    if isinstance(error, StoreError):
        log.error("database: %s", error)
        message = "the database of trials cannot be used" if blinded else str(error)
        again = {} if isinstance(error, Damaged) else {"Retry-After": "5"}
        return _json(error.status, code, message, again)
    return _json(error.status, code, str(error))


def validation_response(error: RequestValidationError) -> JSONResponse:
    """The first mistake and its place; the refused value is not repeated."""
    first = error.errors()[0]
    place = ".".join(str(key) for key in first["loc"])
    shown = place if len(place) <= _MOST_PLACE else place[:_MOST_PLACE] + "..."
    return _json(422, "invalid", f"{_printable(shown)}: {_printable(str(first['msg']))}")


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _json(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def is_blinded(scope: Mapping[str, Any]) -> bool:
    """Whether whoever asks may not know how a trial goes: operators, and strangers."""
    principal = scope.get("state", {}).get("principal")
    return principal is None or principal.role == "operator"


def install(app: FastAPI) -> None:
    """Turn the errors of routes into answers."""

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
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
    """The last net: whatever else goes wrong is logged, and answered without details."""

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
        except Exception as error:
            if scope["type"] != "http" or started:
                raise  # half an answer is out: closing the connection is all that is left
            await _last_answer(error, scope)(scope, receive, send)


def _last_answer(error: Exception, scope: Scope) -> Response:
    if isinstance(error, HTTPException):
        return error_response(error)
    if isinstance(error, TrialError):
        return trial_response(error, blinded=is_blinded(scope))
    number = secrets.token_hex(4)
    log.error("error %s in %s %r", number, scope["method"], scope["path"], exc_info=error)
    return _json(500, "internal", f"something went wrong here; the log has it as {number}")
