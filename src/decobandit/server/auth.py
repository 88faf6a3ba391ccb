"""Authentication, permissions and origin of requests, and the access log.

Requests are authenticated by a bearer token, or by the session cookie that a browser got for one:
a random secret that is kept in memory only, as a digest, so that a restart of the server ends all
sessions. Every route says by `allow` which roles may use it; a route without it cannot be made.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import anyio
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ..support import Cache
from ..trials import Trial, open_trial
from ..trials.database import Store
from ..trials.errors import NotFound, StoreError
from ..trials.event_log import record_all
from .errors import ApiError, database_silent, unauthorized
from .limits import SAFE_METHODS, Buckets, Limits, address_of, too_many
from .request_context import HttpMiddleware, Principal, at_start
from .tokens import Role, Token, TokenCache

log = logging.getLogger("decobandit.server")

# -- the access log -------------------------------------------------------------------------------

WINDOW_SECONDS = 3600.0  # within which what repeats is counted
MAX_ADDRESSES = 10  # of refused tokens that are named within a window
OTHERS = "other addresses"
STRANGER = "nobody"  # who sent a refused token
MAX_COUNTED = 10_000  # things that are counted; those not repeated for longest are forgotten
MAX_WAITING = 1000  # events that wait for a database that cannot be written
RETRY_SECONDS = 5.0

Entry = tuple[str, str, dict[str, Any]]  # kind, by, data


@dataclass
class _Counted:
    """Something that was written once, and how often it happened since."""

    entry: Entry
    since: float
    repeated: int = 0


class Recorder:
    """Logins, refused tokens, looks at results and exports, for the access log.

    Entries of a request are written after its answer, so that no request waits for them and reading
    continues while the database cannot be written. Failed writes are tried again. Repetitions
    within an hour are counted; the count is written with the next event of the same kind, or when
    the log is read. Strangers cannot fill the log: of refused tokens, ten addresses per hour are
    named, and all others are one event.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self._clock = store, clock
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._counted = Cache[Hashable, _Counted](MAX_COUNTED)
        self._waiting: deque[Entry] = deque(maxlen=MAX_WAITING)
        self._addresses: set[str] = set()
        self._addresses_since = -WINDOW_SECONDS
        self._retry_at = 0.0

    def note(self, kind: str, by: str, data: dict[str, Any], *, once: Hashable) -> None:
        """Record an event; equal values of `once` are written once in a window, and counted."""
        key, now = (kind, by, once), self._clock()
        with self._lock:
            count = self._counted.get(key)
            if count is not None and now - count.since < WINDOW_SECONDS:
                count.repeated += 1
                return
            more = {} if count is None or not count.repeated else {"repeated": count.repeated}
            self._counted.put(key, _Counted((kind, by, data), now))
            self._waiting.append((kind, by, data | more))

    def refused(self, address: str, what: str) -> None:
        """Record an invalid token from an address."""
        with self._lock:
            now = self._clock()
            if now - self._addresses_since >= WINDOW_SECONDS:
                self._addresses, self._addresses_since = set(), now
            if address not in self._addresses and len(self._addresses) >= MAX_ADDRESSES:
                address = OTHERS
            else:
                self._addresses.add(address)
        data = {"address": address, "what": what}
        self.note("refused", STRANGER, data, once=(address, what))

    def saw(self, caller: Principal, trial: Trial, what: str) -> None:
        """Record a view of results of a trial; blinded people never have one."""
        if not caller.blinded:
            data = {"trial": trial.id, "name": trial.name, "what": what}
            self.note("looked", caller.name, data, once=trial.id)

    def exported(self, caller: Principal, trial: Trial, form: str) -> None:
        data = {"trial": trial.id, "name": trial.name, "form": form, "masked": False}
        self.note("exported", caller.name, data | {"via": caller.via}, once=(trial.id, form))

    @property
    def due(self) -> bool:
        """Whether there is something to write, and the database may take it."""
        return bool(self._waiting) and self._clock() >= self._retry_at

    def write(self) -> None:
        """Write what waits. One thread at a time: the others need not wait for the database."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            with self._lock:
                entries = list(self._waiting)
                self._waiting.clear()
            if entries:
                record_all(self.store, entries)
        except Exception as error:
            with self._lock:
                self._waiting.extendleft(reversed(entries))
                self._retry_at = self._clock() + RETRY_SECONDS
            log.error("access log: %s", error, exc_info=not isinstance(error, StoreError))
        finally:
            self._writing.release()

    def flush(self) -> None:
        """Write all counts too, before the log is read."""
        with self._lock:
            for count in self._counted.values():
                if count.repeated:
                    kind, by, data = count.entry
                    self._waiting.append((kind, by, data | {"repeated": count.repeated}))
                    count.repeated = 0
        self.write()


# -- sessions of browsers -------------------------------------------------------------------------

COOKIE = "deco_session"
MAX_SESSION_SECONDS = 12 * 3600.0  # seconds from the login
MAX_IDLE_SECONDS = 2 * 3600.0  # seconds between two requests
MAX_SESSIONS = 20  # of one token; the one unused for longest is dropped


@dataclass
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
            session.used = now
            self._by_digest[digest] = session
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


# -- who sent a request ---------------------------------------------------------------------------


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

    def identify(self, scope: Scope, headers: Headers) -> Principal | None:
        """Return the sender of a request, if known; a wrong token counts against its address.

        Asks no database: the tokens are those of the last `refresh`.
        """
        if not self.auth:
            return Principal("loopback", "admin", None, "loopback") if _local(scope) else None
        if "authorization" in headers:
            values = headers.getlist("authorization")
            scheme, _, secret = values[0].partition(" ")
            is_bearer = len(values) == 1 and scheme.lower() == "bearer"
            token = self.tokens.known(secret.strip()) if is_bearer else None
            if token is None:
                raise self._failed(scope, "request")
            self._note_use(token, scope, "bearer")
            return Principal(token.name, token.role, token.id, "bearer", token.only_trials)
        cookie = cookie_of(headers)
        if cookie is None:
            return None
        token_id = self.sessions.token_of(cookie)
        token = None if token_id is None else self.tokens.by_id(token_id)
        if token is None:
            self.sessions.end(cookie)  # its token was revoked
            return None
        return Principal(token.name, token.role, token.id, "cookie", token.only_trials)

    def log_in(self, scope: Scope, secret: str) -> str:
        """Return a new session for the secret of a token; 401 or 429 for a wrong one."""
        token = self.tokens.find(secret.strip())
        if token is None:
            raise self._failed(scope, "login")
        self._note_use(token, scope, "browser")
        return self.sessions.begin(token.id)

    def _note_use(self, token: Token, scope: Scope, via: str) -> None:
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


def _local(scope: Scope) -> bool:
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except (KeyError, TypeError, ValueError):
        return False


@dataclass(eq=False)
class Identify(HttpMiddleware):
    """Finds out who sent a request, before anything is read: `request.state.principal`."""

    guard: Guard
    limits: Limits

    def __post_init__(self) -> None:
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
            state["principal"] = guard.identify(scope, headers)
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


# -- browsers: pages of this site and of other sites ----------------------------------------------
#
# `SecurityHeaders` restricts what a browser does with a response, errors included; a route that
# needs another value sets the header itself. `Cors` lets pages of named sites use the API, with a
# token of their own: cookies are never allowed. `SameOrigin` recognises changes that a page of
# another site makes a browser send with the user's cookie (CSRF), and names of other sites that
# resolve to this machine (DNS rebinding), both by headers that a page cannot set.

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


# -- who may do what ------------------------------------------------------------------------------

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
EVERYBODY: tuple[Role, ...] = ("admin", "operator", "viewer")
# for the OpenAPI document: `Identify` reads tokens and cookies itself
SECURITY: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


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
