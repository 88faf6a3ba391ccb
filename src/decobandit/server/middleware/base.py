"""The base of this server's middleware: what is not HTTP passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HttpMiddleware(ABC):
    """Does something before or around the HTTP requests that the application answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.handle(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to `self.app`."""


def at_start(send: Send, act: Callable[[Message], None]) -> Send:
    """Return a `send` that calls `act` with the start of an answer before it is sent."""

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            act(message)
        await send(message)

    return watched


@asynccontextmanager
async def until_answered(send: Send, then: Callable[[], None]) -> AsyncIterator[Send]:
    """Return a `send` that calls `then` once, when an answer begins, or at the end.

    From there on the client alone decides how long it takes: a slow one must not hold a place.
    """
    done = False

    def end() -> None:
        nonlocal done
        if not done:
            done = True
            then()

    try:
        yield at_start(send, lambda _: end())
    finally:
        end()
