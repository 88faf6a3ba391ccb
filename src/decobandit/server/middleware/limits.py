"""Limits per client: requests per second, requests at once, size and duration of bodies.

Rates are limited by the token bucket algorithm. Its tokens are called credits here: a bucket holds
`burst` credits and gets `rate` new ones per second; a request costs one.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...support import Cache, is_count
from ...trials.errors import TrialError
from ...trials.lists import STALE_AFTER
from ..errors import ApiError, busy, unauthorized
from ..request_context import Principal
from .base import HttpMiddleware, until_answered

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_SENT_ARMS = 200  # entries of the list of arms that a request sends
PERSON = "person "  # begins the name of a sender with a token
LOGIN = "/login"  # the only change that needs no authentication


@dataclass(frozen=True)
class Limits:
    """All limits of a server. The defaults are for a team on one machine."""

    rate: float = 500.0  # requests per second of one token, or of one address without
    burst: int = 1000
    failed_rate: float = 1.0  # refused tokens per second of one address
    failed_burst: int = 20
    clients: int = 10_000  # addresses that are remembered
    connections: int = 1000
    connections_per_address: int = 100  # without a valid token
    head_seconds: float = 10.0  # to send the head of a request
    write_seconds: float = 20.0  # in which a client reads some of its answer
    concurrent: int = 400  # requests without an answer yet
    strangers: int = 100  # of them not authenticated
    strangers_per_address: int = 20
    threads: int = (
        32  # requests that work at once; one client takes at most as many as are left free
    )
    thread_seconds: float = 20.0  # that a request waits for one
    database_seconds: float = 10.0  # in which tokens are read
    ready_seconds: float = 2.0  # in which the database answers, if it is ready
    body_bytes: int = 256 * 1024
    body_seconds: float = 20.0  # from the first byte of a body to the last
    login_bytes: int = 4 * 1024  # of the body of a login
    login_seconds: float = 5.0  # from the first byte of that body to the last
    max_arms: int = MAX_SENT_ARMS
    max_horizon: int = 2000
    max_light_horizon: int = 50_000  # of a policy that needs neither prices nor tables
    solves: int = 2  # plans at once, and so many new trials, and replays; one of each person
    waiting: int = 20  # of each kind, for the ones under way
    waiting_per_person: int = 4
    waiting_seconds: float = 120.0
    design_pulls: int = 100_000_000  # of all trials of a design that is simulated: minutes
    plan_seconds: float = 120.0  # for one plan or design
    solve_seconds: float = 600.0  # for one new trial or replay
    stop_seconds: float = 10.0  # after a signal the process has ended
    stale_after: float = STALE_AFTER  # hours until a pending allocation is shown as stale
    clock: Callable[[], float] = time.monotonic

    def check_arms(self, arms: int) -> None:
        """Refuse a trial with more arms than the server takes."""
        if arms > self.max_arms:
            raise TrialError(f"this server takes at most {self.max_arms} arms", field="arm")


class Buckets:
    """One bucket per key; the keys unused for longest are forgotten, and begin full again."""

    def __init__(
        self, rate: float, burst: int, *, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._credits = Cache[str, tuple[float, float]](most)  # credits, when

    def take(self, key: str) -> float:
        """Take a credit: 0 where there is one, else the seconds until there is."""
        wait = 0.0

        def take(before: tuple[float, float] | None) -> tuple[float, float]:
            nonlocal wait
            now = self._clock()
            credits, then = (float(self.burst), now) if before is None else before
            credits = min(float(self.burst), credits + (now - then) * self.rate)
            wait = 0.0 if credits >= 1.0 else (1.0 - credits) / self.rate
            return credits if wait else credits - 1.0, now

        self._credits.update(key, take)
        return wait

    def __len__(self) -> int:
        return len(self._credits)


@lru_cache(maxsize=10_000)
def counted_address(host: str | None) -> str:
    """Return the address that clients are counted by; of IPv6 the /64 network."""
    if host is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def address_of(scope: Scope) -> str:
    """Return the address that requests are counted by."""
    client = scope.get("client")
    return counted_address(None if client is None else str(client[0]))


def sender_of(scope: Scope) -> str:
    """Return the person who sent a request, or the address of a stranger."""
    principal: Principal | None = scope["state"]["principal"]
    return address_of(scope) if principal is None else f"{PERSON}{principal.name}"


def is_person(sender: str) -> bool:
    """Return whether a sender is known by a token."""
    return sender.startswith(PERSON)


def too_many(wait: float) -> ApiError:
    """Return the answer to a client over its rate limit."""
    seconds = str(max(1, math.ceil(wait)))
    return ApiError(
        429, "too_many_requests", "too many requests; slow down", {"Retry-After": seconds}
    )


class RateLimit(HttpMiddleware):
    """Limits requests: by token where `Identify` found one, by address otherwise."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        super().__init__(app)
        self.limits = limits
        # apart, so that requests from many addresses do not push out the buckets of tokens
        self.by_token, self.by_address = (
            Buckets(limits.rate, limits.burst, most=limits.clients, clock=limits.clock)
            for _ in range(2)
        )
        self._under_way = Counter[str]()  # by person, or by address of strangers
        self._strangers = 0

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope["state"]["principal"]
        who, stranger = sender_of(scope), principal is None
        self._check(scope, principal, who)
        self._under_way[who] += 1
        self._strangers += stranger

        def answered() -> None:
            self._under_way[who] -= 1
            self._strangers -= stranger
            if not self._under_way[who]:
                del self._under_way[who]

        async with until_answered(send, answered) as watched:
            await self.app(scope, receive, watched)

    def _check(self, scope: Scope, principal: Principal | None, who: str) -> None:
        """Refuse a request over a limit; one that is accepted costs a credit.

        One client holds at most as many places as are free, so that the next finds one.
        """
        if self._under_way[who] >= self.limits.concurrent - self._under_way.total():
            raise busy()
        if principal is None:
            self._check_stranger(scope, who)
        if principal is not None and principal.token_id is not None:
            wait = self.by_token.take(principal.token_id)
        else:
            wait = self.by_address.take(address_of(scope))
        if wait:
            raise too_many(wait)

    def _check_stranger(self, scope: Scope, address: str) -> None:
        if scope["method"] not in SAFE_METHODS and scope["path"] != LOGIN:
            # before the body is read: a slow body must not hold a place
            raise unauthorized()
        most = min(self.limits.strangers_per_address, self.limits.strangers - self._strangers)
        if self._under_way[address] >= most:
            raise busy()
        if scope["state"].get("crowded"):
            raise busy("too many connections")


class BodyLimit(HttpMiddleware):
    """Reads the whole body before anything else: it is small, and must arrive in time."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        super().__init__(app)
        self.limits = limits

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = self.limits
        login = scope["state"]["principal"] is None  # only a login may send a body
        seconds = limits.login_seconds if login else limits.body_seconds
        most = min(limits.login_bytes, limits.body_bytes) if login else limits.body_bytes
        try:
            with anyio.fail_after(seconds):
                body = await self._read(scope, receive, most)
        except TimeoutError:
            raise ApiError(
                408, "too_slow", "the body took too long", {"Connection": "close"}
            ) from None
        if body is not None:
            await self.app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive, most: int) -> bytes | None:
        """Read the body; None if the client has disconnected."""
        pieces, size = [], 0
        declared = Headers(scope=scope).get("content-length", "")
        if is_count(declared) and (len(declared) > 18 or int(declared) > most):
            raise _too_large(most)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _too_large(most)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)


def _too_large(most: int) -> ApiError:
    return ApiError(
        413, "too_large", f"a body may have {most} bytes at most", {"Connection": "close"}
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, then what follows it."""
    is_sent = False

    async def again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
