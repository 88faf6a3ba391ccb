"""Who may work: a limited number of requests at once, shared between people.

Nobody takes more places than are free: one person who sends many long requests gets half of them,
two get a third each, and there is one left for whoever comes next. The others wait in order, each
until it is its turn by this rule.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import ApiError, busy, error_response
from ..principal import Principal
from .base import HttpMiddleware, until_answered
from .limits import Limits, address_of

STRANGERS_PART = 4  # strangers together take at most a quarter


class Places:
    """A number of places, taken by name."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._taken = Counter[str]()
        self._strangers = 0
        self._waiting: dict[asyncio.Future[None], tuple[str, bool]] = {}  # the oldest first

    def _has_room(self, name: str, stranger: bool) -> bool:
        if stranger and self._strangers >= max(1, self.count // STRANGERS_PART):
            return False
        return self._taken[name] < self.count - self._taken.total()

    def _take(self, name: str, stranger: bool) -> None:
        self._taken[name] += 1
        self._strangers += stranger

    async def take(self, name: str, *, stranger: bool, seconds: float) -> None:
        """Take a place, or wait for it; `busy` after so many seconds."""
        if self._has_room(name, stranger):
            self._take(name, stranger)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = name, stranger
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if self._waiting.pop(turn, None) is None and not turn.cancelled():
                self.give_back(name, stranger=stranger)  # it came in the last moment
            if isinstance(error, TimeoutError):
                raise busy() from None
            raise

    def give_back(self, name: str, *, stranger: bool) -> None:
        """Free a place."""
        self._taken[name] -= 1
        self._strangers -= stranger
        if not self._taken[name]:
            del self._taken[name]
        for turn, waiting in list(self._waiting.items()):
            if self._has_room(*waiting):
                del self._waiting[turn]
                if not turn.done():
                    self._take(*waiting)
                    turn.set_result(None)


class Shares(HttpMiddleware):
    """Lets requests in as far as their person's share goes."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        super().__init__(app)
        self.limits = limits
        self.places = Places(limits.threads)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope["state"]["principal"]
        stranger = principal is None
        name = address_of(scope) if principal is None else f"person {principal.name}"
        try:
            await self.places.take(name, stranger=stranger, seconds=self.limits.thread_seconds)
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return

        def answered() -> None:
            self.places.give_back(name, stranger=stranger)

        async with until_answered(send, answered) as watched:
            await self.app(scope, receive, watched)
