"""Requests and their answers: keys, retries, pages of lists.

`Exchange` decides what is sent and what follows from an answer, as coroutines; `AsyncSender` awaits
them for `AsyncClient`, `Sender` runs them for `Client`, where nothing waits.

A request that may be sent again is: after a connection that failed, after 429 and 503 with the
header `Retry-After`, and after 429, 502, 503 and 504 of a proxy, whose server restarts. Requests
that read or compute may always be repeated. A change carries a key, under which the server answers
the same again and writes nothing new. New trials and tokens have no key: they are sent again only
if the server cannot have received them, or says that it is busy.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, Protocol
from urllib.parse import quote

import httpx

from ..support import is_count
from ..trials.errors import TrialError
from .answers import Answer, Unreachable, error_of

ROOT = "/api/v1"
TIMEOUT = 60.0  # seconds without a byte of an answer
COMPUTATION_TIMEOUT = 900.0  # seconds: prices of a new trial, a replay, a design
FIRST_PAUSE, MAX_PAUSE = 0.2, 30.0  # seconds between two attempts
FIRST_PROXY_PAUSE = 1.0  # after an answer of a proxy: a server needs seconds to start
RETRY_STATUS = (429, 503)
PROXY_RETRY_STATUS = (429, 502, 503, 504)
BUSY = ("busy", "too_many_requests")
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
Send = Callable[..., Awaitable[httpx.Response]]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """One request to the API."""

    method: Literal["GET", "POST", "DELETE"]
    path: tuple[str, ...]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    key: str | None = None  # idempotency key
    slow: bool = False  # the server computes
    alike: bool = False  # may be repeated without a key
    page: bool = False  # the answer is HTML
    entries: str | None = None  # key of a list in pages

    @property
    def repeatable(self) -> bool:
        return self.method == "GET" or self.alike or self.key is not None

    def arguments(self, timeout: float) -> dict[str, Any]:
        return {
            "method": self.method,
            "url": "/".join([ROOT, *(quote(part, safe="") for part in self.path)]),
            "params": dict(self.query),
            "json": self.body,
            "headers": {} if self.key is None else {"Idempotency-Key": self.key},
            "timeout": max(timeout, COMPUTATION_TIMEOUT) if self.slow else timeout,
        }


@dataclass(frozen=True)
class Exchange:
    """Requests to one server; `retries`: attempts after the first."""

    url: str
    retries: int
    timeout: float = TIMEOUT

    async def answer(self, request: Request, send: Send, sleep: Sleep) -> Any:
        """Return the answer to a request; of a list in pages, all its entries."""
        page = await self._page(request, send, sleep)
        if request.entries is None:
            return page
        entries: list[Answer] = page[request.entries]
        while page.get("next"):
            query = {**request.query, "after": page["next"]}
            page = await self._page(replace(request, query=query), send, sleep)
            entries += page[request.entries]
        return entries

    async def _page(self, request: Request, send: Send, sleep: Sleep) -> Answer:
        for attempt in count():
            try:
                response = await send(**request.arguments(self.timeout))
            except httpx.TransportError as error:
                may_repeat = request.repeatable or isinstance(error, NOT_SENT)
                if attempt >= self.retries or not may_repeat:
                    why = str(error) or type(error).__name__
                    raise Unreachable(f"{self.url} does not answer: {why}") from None
                await sleep(_pause(attempt))
            except (ValueError, TypeError) as error:  # nothing was sent: NaN, or bytes
                raise TrialError(f"the request cannot be written as JSON: {error}") from None
            else:
                answer = self._read(response, request, attempt)
                if isinstance(answer, Answer):
                    return answer
                await sleep(answer)
        raise AssertionError

    def _read(self, response: httpx.Response, request: Request, attempt: int) -> Answer | float:
        """Return the answer, or seconds until the next attempt; raise the library's error."""
        foreign = f"{self.url} answers {response.status_code}, and not as a server of trials does"
        if response.is_success:
            try:
                return Answer({"html": response.text} if request.page else response.json())
            except (ValueError, TypeError):  # from a proxy
                raise Unreachable(foreign) from None
        try:
            error = response.json()["error"]
            code, message = str(error["code"]), str(error["message"])
        except (ValueError, KeyError, TypeError):
            error, code, message = {}, "", foreign
        pause = _requested_pause(response, attempt, of_proxy=not code)
        may_repeat = request.repeatable or code in BUSY
        if attempt >= self.retries or pause is None or not may_repeat:
            raise error_of(response.status_code, code, message, error.get("field"))
        return pause


def for_header(name: str, text: str) -> str:
    """Check text for a header; httpx would show it in its error, or try again."""
    if not (text.isascii() and text.isprintable()):
        raise TrialError(
            f"{name}: must be printable ASCII characters, without a line break", field=name
        )
    return text


def _pause(attempt: int, first: float = FIRST_PAUSE) -> float:
    """Return growing seconds, random for clients that failed together."""
    return min(first * 2.0**attempt, MAX_PAUSE) * random.uniform(0.5, 1.0)


def _requested_pause(response: httpx.Response, attempt: int, *, of_proxy: bool) -> float | None:
    """Return seconds until the next attempt; None if that does not help."""
    if response.status_code not in (PROXY_RETRY_STATUS if of_proxy else RETRY_STATUS):
        return None
    after = response.headers.get("Retry-After", "")
    if is_count(after):
        return min(max(float(after), _pause(attempt)), MAX_PAUSE)
    return _pause(attempt, FIRST_PROXY_PAUSE) if of_proxy else None


def _unchanged(answer: Any) -> Any:
    return answer


class Fetches(Protocol):
    """Interface of `Sender` and `AsyncSender`."""

    def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        """Return `read` of the answers to requests; of a list in pages, all its entries."""


@dataclass(frozen=True)
class AsyncSender:
    """Sends requests until they are answered, without blocking."""

    http: httpx.AsyncClient
    exchange: Exchange
    sleep: Sleep = asyncio.sleep

    async def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        send = self.http.request
        return read(*[await self.exchange.answer(one, send, self.sleep) for one in requests])


@dataclass(frozen=True)
class Sender:
    """Sends requests until they are answered."""

    http: httpx.Client
    exchange: Exchange
    sleep: Callable[[float], None] = time.sleep

    def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        async def send(**arguments: Any) -> httpx.Response:
            return self.http.request(**arguments)

        async def sleep(seconds: float) -> None:
            self.sleep(seconds)

        return read(*[_finished(self.exchange.answer(one, send, sleep)) for one in requests])


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError
