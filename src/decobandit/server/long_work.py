"""Long computations for requests: plans, the prices of new trials, replays.

They run in processes of their own (`worker_process.py`) and end when the client is gone. Each kind
has its own queue, so that plans do not hold up new trials. Of one person one computation runs at a
time, and some wait; then comes the first in the queue whose person has none under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, ParamSpec, TypeVar, get_args

import anyio
from fastapi import Request

from ..support.errors import TooLarge
from ..trials import TrialError
from . import worker_process
from .errors import ApiError, busy
from .limits import Limits, Turns
from .worker_process import Worker, WorkerDied

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["plan", "trial", "replay"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RETRY_SECONDS = 10


class Queue(Turns):
    """Turns at one kind of computation: one at a time of a person, few of all."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def has_room(self, name: str) -> bool:
        return not self.taken[name] and len(self.taken) < self._limits.solves

    def refusal(self) -> ApiError:
        return busy("other problems are being solved; try again", seconds=RETRY_SECONDS)

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Hold a turn for one computation of a person; 503 without a place in the queue."""
        limits, queue = self._limits, list(self.waiting.values())
        full = len(queue) >= limits.waiting or queue.count(person) >= limits.waiting_per_person
        if full and not self.has_room(person):
            raise self.refusal()
        await self.take(person, seconds=limits.waiting_seconds)
        try:
            yield
        finally:
            self.give_back(person)


class LongWork:
    """The long computations of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues = {kind: Queue(limits) for kind in KINDS}

    @property
    def load(self) -> tuple[int, int]:
        """How many computations of all kinds run, and how many wait."""
        queues = self._queues.values()
        return sum(len(one.taken) for one in queues), sum(len(one.waiting) for one in queues)

    async def run(
        self, request: Request, kind: Kind, work: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Return the result of work(...), cancelled when the client disconnects."""
        limits = self._limits
        seconds = limits.plan_seconds if kind == "plan" else limits.solve_seconds

        async def computed() -> T:
            async with self._queues[kind].turn(request.state.principal.name):
                return await self._compute(seconds, work, *args, **named)

        return await while_connected(request, computed())

    async def _compute(
        self, seconds: float, work: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> T:
        worker: Worker = await anyio.to_thread.run_sync(worker_process.take)
        ended = False
        try:
            async with asyncio.timeout(seconds):
                # a thread of its own: it waits for as long as the other process computes
                result = await anyio.to_thread.run_sync(
                    lambda: worker.run(work, args, named),
                    abandon_on_cancel=True,
                    limiter=anyio.CapacityLimiter(1),
                )
            ended = True
            return result  # type: ignore[return-value]
        except TimeoutError:
            advice = "ask for fewer draws, scenarios, policies, arms or stages"
            text = f"the computation was ended after {seconds:g} seconds; {advice}"
            raise ApiError(422, "too_slow", text) from None
        except WorkerDied:
            raise ApiError(422, "too_large", "it needs more memory than there is") from None
        except Exception:
            ended = True  # an answer like others
            raise
        finally:
            if ended:
                worker_process.give_back(worker)
            else:
                worker.kill()


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
