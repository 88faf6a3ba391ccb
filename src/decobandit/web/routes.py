"""The route class of the API: first who asks, then what is sent, then the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from .auth import check_role
from .errors import ApiError
from .strict_json import JsonError, parse


class StrictRequest(Request):
    """A request whose JSON is read by our own reader."""

    async def json(self) -> Any:
        try:
            return parse(await self.body(), max_bytes=self.app.state.limits.body_bytes)
        except JsonError as error:
            raise ApiError(422, "bad_json", f"body: {error}") from None


class ApiRoute(APIRoute):
    """Checks the role of whoever asks, and the type of what they send, before it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        roles: tuple[str, ...] = self.endpoint.roles  # type: ignore[attr-defined]

        async def checked(request: Request) -> Response:
            check_role(request.state.principal, roles)
            strict = StrictRequest(request.scope, request.receive)
            if await strict.body() and not _is_json(strict.headers.get("content-type", "")):
                raise ApiError(415, "not_json", "the body must be application/json")
            return await handler(strict)

        return checked


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.partition(";")
    charset = rest.replace(" ", "").lower()
    return kind.strip().lower() == "application/json" and charset in {
        "", "charset=utf-8", 'charset="utf-8"',
    }  # fmt: skip
