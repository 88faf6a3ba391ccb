"""The router of the API: roles, content types and bodies are checked before an endpoint runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, get_args, get_type_hints

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError

from ...support.validation import JsonError, parse
from ..auth import SECURITY, access_of
from ..errors import CODES, ApiError
from .responses import ErrorOut
from .schemas import In

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
    409: "The request contradicts what is on record, or no slot is free.",
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
ERRORS[400] = {"description": _DOCUMENTED[400], "model": ErrorOut}


class StrictRequest(Request):
    """A request whose body was checked before: `json` returns the model."""

    sent: In | None = None

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


def body_model(endpoint: Callable[..., Any]) -> type[In] | None:
    """Return the class of the body of an endpoint, or None."""
    for hint in get_type_hints(endpoint).values():
        for kind in (hint, *get_args(hint)):
            if inspect.isclass(kind) and issubclass(kind, In):
                return kind
    return None


async def _checked_body(model: type[In], body: bytes, request: Request) -> In:
    if len(body) <= LIGHT_BYTES:
        return _sent(model, body)
    limiter: anyio.CapacityLimiter = request.app.state.body_checks
    return await anyio.to_thread.run_sync(_sent, model, body, limiter=limiter)


def _sent(model: type[In], body: bytes) -> In:
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
