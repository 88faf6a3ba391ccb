"""The route class of the API: checks role, content type and body, then calls the endpoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, get_args, get_type_hints

import anyio
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError

from ..auth import access_of
from ..errors import ApiError
from .plain_calls import plain_call
from .schemas import In
from .strict_json import JsonError, parse

LIGHT_BYTES = 8 * 1024  # of a body that is checked at once; a larger one is checked in a thread
MAX_CHECKS = 2  # bodies that are checked in threads at once


class StrictRequest(Request):
    """A request whose body was checked before: `json` returns the model."""

    sent: In | None = None

    async def json(self) -> Any:
        return self.sent


class ApiRoute(APIRoute):
    """Checks role and content type before the body is parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        access, plainly = access_of(self.endpoint), plain_call(self)
        model = body_model(self.endpoint)

        async def checked(request: Request) -> Response:
            await access.check(request)
            strict = StrictRequest(request.scope, request.receive)
            body = await strict.body()
            if body and not _is_json(strict.headers.get("content-type", "")):
                raise ApiError(415, "not_json", "the body must be application/json")
            if body and model is not None:
                strict.sent = await _checked_body(model, body, request)
            answer = None if plainly is None else await plainly(strict, strict.sent)
            return await handler(strict) if answer is None else answer

        return checked


def body_model(endpoint: Callable[..., Any]) -> type[In] | None:
    """The class of the body that an endpoint takes, if it takes one."""
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
    return kind.strip().lower() == "application/json" and charset in {
        "",
        "charset=utf-8",
        'charset="utf-8"',
    }
