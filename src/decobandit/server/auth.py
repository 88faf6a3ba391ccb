"""Authentication: by a bearer token, or by the session cookie that a browser got for one.

Every route says by `allow` which roles may use it; a route without it cannot be made.

After the login a browser keeps a random cookie, not the token. Sessions are kept in memory only, as
digests: a restart of the server ends them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import anyio
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..trials import open_trial
from ..trials.database import Store
from ..trials.errors import NotFound
from .errors import ApiError, database_silent, unauthorized
from .limits import Buckets, Limits, address_of, too_many
from .recorder import Recorder
from .request_context import HttpMiddleware, Principal
from .tokens import Role, Token, TokenCache

COOKIE = "deco_session"
MAX_SESSION_SECONDS = 12 * 3600.0  # seconds from the login
MAX_IDLE_SECONDS = 2 * 3600.0  # seconds between two requests
MAX_SESSIONS = 20  # of one token; the one unused for longest is dropped


@dataclass(frozen=True)
class _Session:
    token_id: str
    begun: float
    used: float


class Sessions:
    """Random ids that stand for a token, for some hours."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_digest: dict[bytes, _Session] = {}  # the one unused for longest first

    def begin(self, token_id: str) -> str:
        """Begin a session; the returned value goes into the cookie."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            # many logins with one token must not end the sessions of others
            same = [key for key, one in self._by_digest.items() if one.token_id == token_id]
            if len(same) >= MAX_SESSIONS:
                del self._by_digest[same[0]]
            self._by_digest[_digest(secret)] = _Session(token_id, now, now)
        return secret

    def token_of(self, secret: str) -> str | None:
        """Return the id of the token of a cookie; counts as a use of the session."""
        digest, now = _digest(secret), self._clock()
        with self._lock:
            session = self._by_digest.pop(digest, None)
            if session is None or now - session.begun > MAX_SESSION_SECONDS:
                return None
            if now - session.used > MAX_IDLE_SECONDS:
                return None
            self._by_digest[digest] = replace(session, used=now)
            return session.token_id

    def end(self, secret: str) -> None:
        with self._lock:
            self._by_digest.pop(_digest(secret), None)


def cookie_of(headers: Headers) -> str | None:
    """Return the session cookie of a request; None if there is none or more than one."""
    pairs = [pair.strip() for line in headers.getlist("cookie") for pair in line.split(";")]
    cookies = [pair.removeprefix(f"{COOKIE}=") for pair in pairs if pair.startswith(f"{COOKIE}=")]
    return cookies[0] if len(cookies) == 1 else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
EVERYBODY: tuple[Role, ...] = ("admin", "operator", "viewer")
# for the OpenAPI document: `Identify` reads tokens and cookies itself
SECURITY: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


class Guard:
    """Tokens, sessions and failed attempts of one server."""

    def __init__(self, store: Store, *, limits: Limits, auth: bool) -> None:
        self.auth = auth
        self.tokens = TokenCache(store, clock=limits.clock)
        self.sessions = Sessions(clock=limits.clock)
        self.recorder = Recorder(store, clock=limits.clock)
        self.failures = Buckets(
            limits.failed_rate, limits.failed_burst, most=limits.clients, clock=limits.clock
        )

    def identify(self, scope: Scope) -> Principal | None:
        """Return the sender of a request, if known; a wrong token counts against its address.

        Asks no database: the tokens are those of the last `refresh`.
        """
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
            token = self.tokens.known(secret.strip())
            if token is not None:
                self._began(token, scope, "bearer")
                return Principal(token.name, token.role, token.id, "bearer", token.only_trials)
        raise self._failed(scope, "request")

    def _by_cookie(self, cookie: str) -> Principal | None:
        token_id = self.sessions.token_of(cookie)
        token = None if token_id is None else self.tokens.by_id(token_id)
        if token is None:
            self.sessions.end(cookie)  # its token was revoked
            return None
        return Principal(token.name, token.role, token.id, "cookie", token.only_trials)

    def log_in(self, scope: Scope, secret: str) -> tuple[Token, str]:
        """Return the token of a secret and a new session; 401 or 429 for a wrong one."""
        token = self.tokens.find(secret.strip())
        if token is None:
            raise self._failed(scope, "login")
        self._began(token, scope, "browser")
        return token, self.sessions.begin(token.id)

    def _began(self, token: Token, scope: Scope, via: str) -> None:
        """Note the use of a token; what repeats within an hour is counted."""
        address = address_of(scope)
        data = {"role": token.role, "address": address, "via": via}
        self.recorder.note("login", token.name, data, once=(token.id, address, via))

    def _failed(self, scope: Scope, what: str) -> ApiError:
        self.recorder.refused(address_of(scope), what)
        wait = self.failures.take(address_of(scope))
        return too_many(wait) if wait else unauthorized()

    def tokens_changed(self) -> None:
        """Read the table again; sessions of revoked tokens end when they are used next."""
        self.tokens.forget()


class Identify(HttpMiddleware):
    """Finds out who sent a request, before anything is read: `request.state.principal`."""

    def __init__(self, app: ASGIApp, *, guard: Guard, limits: Limits) -> None:
        super().__init__(app)
        self.guard, self.limits = guard, limits
        # one thread of its own: the others may be busy, or wait for the same database
        self._reader = anyio.CapacityLimiter(1)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard, state = self.guard, scope.setdefault("state", {})
        state["principal"], state["recorder"] = None, guard.recorder
        try:
            headers = Headers(scope=scope)
            has_credentials = "authorization" in headers or cookie_of(headers) is not None
            if guard.auth and guard.tokens.stale and has_credentials:
                await self._refresh()
            state["principal"] = guard.identify(scope)
            await self.app(scope, receive, send)
        finally:
            if guard.recorder.due:  # the answer is already sent
                with anyio.CancelScope(shield=True):
                    await run_in_threadpool(guard.recorder.write)

    async def _refresh(self) -> None:
        try:
            with anyio.fail_after(self.limits.database_seconds):
                await anyio.to_thread.run_sync(
                    self.guard.tokens.refresh, abandon_on_cancel=True, limiter=self._reader
                )
        except TimeoutError:
            raise database_silent() from None


@dataclass(frozen=True)
class Access:
    """The roles that may use a route."""

    roles: tuple[str, ...]  # none: no token is needed
    all_trials: bool  # not with a token for named trials

    async def check(self, request: Request) -> None:
        """401 without authentication, 403 for another role, 404 for a trial of others."""
        principal: Principal | None = request.state.principal
        if not self.roles:
            return
        if principal is None:
            raise unauthorized()
        if principal.role not in self.roles:
            raise ApiError(403, "forbidden", "your role may not do this")
        if principal.only_trials is None:
            return
        if self.all_trials:
            raise ApiError(403, "forbidden", "a token for named trials may not do this")
        trial = request.path_params.get("trial")
        if trial is not None and not principal.may_use(trial):
            await run_in_threadpool(_check_trial, request, principal, trial)


def _check_trial(request: Request, principal: Principal, trial: str) -> None:
    """Refuse a trial that the token may not use; one given by id is checked by its name."""
    state = request.app.state
    opened = state.trial_cache.get(trial) or open_trial(trial, db=state.store)
    if not principal.may_use(opened.name):
        raise NotFound(f"no trial is called {trial!r}")


def allow(*roles: Role, all_trials: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Mark a route with who may use it; without roles no token is needed.

    `all_trials`: a token for named trials does not do.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.access = Access(roles, all_trials)  # type: ignore[attr-defined]
        return endpoint

    return mark


def access_of(endpoint: Callable[..., object]) -> Access:
    """Return the roles of a route; a TypeError for a route that declares none."""
    access: Access | None = getattr(endpoint, "access", None)
    if access is None:
        name = getattr(endpoint, "__name__", endpoint)
        raise TypeError(f"route {name}: does not say whose roles may use it; add @allow")
    return access


async def _caller(request: Request) -> Principal:  # not in a thread: nothing is computed
    principal: Principal = request.state.principal
    return principal


Caller = Annotated[Principal, Depends(_caller)]


def _local(scope: Scope) -> bool:
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except (KeyError, TypeError, ValueError):
        return False
