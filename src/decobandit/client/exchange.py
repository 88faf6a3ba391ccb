"""Requests and their answers: keys, retries, pages of lists.

`Request` and `Exchange` decide what is sent and what follows from an answer; `Sender` sends for
`Client`, `AsyncSender` for `AsyncClient`.

A request that may be sent again is: after a connection that failed, after 429 and 503 with the
header `Retry-After`, and after 429, 502, 503 and 504 of a proxy, whose server restarts. What reads
or computes may always be repeated. A change carries a key, under which the server answers the same
again and writes nothing new. New trials and tokens have no key: they are sent again only where the
server cannot have seen them, or says that it is busy.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol
from urllib.parse import quote

import httpx

from ..support import is_count
from ..trials.errors import TrialError
from .answers import Answer, Unreachable, error_of

ROOT = "/api/v1"
TIMEOUT = 60.0  # seconds without a byte of an answer
SLOW = 900.0  # where the server computes: prices of a new trial, a replay, a design
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds between two attempts
FIRST_PROXY_PAUSE = 1.0  # after an answer of a proxy: a server takes seconds to start
AGAIN = (429, 503)
AGAIN_OF_PROXY = (429, 502, 503, 504)
BUSY = ("busy", "too_many_requests")


@dataclass(frozen=True)
class Request:
    """One request to the API. `key`: under which it may be sent again; `slow`: is computed long.

    `alike`: may be sent again without a key; `page`: the answer is HTML; `entries`: the key of a
    list that comes in pages.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: tuple[str, ...]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    key: str | None = None
    slow: bool = False
    alike: bool = False
    page: bool = False
    entries: str | None = None

    @property
    def address(self) -> str:
        return "/".join([ROOT, *(quote(part, safe="") for part in self.path)])

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}

    @property
    def repeatable(self) -> bool:
        return self.method == "GET" or self.alike or self.key is not None

    def read(self, response: httpx.Response) -> Answer:
        return Answer({"html": response.text} if self.page else response.json())

    def next_page(self, page: Answer, entries: list[Answer]) -> Request | None:
        """Take the entries of a page; return the request for the next one, if any."""
        entries += page[str(self.entries)]
        after = page.get("next")
        return replace(self, query={**self.query, "after": after}) if after else None


@dataclass(frozen=True)
class Exchange:
    """What is sent, and what follows from an answer; `retries`: attempts after the first."""

    url: str
    retries: int
    timeout: float = TIMEOUT

    def sent(self, request: Request) -> dict[str, Any]:
        """Arguments of httpx."""
        return {
            "method": request.method,
            "url": request.address,
            "params": dict(request.query),
            "json": request.body,
            "headers": request.headers,
            "timeout": max(self.timeout, SLOW) if request.slow else self.timeout,
        }

    def pause_after(self, error: Exception, request: Request, attempt: int) -> float:
        """Seconds until a request that failed on its way is sent again; raises where it is not."""
        if not isinstance(error, httpx.TransportError):  # nothing was sent: NaN, or bytes
            raise TrialError(f"the request cannot be written as JSON: {error}") from None
        if attempt >= self.retries or not _may_follow(request, error):
            why = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} does not answer: {why}") from None
        return _growing(attempt)

    def read(self, response: httpx.Response, request: Request, attempt: int) -> Answer | float:
        """The answer, or seconds until the request is sent again; raises the library's error."""
        if response.is_success:
            return self._read(request, response)
        code, message, field = self._said(response)
        pause = _pause_asked(response, attempt, of_proxy=not code)
        may = request.repeatable or code in BUSY
        if attempt >= self.retries or pause is None or not may:
            raise error_of(response.status_code, code, message, field)
        return pause

    def _read(self, request: Request, response: httpx.Response) -> Answer:
        """The answer; what a proxy says in place of the server is none."""
        try:
            return request.read(response)
        except (ValueError, TypeError):
            raise Unreachable(self._foreign(response)) from None

    def _said(self, response: httpx.Response) -> tuple[str, str, str | None]:
        """Return code, message and field of an error; no code if another program answered."""
        try:
            error = response.json()["error"]
            return str(error["code"]), str(error["message"]), error.get("field")
        except (ValueError, KeyError, TypeError):
            return "", self._foreign(response), None

    def _foreign(self, response: httpx.Response) -> str:
        said = f"answers {response.status_code}, and not as a server of trials does"
        return f"{self.url} {said}"


def for_header(name: str, text: str) -> str:
    """Text that a header can have; httpx would show it in its error, or try again."""
    if not (text.isascii() and text.isprintable()):
        raise TrialError(f"{name}: must be printable ASCII characters, without a line break")
    return text


def _may_follow(request: Request, error: httpx.TransportError) -> bool:
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return request.repeatable or never_sent


def _growing(attempt: int, first: float = FIRST_PAUSE) -> float:
    """Longer each time, and not the same for clients that failed together."""
    return min(first * 2.0**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def _pause_asked(response: httpx.Response, attempt: int, *, of_proxy: bool) -> float | None:
    """Seconds until the server may be asked again; None where that does not help."""
    after = response.headers.get("Retry-After", "")
    if is_count(after) and response.status_code in (AGAIN_OF_PROXY if of_proxy else AGAIN):
        return min(max(float(after), _growing(attempt)), LONGEST_PAUSE)
    if of_proxy and response.status_code in AGAIN_OF_PROXY:
        return _growing(attempt, FIRST_PROXY_PAUSE)
    return None


def _unchanged(answer: Any) -> Any:
    return answer


class Fetches(Protocol):
    """What verbs send requests by: `Sender` or `AsyncSender`."""

    def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        """What `read` makes of the answers to requests; of a list in pages, all its entries."""


@dataclass(frozen=True)
class Sender:
    """Sends requests until they are answered."""

    http: httpx.Client
    exchange: Exchange
    sleep: Callable[[float], None] = time.sleep

    def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        return read(*(self._all(one) if one.entries else self._one(one) for one in requests))

    def _one(self, request: Request) -> Answer:
        attempt = 0
        while True:
            try:
                response = self.http.request(**self.exchange.sent(request))
            except (httpx.TransportError, ValueError, TypeError) as error:
                answer: Answer | float = self.exchange.pause_after(error, request, attempt)
            else:
                answer = self.exchange.read(response, request, attempt)
            if isinstance(answer, Answer):
                return answer
            self.sleep(answer)
            attempt += 1

    def _all(self, request: Request) -> list[Answer]:
        entries: list[Answer] = []
        page: Request | None = request
        while page is not None:
            page = page.next_page(self._one(page), entries)
        return entries


@dataclass(frozen=True)
class AsyncSender:
    """The same, awaited."""

    http: httpx.AsyncClient
    exchange: Exchange
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def fetch(self, *requests: Request, read: Callable[..., Any] = _unchanged) -> Any:
        return read(
            *[await (self._all(one) if one.entries else self._one(one)) for one in requests]
        )

    async def _one(self, request: Request) -> Answer:
        attempt = 0
        while True:
            try:
                response = await self.http.request(**self.exchange.sent(request))
            except (httpx.TransportError, ValueError, TypeError) as error:
                answer: Answer | float = self.exchange.pause_after(error, request, attempt)
            else:
                answer = self.exchange.read(response, request, attempt)
            if isinstance(answer, Answer):
                return answer
            await self.sleep(answer)
            attempt += 1

    async def _all(self, request: Request) -> list[Answer]:
        entries: list[Answer] = []
        page: Request | None = request
        while page is not None:
            page = page.next_page(await self._one(page), entries)
        return entries
