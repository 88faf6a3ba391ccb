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
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal
from urllib.parse import quote

import httpx

from ..support import is_count
from ..trials import errors as library
from ..trials.errors import StoreError, TrialError


class Answer(Mapping[str, Any]):
    """An answer of a server. Blinded operators receive fewer keys.

    Parameters
    ----------
    tree : mapping
        The JSON object. Its keys are those of the library's records (`Allocation`,
        `Status`, ...) and are read as attributes or as items; objects in it are answers again.

    Examples
    --------
    >>> from decobandit.client import Answer
    >>> status = Answer({"name": "pilot", "arms": [{"name": "old", "good": 3}]})
    >>> status.name, status.arms[0].good, status["name"]
    ('pilot', 3, 'pilot')
    >>> status.to_dict()
    {'name': 'pilot', 'arms': [{'name': 'old', 'good': 3}]}
    """

    __slots__ = ("_tree",)

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = dict(tree)

    def __getitem__(self, key: str) -> Any:
        return _shown(self._tree[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._tree:
            keys = "" if name.startswith("_") else f"; it has {', '.join(self._tree)}"
            raise AttributeError(f"the answer has no {name!r}{keys}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._tree]

    def __repr__(self) -> str:
        return f"Answer({self._tree!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return deepcopy(self._tree)


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return Answer(value)
    return [_shown(entry) for entry in value] if isinstance(value, list) else value


class Refused(TrialError):
    """The server refuses this client: no valid token, wrong role, too many requests."""


class Unreachable(StoreError):
    """No server answers at the address, or its answer was lost."""


_BY_CODE: dict[str, type[TrialError]] = {
    kind.code: kind
    for kind in (
        *(library.NotFound, library.NoFreeSlot, library.Closed, library.LimitReached),
        *(library.Conflict, library.Damaged, StoreError, TrialError),
    )
}
_REFUSALS = (401, 403, 429)


def error_of(status: int, code: str, message: str, field: str | None = None) -> TrialError:
    """Return the exception of the library for an error of the server."""
    if status in _REFUSALS:
        return Refused(message, field=field)
    otherwise = StoreError if status >= 500 else TrialError
    return _BY_CODE.get(code, otherwise)(message, field=field)


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


def _all(*answers: Any) -> Any:
    return answers[0] if len(answers) == 1 else answers


@dataclass(frozen=True)
class AsyncSender:
    """Sends requests until they are answered, without blocking."""

    http: httpx.AsyncClient
    exchange: Exchange
    sleep: Sleep = asyncio.sleep

    async def fetch(self, *requests: Request, read: Callable[..., Any] = _all) -> Any:
        """Return `read` of the answers to requests; of a list in pages, all its entries."""
        send = self.http.request
        return read(*[await self.exchange.answer(one, send, self.sleep) for one in requests])


@dataclass(frozen=True)
class Sender:
    """Sends requests until they are answered."""

    http: httpx.Client
    exchange: Exchange
    sleep: Callable[[float], None] = time.sleep

    def fetch(self, *requests: Request, read: Callable[..., Any] = _all) -> Any:
        """Return `read` of the answers to requests; of a list in pages, all its entries."""

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
