"""Limits on concurrent requests, shared between people.

Nobody takes more places than are free: one person who sends many long requests gets half of them,
two get a third each, and there is one left for whoever comes next. The others wait in order, each
until it is its turn by this rule.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import ApiError, busy
from .base import HttpMiddleware, until_answered
from .limits import Limits, is_person, sender_of

FLAGS = "/ofrep/"  # evaluations wait for commits, many for one
STRANGERS_PART = 4  # strangers together take at most a quarter


class Turns(ABC):
    """Turns at something that few may do at once; the others wait in order."""

    def __init__(self) -> None:
        self.taken = Counter[str]()
        self.waiting: dict[asyncio.Future[None], str] = {}  # the oldest first

    @abstractmethod
    def has_room(self, name: str) -> bool:
        """Return whether a client may take a turn now."""

    async def take(self, name: str, *, seconds: float) -> None:
        """Take a turn, or wait for it; `busy` after so many seconds."""
        if self.has_room(name):
            self.taken[name] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting[turn] = name
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if self.waiting.pop(turn, None) is None and not turn.cancelled():
                self.give_back(name)  # it came in the last moment
            if isinstance(error, TimeoutError):
                raise self.refusal() from None
            raise

    def give_back(self, name: str) -> None:
        self.taken -= Counter([name])
        for turn, next_name in list(self.waiting.items()):
            if self.has_room(next_name):
                del self.waiting[turn]
                if not turn.done():
                    self.taken[next_name] += 1
                    turn.set_result(None)

    def refusal(self) -> ApiError:
        return busy()


class Places(Turns):
    """A number of places; one client takes at most as many as are free."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def has_room(self, name: str) -> bool:
        if not is_person(name):
            strangers = sum(n for one, n in self.taken.items() if not is_person(one))
            if strangers >= max(1, self.count // STRANGERS_PART):
                return False
        return self.taken[name] < self.count - self.taken.total()


class Shares(HttpMiddleware):
    """Lets requests in as far as their person's share goes."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        super().__init__(app)
        self.limits = limits
        self.places = Places(limits.threads)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(FLAGS):  # they need no thread
            await self.app(scope, receive, send)
            return
        name = sender_of(scope)
        await self.places.take(name, seconds=self.limits.thread_seconds)
        async with until_answered(send, partial(self.places.give_back, name)) as watched:
            await self.app(scope, receive, watched)
