"""Rules for pages in browsers, of this site and of other sites.

`SecurityHeaders` restricts what a browser does with a response, errors included; a route that needs
another value sets the header itself. `Cors` lets pages of named sites use the API, with a token of
their own: cookies are never allowed. `SameOrigin` recognises changes that a page of another site
makes a browser send with the user's cookie (CSRF), and names of other sites that resolve to this
machine (DNS rebinding), both by headers that a page cannot set: Host, Origin, Sec-Fetch-Site.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from .auth import COOKIE, cookie_of
from .errors import ApiError
from .limits import SAFE_METHODS
from .request_context import HttpMiddleware, at_start

APIS = ("/api/v1/", "/ofrep/v1/")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-None-Match, "
    "X-Request-ID",
    "Access-Control-Max-Age": "600",
}
ALLOWING = {"Access-Control-Expose-Headers": "ETag, Retry-After, X-Request-ID"}


# -- headers of every response ------------------------------------------------------------------


# nothing from elsewhere, no inline script
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# of a page whose figures write styles
INLINE_STYLES = CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

DEFAULTS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in DEFAULTS.items()]


class SecurityHeaders(HttpMiddleware):
    """Adds DEFAULTS to every response; must be the outermost middleware."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        def restrict(start: Message) -> None:
            there = {name for name, _ in start["headers"]}
            start["headers"].extend(one for one in _RAW if one[0] not in there)

        await self.app(scope, receive, at_start(send, restrict))


# -- pages of other sites -----------------------------------------------------------------------


def checked_origin(text: str) -> str:
    """Return an origin as browsers send it; refuse anything else."""
    if not _ORIGIN.fullmatch(text.lower()):
        raise ValueError(
            f"--cors-origin: {text!r} is not allowed; must be scheme://host or scheme://host:port, "
            "such as https://app.example.org"
        )
    return text.lower()


@dataclass(eq=False)
class Cors(HttpMiddleware):
    """Lets pages of named origins read answers of the API, and send requests with a token."""

    origins: Collection[str] = ()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.origins or not scope["path"].startswith(APIS):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        is_allowed = headers.getlist("origin") == [origin] and origin in self.origins
        allowing = ALLOWING | {"Access-Control-Allow-Origin": origin} if is_allowed else {}
        preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if is_allowed and preflight:
            answer = Response(status_code=204, headers={"Vary": "Origin"} | allowing | PREFLIGHT)
            await answer(scope, receive, send)
            return
        # a page cannot set this header of another site without being asked about above
        scope.setdefault("state", {})["cors"] = is_allowed and "authorization" in headers

        def vary(start: Message) -> None:
            response_headers = MutableHeaders(scope=start)
            response_headers.add_vary_header("Origin")
            response_headers.update(allowing)

        await self.app(scope, receive, at_start(send, vary))


@dataclass(eq=False)
class SameOrigin(HttpMiddleware):
    """Refuses requests for other hosts (421), and changes that other sites ask for (403)."""

    allowed_hosts: Collection[str] = ()

    def __post_init__(self) -> None:
        self.allowed = {_bare(host) for host in (*LOCAL_HOSTS, *self.allowed_hosts)}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _bare(hosts[0]) not in self.allowed:
            raise ApiError(421, "wrong_host", "this server does not answer for that host")
        if not scope["path"].isprintable():  # databases refuse NUL
            raise ApiError(404, "not_found", "there is no such address")
        if scope["method"] not in SAFE_METHODS and not scope["state"].get("cors"):
            _check_origin(headers, scope["scheme"])
        await self.app(scope, receive, send)


def _check_origin(headers: Headers, scheme: str) -> None:
    """Refuse a change that a page of another site asks for."""
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    # https as well: a proxy in front may speak TLS where this server does not
    expected = {f"{scheme}://{headers['host']}", f"https://{headers['host']}"}
    if not (set(origins) <= expected and set(sites) <= {"same-origin", "none"}):
        raise ApiError(403, "cross_site", "changes from pages of other sites are refused")
    by_cookie = "authorization" not in headers and cookie_of(headers) is not None
    if by_cookie and not (origins or sites):
        text = f"a change by the cookie {COOKIE} needs the header Origin"
        raise ApiError(403, "cross_site", text)


def _bare(host: str) -> str:
    """Return a host without its port, in lower case; empty if it is not a host."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        return ""
    return (parts.hostname or "").rstrip(".")
