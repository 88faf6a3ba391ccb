"""How many threads compute, and the one place that starts them.

`workers=None` means all processors that this process may use, unless an enclosing call was given a
number. That number applies to everything it calls. Work that runs in a pool starts no threads of
its own. Only the main thread hears the keyboard; where it leaves a pool by an exception, the
threads of the pool end at their next `heed_interrupt`.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock
from typing import Any, ParamSpec, TypeVar, cast

from .cgroups import cpu_limit
from .interrupts import heard_between_kernels, raise_put_off
from .progress import Progress, tell

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
TELL_SECONDS = 0.2  # between two reports of threads that are under way
_allowed: ContextVar[int | None] = ContextVar("allowed workers", default=None)
_stopped: ContextVar[Event | None] = ContextVar("the pool was left", default=None)


def available_workers() -> int:
    """Processors that this process may use."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not every system has it
        mine = os.cpu_count() or 1
    return min(mine, _cpu_limit() or mine)


@functools.cache
def _cpu_limit() -> int | None:
    """Read once per process: pools are made far too often to read files for each."""
    return cpu_limit()


def worker_count(workers: int | None = None, *, most: int | None = None) -> int:
    """How many threads to compute with.

    workers: as asked for; None for all that are allowed. most: threads that the work is worth.
    """
    _check(workers)
    allowed = _allowed.get()
    if workers is None:
        workers = available_workers() if allowed is None else allowed
    limits = [workers, *(each for each in (allowed, most) if each is not None)]
    return max(1, min(limits))


@contextmanager
def limited_workers(workers: int | None) -> Iterator[None]:
    """Everything called in this block uses this many threads; None changes nothing."""
    _check(workers)
    if workers is None:
        yield
        return
    token = _allowed.set(worker_count(workers))
    try:
        yield
    finally:
        _allowed.reset(token)


def obeys_workers(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose keyword `workers` applies to everything that it calls.

    It computes, so that Ctrl-C is heard between its kernels.
    """

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        workers = cast("int | None", kwargs.get("workers"))
        with limited_workers(workers), heard_between_kernels():
            return function(*args, **kwargs)

    return limited


def _check(workers: int | None) -> None:
    try:
        allowed = workers is None or operator.index(workers) >= 1
    except TypeError:
        allowed = False
    if not allowed:
        raise ValueError(f"workers: {workers!r} is not allowed; must be a number, 1 or more")


class Pool:
    """Threads that share a piece of work; of one worker, the calling thread itself."""

    def __init__(self, workers: int, executor: ThreadPoolExecutor | None) -> None:
        self.workers = workers
        self._executor = executor

    def map(self, work: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        """work(item, ...) of every item, in order."""
        return list(self._results(work, *items))

    def each(self, work: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        """The same of one argument, one after the other as they are done."""
        return self._results(work, items)

    def _results(self, work: Callable[..., T], *items: Iterable[Any]) -> Iterator[T]:
        calls = zip(*items, strict=False)
        if self._executor is None:
            return (work(*each) for each in calls)
        return _in_order([self._executor.submit(work, *each) for each in calls])

    def map_told(self, what: str, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """The same of one argument, telling how many are done (`tell`)."""
        tell(Progress(what, 0, len(items)))
        results: list[T] = []
        for result in self.each(work, items):
            results.append(result)
            tell(Progress(what, len(results), len(items)))
        return results

    def map_in_steps(
        self, what: str, work: Callable[[S, Callable[[int], None]], T], items: Sequence[S],
        total: int,
    ) -> list[T]:  # fmt: skip
        """The same where items are long: work(item, step) calls step(n) when n steps are done."""
        done, lock = [0], Lock()

        def step(steps: int) -> None:
            with lock:
                done[0] += steps
            if self._executor is None:
                tell(Progress(what, done[0], total))

        tell(Progress(what, 0, total))
        if self._executor is None:
            return [work(item, step) for item in items]
        under_way = [self._executor.submit(work, item, step) for item in items]
        left = set(under_way)
        while left:
            ended, left = wait(left, TELL_SECONDS, FIRST_COMPLETED)
            for each in ended:
                each.result()  # an error ends it
            tell(Progress(what, done[0], total))
        return [each.result() for each in under_way]

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a piece of work beside the calling thread."""
        assert self._executor is not None, "a pool of one worker has no executor"
        return self._executor.submit(work, *args, **kwargs)


def _in_order(under_way: list[Future[T]]) -> Iterator[T]:
    """Results, one after the other; what is left when one is an error never begins."""
    try:
        for each in under_way:
            while not each.done():  # a signal just before a wait without end would not be heard
                wait([each], TELL_SECONDS)
            yield each.result()
    finally:
        for each in under_way:
            each.cancel()


@contextmanager
def pool(workers: int) -> Iterator[Pool]:
    """A pool of exactly so many workers, a number that `worker_count` gave."""
    if workers == 1:
        yield Pool(1, None)
        return
    stopped = Event()
    with _threads(workers, stopped) as executor:
        try:
            yield Pool(workers, executor)
        except BaseException:
            stopped.set()  # before the executor waits for what is under way
            executor.shutdown(wait=False, cancel_futures=True)  # what has not begun never does
            raise


def heed_interrupt() -> None:
    """KeyboardInterrupt, where one was put off until kernels have answered.

    In a thread of a pool: where whoever waits for the pool has left it.
    """
    raise_put_off()
    stopped = _stopped.get()
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt


def _join(stopped: Event) -> None:
    """What a thread of a pool starts with: it starts none itself, and knows when to end."""
    _allowed.set(1)
    _stopped.set(stopped)


def _threads(workers: int, stopped: Event) -> ThreadPoolExecutor:
    """The one place that starts threads to compute with."""
    return ThreadPoolExecutor(workers, "decobandit", initializer=_join, initargs=(stopped,))
