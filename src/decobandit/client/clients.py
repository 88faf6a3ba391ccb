"""The two clients: `Client` waits for answers, the verbs of `AsyncClient` are awaited."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

import httpx

from .._version import __version__
from ..trials.errors import TrialError
from .answers import Answer
from .exchange import TIMEOUT, AsyncSender, Exchange, Sender, for_header
from .verbs import RemoteTrial, ServerVerbs

Trial = RemoteTrial[Answer, list[Answer]]
AsyncTrial = RemoteTrial[Awaitable[Answer], Awaitable[list[Answer]]]


def _address(http: httpx.Client | httpx.AsyncClient, url: str, token: str | None) -> None:
    """Set the address of a server, and who asks."""
    if not url.startswith(("http://", "https://")):
        raise TrialError(f"url: {url!r}; must begin with http:// or https://")
    http.base_url = httpx.URL(url)
    http.headers["User-Agent"] = f"decobandit/{__version__}"
    if token is not None:
        http.headers["Authorization"] = f"Bearer {for_header('token', token)}"


class Client(ServerVerbs[Answer, list[Answer], Trial]):
    """A server of trials.

    Parameters
    ----------
    url : str
        Of the server, as `deco serve` prints it.
    token : str, optional
        What `deco token new` printed; none for a server without tokens.
    retries : int
        Attempts after the first, where a request failed on its way or the server is busy or
        restarts behind a proxy. Changes carry a key: one whose answer was lost is not made twice.
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

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        self._http = httpx.Client() if http is None else http
        _address(self._http, url, token)
        super().__init__(Sender(self._http, Exchange(url, retries, timeout)))

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ServerVerbs[Awaitable[Answer], Awaitable[list[Answer]], Awaitable[AsyncTrial]]):
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

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = httpx.AsyncClient() if http is None else http
        _address(self._http, url, token)
        super().__init__(AsyncSender(self._http, Exchange(url, retries, timeout)))

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
