"""The two clients: one whose verbs wait for their answers, and one whose verbs are awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import httpx

from .._version import __version__
from ..trials.errors import TrialError
from .answers import Answer
from .exchange import Exchange, Request, Transport, for_header
from .server_verbs import Handle, ServerVerbs
from .verbs import Many, One, RemoteTrial, Run

TIMEOUT = 60.0  # seconds without a byte of an answer
SLOW = 900.0  # where the server computes: prices of a new trial, a replay, a design
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Trial = RemoteTrial[Answer, list[Answer]]
AsyncTrial = RemoteTrial[Awaitable[Answer], Awaitable[list[Answer]]]


# -- how they send and wait ---------------------------------------------------------------------


class _Waiting:
    """Its coroutines never suspend."""

    def __init__(self, http: httpx.Client, timeout: float) -> None:
        self.http, self.timeout = http, timeout

    async def send(self, request: Request) -> httpx.Response:
        return self.http.request(**_sent(request, self.timeout))

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Awaiting:
    def __init__(self, http: httpx.AsyncClient, timeout: float) -> None:
        self.http, self.timeout = http, timeout

    async def send(self, request: Request) -> httpx.Response:
        return await self.http.request(**_sent(request, self.timeout))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _completed(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that never suspends gives."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a coroutine of the client was suspended")


def _unchanged(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return coroutine


def _sent(request: Request, timeout: float) -> dict[str, Any]:
    """The arguments of httpx."""
    return {
        "method": request.method,
        "url": request.address,
        "params": dict(request.query),
        "json": request.body,
        "headers": request.headers,
        "timeout": max(timeout, SLOW) if request.slow else timeout,
    }


# -- what they share ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Means:
    """What a client sends by, and how it runs its coroutines."""

    new_http: Callable[[], Any]
    transport: Callable[[Any, float], Transport]
    run: Run


class _OverHttp(ServerVerbs[One, Many, Handle], Generic[One, Many, Handle, Http]):
    """A server at an address, for the holder of a token."""

    _means: ClassVar[_Means]

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: Http | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise TrialError(f"url: {url!r}; must begin with http:// or https://")
        self._http: Http = self._means.new_http() if http is None else http
        self._http.base_url = httpx.URL(url)
        self._http.headers["User-Agent"] = f"decobandit/{__version__}"
        if token is not None:
            self._http.headers["Authorization"] = f"Bearer {for_header('token', token)}"
        exchange = Exchange(self._means.transport(self._http, timeout), url, retries)
        super().__init__(exchange, self._means.run)


# -- the clients --------------------------------------------------------------------------------


class Client(_OverHttp[Answer, list[Answer], Trial, httpx.Client]):
    """A server of trials.

    Parameters
    ----------
    url : str
        Of the server, as `deco serve` prints it.
    token : str, optional
        What `deco token new` printed; none for a server without tokens.
    retries : int
        Attempts after the first, where a request failed on its way or the server is busy or
        restarts behind a proxy. Changes
        carry a key: one whose answer was lost is not made twice.
    timeout : float
        Seconds that the server may be silent; what is computed or exported has 900.
    http : httpx.Client, optional
        For certificates and proxies of your own; its headers and address are set here.

    Raises
    ------
    TrialError
        What the server refuses, as the library would: `NotFound`, `NoFreeSlot`, `Conflict`, ...;
        `Refused` for a token that is not valid or has another role, `Unreachable` where no server
        answers. With the server's message.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.client import Client
    >>> with Client(url, token) as client:
    ...     trial = client.create_trial(Problem.uniform(arms=2, horizon=5), name="visits")
    ...     allocation = trial.ask(subject="S-001")
    ...     told = trial.tell(allocation.id, "good")
    ...     trial.status().told
    1
    """

    _means = _Means(httpx.Client, _Waiting, _completed)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(
    _OverHttp[Awaitable[Answer], Awaitable[list[Answer]], Awaitable[AsyncTrial], httpx.AsyncClient]
):
    """A server of trials, for programs that await: all verbs but `open_trial` are awaited.

    Parameters
    ----------
    url, token, retries, timeout
        As of `Client`.
    http : httpx.AsyncClient, optional
        As of `Client`.

    Raises
    ------
    TrialError
        As `Client`.

    Examples
    --------
    >>> import asyncio
    >>> from decobandit.client import AsyncClient
    >>> async def visits(number):
    ...     async with AsyncClient(url, token) as client:
    ...         trial = client.open_trial("pilot")
    ...         asked = [trial.ask(subject=f"V-{i}") for i in range(number)]
    ...         return [allocation.state for allocation in await asyncio.gather(*asked)]
    >>> asyncio.run(visits(2))
    ['open', 'open']
    """

    _means = _Means(httpx.AsyncClient, _Awaiting, _unchanged)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
