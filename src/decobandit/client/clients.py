"""Synchronous and asynchronous clients."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self, TypeVar

import httpx

from .._version import __version__
from ..trials.errors import TrialError
from .exchange import TIMEOUT, Answer, AsyncSender, Exchange, Sender, for_header
from .verbs import RemoteTrial, ServerVerbs

Trial = RemoteTrial[Answer, list[Answer]]
AsyncTrial = RemoteTrial[Awaitable[Answer], Awaitable[list[Answer]]]
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


def _addressed(http: Http, url: str, token: str | None) -> Http:
    if not url.startswith(("http://", "https://")):
        raise TrialError(f"url: {url!r}; must begin with http:// or https://", field="url")
    http.base_url = httpx.URL(url)
    http.headers["User-Agent"] = f"decobandit/{__version__}"
    if token is not None:
        http.headers["Authorization"] = f"Bearer {for_header('token', token)}"
    return http


class Client(ServerVerbs[Answer, list[Answer], Trial]):
    """A client of a trial server.

    Parameters
    ----------
    url : str
        Address of the server, as `deco serve` prints it.
    token : str, optional
        Output of `deco token new`; none for a server without tokens.
    retries : int
        Attempts after the first, if the connection failed or the server is busy or restarts behind
        a proxy. Changes carry an idempotency key, so that a repeated one is not made twice.
    timeout : float
        Seconds without an answer; 900 for computations and exports.
    http : httpx.Client, optional
        For custom certificates and proxies; its headers and address are set here.

    Raises
    ------
    TrialError
        The refusals of the library, with the server's message: `NotFound`, `NoFreeSlot`,
        `Conflict`, ...; `Refused` for a token that is not valid or has another role,
        `Unreachable` if no server answers.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.client import Client
    >>> with Client(url, token) as client:
    ...     trial = client.create_trial(Problem.uniform(arms=2, horizon=5), name="visits")
    ...     allocation = trial.ask(subject="S-001")
    ...     slot = trial.tell(allocation.id, "good")
    ...     trial.status().told
    1
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        self._http = _addressed(http or httpx.Client(), url, token)
        super().__init__(Sender(self._http, Exchange(url, retries, timeout)))

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ServerVerbs[Awaitable[Answer], Awaitable[list[Answer]], Awaitable[AsyncTrial]]):
    """An asynchronous client of a trial server: all methods but `open_trial` are awaited.

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
    ...         asks = [trial.ask(subject=f"V-{i}") for i in range(number)]
    ...         return [allocation.state for allocation in await asyncio.gather(*asks)]
    >>> asyncio.run(visits(2))
    ['open', 'open']
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = _addressed(http or httpx.AsyncClient(), url, token)
        super().__init__(AsyncSender(self._http, Exchange(url, retries, timeout)))

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
