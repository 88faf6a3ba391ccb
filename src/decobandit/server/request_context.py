"""The request that is served: its id, its sender, what the sender may know; middleware for it.

The only place that decides who is blinded.
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"
_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# of the request that is being served, in the threads that work for it too
current: ContextVar[Scope | None] = ContextVar("decobandit_request", default=None)

# roles that are not blinded; an app learns the arms of its asks, and has no route to results
SEES_ARMS = frozenset({"admin", "viewer", "app"})


@dataclass(frozen=True)
class Principal:
    """The sender of a request."""

    name: str
    role: str
    token_id: str | None
    via: Literal["bearer", "cookie", "loopback"]
    only_trials: frozenset[str] | None = None  # names of the trials that they may use; None: all

    @property
    def blinded(self) -> bool:
        """Whether they must not learn how a trial is going."""
        return self.role not in SEES_ARMS

    def may_use(self, trial: str) -> bool:
        return self.only_trials is None or trial in self.only_trials


def _state(scope: Mapping[str, Any] | None, name: str) -> Any:
    return (scope or {}).get("state", {}).get(name)


def is_blinded(scope: Mapping[str, Any]) -> bool:
    """Whether the sender of a request is blinded: operators, and clients without a login."""
    principal: Principal | None = _state(scope, "principal")
    return principal is None or principal.blinded


def new_request_id(headers: Headers) -> str:
    """Return the id that a proxy or client sent if it is short and safe; else a new one."""
    values = headers.getlist(HEADER)
    is_safe = len(values) == 1 and _VALID.fullmatch(values[0])
    return values[0] if is_safe else secrets.token_hex(8)


def id_of(scope: Scope | None) -> str | None:
    """Return the id of a request."""
    value: str | None = _state(scope, "request_id")
    return value


def person_of(scope: Scope | None) -> str | None:
    """Return the name of the token of a request."""
    principal = _state(scope, "principal")
    return None if principal is None else str(principal.name)


@dataclass(eq=False)
class HttpMiddleware(ABC):
    """Does something before or around the HTTP requests that the application answers."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        act = self.handle if scope["type"] == "http" else self.app
        await act(scope, receive, send)

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
    pending = [then]

    def end(_: Message | None = None) -> None:
        if pending:
            pending.pop()()

    try:
        yield at_start(send, end)
    finally:
        end()
