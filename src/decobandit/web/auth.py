"""Who asks: from a bearer token, or from the session cookie that a browser got for one.

Every route says by `allow` who may use it; `routes.ApiRoute` refuses to be made without.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..trials.store import Store
from .errors import ApiError, error_response
from .limits import Buckets, Limits, address_of, too_many
from .sessions import COOKIE, Sessions, cookie_of
from .tokens import Role, Token, TokenBook

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
EVERYBODY: tuple[Role, ...] = ("admin", "operator", "viewer")


@dataclass(frozen=True)
class Principal:
    """Who asks."""

    name: str
    role: str
    token_id: str | None
    via: Literal["bearer", "cookie", "loopback"]

    @property
    def blinded(self) -> bool:
        """Whether they must not know how a trial goes."""
        return self.role not in {"admin", "viewer"}


class Guard:
    """Tokens, sessions and failed attempts of one server."""

    def __init__(self, store: Store, *, limits: Limits, auth: bool) -> None:
        self.auth = auth
        self.book = TokenBook(store, clock=limits.clock)
        self.sessions = Sessions(clock=limits.clock)
        self.failures = Buckets(
            limits.failed_rate, limits.failed_burst, most=limits.clients, clock=limits.clock
        )

    def identify(self, scope: Scope) -> Principal | None:
        """Who asks; None for nobody known. A wrong token is counted against its address."""
        if not self.auth:
            return Principal("loopback", "admin", None, "loopback") if _local(scope) else None
        headers = Headers(scope=scope)
        if "authorization" in headers:
            return self._by_bearer(headers.getlist("authorization"), scope)
        cookie = cookie_of(headers)
        return None if cookie is None else self._by_cookie(cookie)

    def _by_bearer(self, values: list[str], scope: Scope) -> Principal:
        scheme, _, secret = values[0].partition(" ")
        if len(values) == 1 and scheme.lower() == "bearer":
            token = self.book.find(secret.strip())
            if token is not None:
                return Principal(token.name, token.role, token.id, "bearer")
        raise self._failed(scope)

    def _by_cookie(self, cookie: str) -> Principal | None:
        token_id = self.sessions.token_of(cookie)
        token = None if token_id is None else self.book.by_id(token_id)
        if token is None:
            self.sessions.end(cookie)  # its token was revoked
            return None
        return Principal(token.name, token.role, token.id, "cookie")

    def log_in(self, scope: Scope, secret: str) -> tuple[Token, str]:
        """The token of that word and a new session; 401 or 429 for a wrong one."""
        token = self.book.find(secret.strip())
        if token is None:
            raise self._failed(scope)
        return token, self.sessions.begin(token.id)

    def _failed(self, scope: Scope) -> ApiError:
        wait = self.failures.take(address_of(scope))
        return too_many(wait) if wait else unauthorized()

    def tokens_changed(self) -> None:
        """Look at the table again; sessions of tokens that are gone end when they are used."""
        self.book.forget()


class Identify:
    """Finds out who asks, before anything is read; puts it in `request.state.principal`."""

    def __init__(self, app: ASGIApp, *, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["principal"] = None
        try:
            if self.guard.auth and self.guard.book.stale:
                await run_in_threadpool(self.guard.book.refresh)
            state["principal"] = self.guard.identify(scope)
        except ApiError as error:
            await error_response(error)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def unauthorized() -> ApiError:
    """The answer to who is not known."""
    return ApiError(401, "unauthorized", "a valid token is needed", {"WWW-Authenticate": "Bearer"})


def check_role(principal: Principal | None, roles: tuple[str, ...]) -> None:
    """Refuse who may not: 401 for strangers, 403 for others. No roles: open to all."""
    if roles and principal is None:
        raise unauthorized()
    if roles and principal is not None and principal.role not in roles:
        raise ApiError(403, "forbidden", "your role may not do this")


def allow(*roles: Role) -> Callable[[Endpoint], Endpoint]:
    """Mark a route with the roles that may use it; none means that no token is needed."""

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.roles = roles  # type: ignore[attr-defined]
        return endpoint

    return mark


async def _caller(  # not in a thread: it only looks
    request: Request,
    _bearer: Annotated[object, Depends(HTTPBearer(auto_error=False, scheme_name="token"))],
    _cookie: Annotated[
        object, Depends(APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session"))
    ],
) -> Principal:
    # the schemes are there for the OpenAPI document; `Identify` has done the work
    principal: Principal | None = request.state.principal
    if principal is None:
        raise unauthorized()
    return principal


Caller = Annotated[Principal, Depends(_caller)]


def _local(scope: Scope) -> bool:
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except (KeyError, TypeError, ValueError):
        return False
