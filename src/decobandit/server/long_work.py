"""Long computations for requests: plans, the prices of new trials, replays.

They run in processes of their own (`worker_process.py`) and end when the client is gone. Each kind
has its own queue, so that plans do not hold up new trials. Of one person one computation runs at a
time, and some wait; then comes the first in the queue whose person has none under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, ParamSpec, TypeVar

import anyio
from fastapi import Request

from ..support.errors import TooLarge
from ..trials import TrialError
from . import worker_process
from .errors import ApiError, busy
from .middleware.limits import Limits
from .worker_process import Worker, WorkerDied

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["plan", "trial", "replay"]
KINDS: tuple[Kind, ...] = ("plan", "trial", "replay")
RETRY_SECONDS = 10


def _no_place() -> ApiError:
    return busy("other problems are being solved; try again", seconds=RETRY_SECONDS)


class Queue:
    """Turns at one kind of computation."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: set[str] = set()
        self._waiting: dict[asyncio.Future[None], str] = {}  # the first come first

    @property
    def load(self) -> tuple[int, int]:
        """How many computations run, and how many wait."""
        return len(self._running), len(self._waiting)

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Hold a turn for one computation of a person; 503 without a place in the queue."""
        if self._is_free(person):
            self._running.add(person)
        else:
            await self._wait(person)
        try:
            yield
        finally:
            self._end(person)

    def _is_free(self, person: str) -> bool:
        return person not in self._running and len(self._running) < self._limits.solves

    async def _wait(self, person: str) -> None:
        waiting = sum(name == person for name in self._waiting.values())
        if len(self._waiting) >= self._limits.waiting or waiting >= self._limits.waiting_per_person:
            raise _no_place()
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = person
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await turn
        except BaseException as error:
            if self._waiting.pop(turn, None) is None and not turn.cancelled():
                self._end(person)  # the turn came in the last moment
            if isinstance(error, TimeoutError):
                raise _no_place() from None
            raise

    def _end(self, person: str) -> None:
        self._running.discard(person)
        for turn, next_person in list(self._waiting.items()):
            if self._is_free(next_person):
                del self._waiting[turn]
                if not turn.done():
                    self._running.add(next_person)
                    turn.set_result(None)


class LongWork:
    """The long computations of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues = {kind: Queue(limits) for kind in KINDS}

    @property
    def load(self) -> tuple[int, int]:
        """How many computations of all kinds run, and how many wait."""
        running, waiting = zip(*(queue.load for queue in self._queues.values()), strict=True)
        return sum(running), sum(waiting)

    async def run(
        self, request: Request, kind: Kind, work: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Return the result of work(...), cancelled when the client disconnects."""

        async def computed() -> T:
            async with self._queues[kind].turn(request.state.principal.name):
                return await self._compute(self._seconds(kind), work, *args, **named)

        return await while_connected(request, computed())

    def _seconds(self, kind: Kind) -> float:
        return self._limits.plan_seconds if kind == "plan" else self._limits.solve_seconds

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
            raise ApiError(
                422,
                "too_slow",
                f"the computation was ended after {seconds:g} seconds; ask for fewer draws, "
                "scenarios, policies, arms or stages",
            ) from None
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
        raise ApiError(503, "unavailable", "the client has gone")  # which nobody reads
    finally:
        for future in (task, gone):
            future.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextmanager
def refusals() -> Iterator[None]:
    """Answer refusals of a problem in the request by 422."""
    try:
        yield
    except TrialError:
        raise
    except (MemoryError, TooLarge) as error:
        raise ApiError(422, "too_large", str(error) or "the problem is too large") from None
    except (ValueError, OverflowError) as error:
        message, field = " ".join(str(error).split()), getattr(error, "field", None)
        raise ApiError(422, "invalid", message, field=field) from None
