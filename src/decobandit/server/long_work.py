"""Long computations for requests: plans, the prices of new trials, replays.

They run in processes of their own (`worker_process.py`) and end when the client is gone. Each kind
has its own queue, so that plans do not hold up new trials. Each person has at most one running
computation and a few waiting ones; next is the first in the queue whose person has none running.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Literal, ParamSpec, TypeVar, cast, get_args

import anyio
from fastapi import Request

from ..support.errors import TooLarge
from ..trials import TrialError
from .errors import ApiError, busy
from .limits import Limits, Places, sender_of
from .worker_process import WorkerDied, give_back, take_worker

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["plan", "trial", "replay"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _refusal() -> ApiError:
    return busy("other problems are being solved; try again", seconds=10)


class LongWork:
    """The long computations of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues = {
            kind: Places(limits.solves, most_each=1, refusal=_refusal) for kind in KINDS
        }

    @property
    def load(self) -> tuple[int, int]:
        """How many computations of all kinds run, and how many wait."""
        queues = self._queues.values()
        return sum(len(one.taken) for one in queues), sum(len(one.waiting) for one in queues)

    @asynccontextmanager
    async def turn(self, kind: Kind, sender: str) -> AsyncIterator[None]:
        """Hold a turn for one computation of a sender; 503 without a place in the queue."""
        limits, places = self._limits, self._queues[kind]
        waiting = list(places.waiting.values())
        full = len(waiting) >= limits.waiting or waiting.count(sender) >= limits.waiting_per_person
        if full and not places.has_room(sender):
            raise _refusal()
        await places.take(sender, seconds=limits.waiting_seconds)
        try:
            yield
        finally:
            places.give_back(sender)

    async def run(
        self, request: Request, kind: Kind, work: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Return the result of work(...), cancelled when the client disconnects."""
        limits = self._limits
        seconds = limits.plan_seconds if kind == "plan" else limits.solve_seconds

        async def computed() -> T:
            async with self.turn(kind, sender_of(request.scope)):
                return cast("T", await _computed(seconds, work, args, named))

        return await while_connected(request, computed())


async def _computed(
    seconds: float, work: Callable[..., object], args: Sequence[object], named: Mapping[str, object]
) -> object:
    worker = await anyio.to_thread.run_sync(take_worker)
    is_free = False
    try:
        async with asyncio.timeout(seconds):
            # a thread of its own: it waits for as long as the other process computes
            result, error = await anyio.to_thread.run_sync(
                partial(worker.run, work, args, named),
                abandon_on_cancel=True,
                limiter=anyio.CapacityLimiter(1),
            )
        is_free = True
    except TimeoutError:
        advice = "ask for fewer draws, scenarios, policies, arms or stages"
        text = f"the computation was ended after {seconds:g} seconds; {advice}"
        raise ApiError(422, "too_slow", text) from None
    except WorkerDied:
        raise ApiError(422, "too_large", "it needs more memory than there is") from None
    finally:
        give_back(worker, is_free=is_free)
    if error is not None:
        raise error
    return result


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel it when the client disconnects after its body."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ApiError(503, "unavailable", "the client has gone")  # not read by anyone
    finally:
        for future in (task, gone):
            future.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextmanager
def refusals(*, own_code: bool = False) -> Iterator[None]:
    """Answer refusals of a problem in the request by 422, `invalid` or their own code."""
    try:
        yield
    except TrialError:
        raise
    except (MemoryError, TooLarge) as error:
        raise ApiError(422, "too_large", str(error) or "the problem is too large") from None
    except (ValueError, OverflowError) as error:
        message, field = " ".join(str(error).split()), getattr(error, "field", None)
        code = str(getattr(error, "code", "invalid")) if own_code else "invalid"
        raise ApiError(422, code, message, field=field) from None
