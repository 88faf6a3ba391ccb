"""How much one client may ask of the server: requests, bytes, patience.

A bucket holds `burst` coins and gets `rate` new ones per second; a request costs one.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError, error_response

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOGIN = "/login"  # the one place where strangers send something


@dataclass(frozen=True)
class Limits:
    """All limits of a server. The defaults are for a team on one machine."""

    rate: float = 500.0  # requests per second of one token, or of one address without
    burst: int = 1000
    failed_rate: float = 1.0  # refused tokens per second of one address
    failed_burst: int = 20
    clients: int = 10_000  # addresses that are remembered
    concurrent: int = 400  # requests under way
    strangers: int = 100  # of them without a token
    body_bytes: int = 256 * 1024
    body_seconds: float = 20.0  # from the first byte of a body to the last
    max_arms: int = 200
    max_horizon: int = 2000
    waiting: int = 4  # solves that may wait for the one under way
    clock: Callable[[], float] = time.monotonic


class Buckets:
    """One bucket per key; the keys unused for longest are forgotten, and begin full again."""

    def __init__(
        self, rate: float, burst: int, *, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.most, self._clock = rate, burst, most, clock
        self._lock = threading.Lock()
        self._coins: OrderedDict[str, tuple[float, float]] = OrderedDict()  # coins, when

    def take(self, key: str) -> float:
        """Pay for a request: 0 where it may pass, else the seconds until it may."""
        with self._lock:
            now = self._clock()
            coins, then = self._coins.pop(key, (float(self.burst), now))
            coins = min(float(self.burst), coins + (now - then) * self.rate)
            wait = 0.0 if coins >= 1.0 else (1.0 - coins) / self.rate
            self._coins[key] = (coins if wait else coins - 1.0, now)
            while len(self._coins) > self.most:
                self._coins.popitem(last=False)
            return wait

    def __len__(self) -> int:
        return len(self._coins)


def address_of(scope: Scope) -> str:
    """Who asks, for counting; of an IPv6 address the half that a provider gives out."""
    client = scope.get("client")
    if client is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def too_many(wait: float) -> ApiError:
    """The answer to whoever asks too often."""
    seconds = str(max(1, math.ceil(wait)))
    return ApiError(
        429, "too_many_requests", "too many requests; slow down", {"Retry-After": seconds}
    )


class RateLimit:
    """Counts requests: by token where `Identify` found one, by address otherwise."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self.app, self.limits = app, limits
        # apart, so that a flood of addresses does not push out the buckets of tokens
        self.by_token, self.by_address = (
            Buckets(limits.rate, limits.burst, most=limits.clients, clock=limits.clock)
            for _ in range(2)
        )
        self._under_way = self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._under_way >= self.limits.concurrent:
            busy = ApiError(503, "busy", "too many requests at once", {"Retry-After": "1"})
            await error_response(busy)(scope, receive, send)
            return
        principal = scope["state"]["principal"]
        if principal is None and scope["method"] not in SAFE_METHODS and scope["path"] != LOGIN:
            # before the body is read: strangers must not hold places by sending it slowly
            denied = ApiError(
                401, "unauthorized", "a valid token is needed", {"WWW-Authenticate": "Bearer"}
            )
            await error_response(denied)(scope, receive, send)
            return
        if principal is None and self._strangers >= self.limits.strangers:
            busy = ApiError(503, "busy", "too many requests at once", {"Retry-After": "1"})
            await error_response(busy)(scope, receive, send)
            return
        known = principal is not None and principal.token_id is not None
        buckets = self.by_token if known else self.by_address
        wait = buckets.take(principal.token_id if known else address_of(scope))
        if wait:
            await error_response(too_many(wait))(scope, receive, send)
            return
        stranger = principal is None
        self._under_way += 1
        self._strangers += stranger
        try:
            await self.app(scope, receive, send)
        finally:
            self._under_way -= 1
            self._strangers -= stranger


class BodyLimit:
    """Reads the whole body before anything else: it is small, and must not come too slowly."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            with anyio.fail_after(self.limits.body_seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            slow = ApiError(408, "too_slow", "the body took too long", {"Connection": "close"})
            await error_response(slow)(scope, receive, send)
        except ApiError as error:
            await error_response(error)(scope, receive, send)
        else:
            if body is not None:
                await self.app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None where the client has gone."""
        most, pieces, size = self.limits.body_bytes, [], 0
        told = Headers(scope=scope).get("content-length", "")
        if told.isascii() and told.isdigit() and len(told) > 18:
            raise _too_large(most)
        if told.isascii() and told.isdigit() and int(told) > most:
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
    """A `receive` that gives the body once, then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
