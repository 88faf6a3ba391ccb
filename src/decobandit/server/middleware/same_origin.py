"""Which site a request comes from, and which host it was meant for.

A page of another site can make a browser send requests here with the user's cookie (CSRF), and a
name of another site can be made to resolve to this machine (DNS rebinding). Both are recognised by
headers that a page cannot set: Host, Origin, Sec-Fetch-Site.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope

from ..errors import ApiError
from ..sessions import COOKIE, cookie_of
from .base import RequestCheck
from .limits import SAFE_METHODS

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class SameOrigin(RequestCheck):
    """Refuses requests for other hosts (421), and changes that other sites ask for (403)."""

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str] = ()) -> None:
        super().__init__(app)
        self.allowed = {_bare(host) for host in (*LOCAL_HOSTS, *allowed_hosts)}

    async def check(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        check_host(headers.getlist("host"), self.allowed)
        check_path(scope["path"])
        if scope["method"] not in SAFE_METHODS and not scope["state"].get("cors"):
            check_origin(headers, scope["scheme"])
        return receive


def check_host(hosts: list[str], allowed: Iterable[str]) -> None:
    """Refuse a Host header that does not name this server."""
    if len(hosts) != 1 or _bare(hosts[0]) not in allowed:
        raise ApiError(421, "wrong_host", "this server does not answer for that host")


def check_path(path: str) -> None:
    """Refuse a path with characters that no path here has; databases refuse NUL."""
    if not path.isprintable():
        raise ApiError(404, "not_found", "there is no such address")


def check_origin(headers: Headers, scheme: str) -> None:
    """Refuse a change that a page of another site asks for."""
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    for site in sites:
        if site not in {"same-origin", "none"}:
            raise _cross_site()
    for origin in origins:
        # https as well: a proxy in front may speak TLS where this server does not
        if origin not in {f"{scheme}://{headers['host']}", f"https://{headers['host']}"}:
            raise _cross_site()
    by_cookie = "authorization" not in headers and cookie_of(headers) is not None
    if by_cookie and not (origins or sites):
        raise ApiError(
            403, "cross_site", f"a change by the cookie {COOKIE} needs the header Origin"
        )


def _cross_site() -> ApiError:
    return ApiError(403, "cross_site", "changes from pages of other sites are refused")


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
