"""Pages of other sites that may use the API from a browser (CORS), with a token of their own.

Cookies are never allowed: a request of such a page counts only by the token that it sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .base import HttpMiddleware

API = "/api/v1/"
_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, X-Request-ID",
    "Access-Control-Max-Age": "600",
}


def checked_origin(text: str) -> str:
    """Return an origin as browsers send it; refuse anything else."""
    if not _ORIGIN.fullmatch(text.lower()):
        raise ValueError(
            f"--cors-origin: {text!r} is not allowed; must be scheme://host or scheme://host:port, "
            "such as https://app.example.org"
        )
    return text.lower()


class Cors(HttpMiddleware):
    """Lets pages of named origins read answers of the API, and send requests with a token."""

    def __init__(self, app: ASGIApp, *, origins: Iterable[str] = ()) -> None:
        super().__init__(app)
        self.origins = frozenset(origins)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.origins or not scope["path"].startswith(API):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.getlist("origin")
        is_allowed = len(origin) == 1 and origin[0] in self.origins
        if (
            is_allowed
            and scope["method"] == "OPTIONS"
            and "access-control-request-method" in headers
        ):
            answer = Response(status_code=204, headers=_allowing(origin[0]) | PREFLIGHT)
            await answer(scope, receive, send)
            return
        # a page cannot set this header of another site without being asked about above
        scope.setdefault("state", {})["cors"] = is_allowed and "authorization" in headers

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                response_headers.add_vary_header("Origin")
                if is_allowed:
                    response_headers.update(_allowing(origin[0]))
            await send(message)

        await self.app(scope, receive, with_headers)


def _allowing(origin: str) -> dict[str, str]:
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": "Retry-After, X-Request-ID",
        "Vary": "Origin",
    }
