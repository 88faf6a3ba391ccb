"""Requests and their answers: keys, retries, pages of lists. The same for both kinds of clients.

All of it is written as coroutines over a transport. The transport of `Client` never suspends, so
that its coroutines are done when they are first run; that of `AsyncClient` does.

A request that may be sent again is: after a connection that failed, after 429 and 503 with the
header `Retry-After`, and after 429, 502, 503 and 504 of a proxy, whose server restarts. What reads
or computes may always be repeated. A change carries a key, under which the server answers the same
again and writes nothing new. New trials and tokens have no key: they are sent again only where the
server cannot have seen them, or says that it is busy.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import quote

import httpx

from ..support import is_count
from ..trials.errors import TrialError
from .answers import Answer
from .errors import Unreachable, error_of

ROOT = "/api/v1"
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds between two attempts
FIRST_PROXY_PAUSE = 1.0  # after an answer of a proxy: a server takes seconds to start
AGAIN = (429, 503)
AGAIN_OF_PROXY = (429, 502, 503, 504)
BUSY = ("busy", "too_many_requests")


@dataclass(frozen=True)
class Request:
    """One request to the API. `key`: under which it may be sent again; `slow`: is computed long.

    `alike`: may be sent again without a key; `page`: the answer is HTML.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: tuple[str, ...]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    key: str | None = None
    slow: bool = False
    alike: bool = False
    page: bool = False

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


class Transport(Protocol):
    """What sends requests and waits."""

    async def send(self, request: Request) -> httpx.Response: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True)
class Exchange:
    """Sends requests to a server until they are answered; `retries`: attempts after the first."""

    transport: Transport
    url: str
    retries: int

    async def one(self, request: Request) -> Answer:
        """The answer to a request; an error of the server is the library's exception."""
        attempt = 0
        while True:
            try:
                response = await self.transport.send(request)
            except (ValueError, TypeError) as error:  # nothing was sent: NaN, or bytes
                raise TrialError(f"the request cannot be written as JSON: {error}") from None
            except httpx.TransportError as error:
                if attempt >= self.retries or not _may_follow(request, error):
                    why = str(error) or type(error).__name__
                    raise Unreachable(f"{self.url} does not answer: {why}") from None
                pause = _growing(attempt)
            else:
                if response.is_success:
                    return self._read(request, response)
                code, message = self._said(response)
                again = _pause_asked(response, attempt, of_proxy=not code)
                may = request.repeatable or code in BUSY
                if attempt >= self.retries or again is None or not may:
                    raise error_of(response.status_code, code, message)
                pause = again
            await self.transport.sleep(pause)
            attempt += 1

    async def all(self, request: Request, key: str) -> list[Answer]:
        """All entries of a list that comes in pages."""
        found: list[Answer] = []
        query = dict(request.query)
        while True:
            page = await self.one(Request("GET", request.path, query))
            found += page[key]
            if not page.get("next"):
                return found
            query["after"] = page["next"]

    def _read(self, request: Request, response: httpx.Response) -> Answer:
        """The answer; what a proxy says in place of the server is none."""
        try:
            return request.read(response)
        except (ValueError, TypeError):
            raise Unreachable(self._foreign(response)) from None

    def _said(self, response: httpx.Response) -> tuple[str, str]:
        """Code and message of an error; of something else than a server of trials, its status."""
        try:
            error = response.json()["error"]
            return str(error["code"]), str(error["message"])
        except (ValueError, KeyError, TypeError):
            return "", self._foreign(response)

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
