"""Limits of requests: per second, at once, of whole logs, size and duration of bodies.

Rates are limited by the token bucket algorithm. Its tokens are called credits here: a bucket holds
`burst` credits and gets `rate` new ones per second; a request costs one.

Places for concurrent requests and for readers of whole logs are shared between people: nobody
has more of them than are still free. The text of a log is written to a file at full speed; its
place is free before the client reads it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import IO
from weakref import WeakSet

import anyio
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from ..support import Cache, is_count
from ..trials.errors import TrialError
from ..trials.lists import STALE_AFTER
from .errors import ApiError, busy, unauthorized
from .request_context import HttpMiddleware, Principal, until_answered

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
    threads: int = 32  # requests that work at once
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
    again = {"Retry-After": str(max(1, math.ceil(wait)))}
    return ApiError(429, "too_many_requests", "too many requests; slow down", again)


PLACES_OF_STRANGERS = 4  # strangers together take at most a quarter


class Places:
    """A number of places; those who find none wait in order.

    One client takes at most as many as are free, so that the next finds one: who sends many long
    requests gets half of the places, two get a third each. `most_each` is a smaller number.
    """

    def __init__(
        self,
        count: int,
        *,
        most_each: int | None = None,
        strangers: int | None = None,
        strangers_each: int | None = None,
        refusal: Callable[[], ApiError] = busy,
    ) -> None:
        self.count, self.refusal = count, refusal
        self.most_each = count if most_each is None else most_each
        quarter = max(1, count // PLACES_OF_STRANGERS)
        self.strangers = quarter if strangers is None else strangers
        self.strangers_each = self.strangers if strangers_each is None else strangers_each
        self.taken = Counter[str]()
        self.waiting: dict[asyncio.Future[None], str] = {}  # the oldest first

    def has_room(self, name: str) -> bool:
        """Return whether a client may take a place now."""
        most = min(self.most_each, self.count - self.taken.total())
        if not is_person(name):
            strangers = sum(n for one, n in self.taken.items() if not is_person(one))
            most = min(most, self.strangers_each, self.strangers - strangers)
        return self.taken[name] < most

    def take_now(self, name: str) -> None:
        if not self.has_room(name):
            raise self.refusal()
        self.taken[name] += 1

    async def take(self, name: str, *, seconds: float) -> None:
        """Take a place, or wait for it; refused after so many seconds."""
        if self.has_room(name):
            self.taken[name] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting[turn] = name
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if self.waiting.pop(turn, None) is None and not turn.cancelled():
                self.give_back(name)  # it came in the last moment
            if isinstance(error, TimeoutError):
                raise self.refusal() from None
            raise

    def give_back(self, name: str) -> None:
        self.taken -= Counter([name])
        for turn, next_name in list(self.waiting.items()):
            if self.has_room(next_name):
                del self.waiting[turn]
                if not turn.done():
                    self.taken[next_name] += 1
                    turn.set_result(None)


@dataclass(eq=False)
class RateLimit(HttpMiddleware):
    """Limits requests: by token where `Identify` found one, by address otherwise."""

    limits: Limits

    def __post_init__(self) -> None:
        limits = self.limits
        # apart, so that requests from many addresses do not push out the buckets of tokens
        self.by_token, self.by_address = (
            Buckets(limits.rate, limits.burst, most=limits.clients, clock=limits.clock)
            for _ in range(2)
        )
        self.places = Places(
            limits.concurrent,
            strangers=limits.strangers,
            strangers_each=limits.strangers_per_address,
        )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope["state"]["principal"]
        if principal is None:
            _check_stranger(scope)
        who = sender_of(scope)
        self.places.take_now(who)
        async with until_answered(send, partial(self.places.give_back, who)) as watched:
            if principal is not None and principal.token_id is not None:
                wait = self.by_token.take(principal.token_id)
            else:
                wait = self.by_address.take(address_of(scope))
            if wait:
                raise too_many(wait)
            await self.app(scope, receive, watched)


def _check_stranger(scope: Scope) -> None:
    if scope["method"] not in SAFE_METHODS and scope["path"] != LOGIN:
        raise unauthorized()  # before the body is read: a slow body must not hold a place
    if scope["state"].get("crowded"):
        raise busy("too many connections")


@dataclass(eq=False)
class BodyLimit(HttpMiddleware):
    """Reads the whole body before anything else: it is small, and must arrive in time."""

    limits: Limits

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = self.limits
        seconds, most = limits.body_seconds, limits.body_bytes
        if scope["state"]["principal"] is None:  # only a login may send a body
            seconds, most = limits.login_seconds, min(limits.login_bytes, most)
        try:
            with anyio.fail_after(seconds):
                body = await _read_body(scope, receive, most)
        except TimeoutError:
            closing = {"Connection": "close"}
            raise ApiError(408, "too_slow", "the body took too long", closing) from None
        if body is not None:
            await self.app(scope, _replayed(body, receive), send)


async def _read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Read the body; None if the client has disconnected."""
    body = bytearray()
    declared = Headers(scope=scope).get("content-length", "")
    size = int(declared[:19]) if is_count(declared) else 0
    while size <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        size = len(body)
        if size <= most and not message.get("more_body", False):
            return bytes(body)
    text = f"a body may have {most} bytes at most"
    raise ApiError(413, "too_large", text, {"Connection": "close"})


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


FLAGS = "/ofrep/"  # evaluations wait for commits, many for one


@dataclass(eq=False)
class Shares(HttpMiddleware):
    """Lets requests in as far as their person's share goes."""

    limits: Limits

    def __post_init__(self) -> None:
        self.places = Places(self.limits.threads)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(FLAGS):  # they need no thread
            await self.app(scope, receive, send)
            return
        name = sender_of(scope)
        await self.places.take(name, seconds=self.limits.thread_seconds)
        async with until_answered(send, partial(self.places.give_back, name)) as watched:
            await self.app(scope, receive, watched)


MAX_READERS = 4
WAIT_SECONDS = 2.0  # for one of the others to end
MAX_UNREAD = 8  # texts of one person that wait for their readers
MEMORY_BYTES = 256 * 1024  # of such a text; what is longer is on disk
PIECE_CHARACTERS = 64 * 1024  # that are sent at a time


class RecordReaders:
    """Places for requests that read a whole log; without one, a request is refused (503)."""

    def __init__(self, most: int = MAX_READERS, *, wait: float = WAIT_SECONDS) -> None:
        self._most, self._wait = most, wait
        self._changed = threading.Condition()
        self._taken = Counter[str]()  # places by person
        self._unread = defaultdict[str, WeakSet[_Unread]](WeakSet)  # texts by person

    @contextmanager
    def one(self, person: str) -> Iterator[None]:
        """Hold a place of a person during the block."""

        def is_free() -> bool:
            return self._taken[person] < self._most - self._taken.total()

        with self._changed:
            if not self._changed.wait_for(is_free, self._wait):
                raise busy("other logs are being read; try again", seconds=5)
            self._taken[person] += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= Counter([person])
                self._changed.notify_all()

    def text(self, person: str, make: Callable[[], Iterator[str]]) -> Iterable[str]:
        """Return the pieces of a text that is computed at once, so that failures become errors."""
        with self.one(person):
            if len(self._unread[person]) >= MAX_UNREAD:
                raise busy("read the exports requested before", seconds=5)
            unread = _Unread()
            self._unread[person].add(unread)
            try:
                for piece in make():
                    unread.file.write(piece)
                unread.file.seek(0)
            except OSError as error:
                raise busy(f"no room for the export: {error.strerror}", seconds=60) from None
        return unread


class _Unread:
    """A text that waits for its reader; its file is closed when the last reference is gone."""

    def __init__(self) -> None:
        self.file: IO[str] = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            MEMORY_BYTES, "w+", encoding="utf-8", newline=""
        )

    def __iter__(self) -> Iterator[str]:
        return iter(partial(self.file.read, PIECE_CHARACTERS), "")

    def __del__(self) -> None:
        self.file.close()
