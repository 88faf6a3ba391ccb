"""The route class of the API: checks the role, then the content type, then calls the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from ..auth import access_of
from ..errors import ApiError
from .plain_calls import plain_call
from .strict_json import JsonError, parse


class StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def json(self) -> Any:
        try:
            return parse(await self.body())
        except JsonError as error:
            raise ApiError(422, "bad_json", f"body: {error}") from None


class ApiRoute(APIRoute):
    """Checks role and content type before the body is parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        access, plainly = access_of(self.endpoint), plain_call(self)

        async def checked(request: Request) -> Response:
            await access.check(request)
            strict = StrictRequest(request.scope, request.receive)
            body = await strict.body()
            if body and not _is_json(strict.headers.get("content-type", "")):
                raise ApiError(415, "not_json", "the body must be application/json")
            answer = None if plainly is None else await plainly(strict, body)
            return await handler(strict) if answer is None else answer

        return checked


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.partition(";")
    charset = rest.replace(" ", "").lower()
    return kind.strip().lower() == "application/json" and charset in {
        "", "charset=utf-8", 'charset="utf-8"',
    }  # fmt: skip
