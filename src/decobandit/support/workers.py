"""How many threads compute, the one place that starts them, and Ctrl-C while kernels run."""

from __future__ import annotations

import _thread
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast

from .errors import InvalidArgument
from .machine import cpu_limit
from .progress import Progress, tell

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
TELL_SECONDS = 0.2  # between two reports of threads that are under way
_allowed: ContextVar[int | None] = ContextVar("allowed workers", default=None)
_stopped: ContextVar[Event | None] = ContextVar("the pool was left", default=None)


def available_workers() -> int:
    """Return the number of processors that this process may use."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not every system has it
        mine = os.cpu_count() or 1
    return min(mine, cpu_limit() or mine)


def worker_count(workers: int | None = None, *, most: int | None = None) -> int:
    """Return the number of threads to use: as asked for, allowed, and at most worth it."""
    _check(workers)
    limits = [limit for limit in (workers, _allowed.get()) if limit is not None]
    limits = limits or [available_workers()]
    return max(1, min(limits if most is None else [*limits, most]))


@contextmanager
def limited_workers(workers: int | None) -> Iterator[None]:
    """Limit the threads used in this block; None changes nothing."""
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
    """Apply the keyword `workers` to all that a function calls; Ctrl-C works between kernels."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        workers = cast("int | None", kwargs.get("workers"))
        with limited_workers(workers), heard_between_kernels():
            return function(*args, **kwargs)

    return limited


def _check(workers: int | None) -> None:
    if workers is not None and not (hasattr(workers, "__index__") and workers >= 1):
        rule = "must be a number, 1 or more"
        raise InvalidArgument(f"workers: {workers!r} is not allowed; {rule}", field="workers")


class Pool:
    """Threads that share work; one worker is the calling thread."""

    def __init__(self, workers: int, executor: ThreadPoolExecutor | None) -> None:
        self.workers = workers
        self._executor = executor

    def map(self, work: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        """Return work(item, ...) of every item, in order."""
        return list(self.each(work, *items))

    def each(self, work: Callable[..., T], *items: Iterable[Any]) -> Iterator[T]:
        """Yield work(item, ...) of every item, in order."""
        calls = zip(*items, strict=False)
        if self._executor is None:
            return (work(*call) for call in calls)
        return _in_order([self._executor.submit(work, *call) for call in calls])

    def map_told(self, what: str, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """Return work(item) of every item and report how many are done."""
        tell(Progress(what, 0, len(items)))
        results: list[T] = []
        for result in self.each(work, items):
            results.append(result)
            tell(Progress(what, len(results), len(items)))
        return results

    def map_in_steps(
        self,
        what: str,
        work: Callable[[S, Callable[[int], None]], T],
        items: Sequence[S],
        total: int,
    ) -> list[T]:
        """Return work(item, step) of long items; step(n) reports n steps done."""
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
        return list(_in_order(under_way, lambda: tell(Progress(what, done[0], total))))

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start work in another thread."""
        assert self._executor is not None, "a pool of one worker has no executor"
        return self._executor.submit(work, *args, **kwargs)


def _in_order(under_way: list[Future[T]], report: Callable[[], None] = lambda: None) -> Iterator[T]:
    """Yield results in order, with reports on the way; cancel the rest after an error."""
    try:
        for future in under_way:
            while not future.done():  # a signal just before a wait without end would not be heard
                wait([future], TELL_SECONDS)
                report()
            result = future.result()
            report()
            yield result
    finally:
        for future in under_way:
            future.cancel()


@contextmanager
def pool(workers: int) -> Iterator[Pool]:
    """Open a pool with a number of workers from `worker_count`."""
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
    """Raise a deferred KeyboardInterrupt; in a thread, where the waiting one left the pool."""
    _raise_put_off()
    stopped = _stopped.get()
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt


def _threads(workers: int, stopped: Event) -> ThreadPoolExecutor:
    """Start compute threads; nothing else does."""

    def join() -> None:  # no threads of its own, and when to end
        _allowed.set(1)
        _stopped.set(stopped)

    return ThreadPoolExecutor(workers, "decobandit", initializer=join)


PAUSE = 0.002  # seconds until an interrupt that came at a bad moment is raised again
OBJECTS = "numba/core/serialize.py"  # reads the classes of what a kernel returns
RECORD = ("<string>", "<lambda>")  # file and name of the code that makes a named tuple
_put_off = threading.Event()


def raise_between_kernels(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: raise KeyboardInterrupt, but not while numba builds a kernel's result.

    It is then raised by `_raise_put_off`, or a moment later where that is between kernels.
    """
    if not _makes_an_answer(frame):
        _put_off.clear()
        signal.default_int_handler(number, frame)

    def again() -> None:
        if _put_off.is_set():
            _thread.interrupt_main()

    _put_off.set()
    timer = threading.Timer(PAUSE, again)
    timer.daemon = True
    timer.start()


def _raise_put_off() -> None:
    if _put_off.is_set() and threading.current_thread() is threading.main_thread():
        _put_off.clear()
        raise KeyboardInterrupt


@contextmanager
def heard_between_kernels() -> Iterator[None]:
    """Defer interrupts in this block to the time between kernels."""
    handler = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not handler:
        yield
        return
    signal.signal(signal.SIGINT, raise_between_kernels)
    try:
        yield
        _raise_put_off()
    finally:
        _put_off.clear()
        signal.signal(signal.SIGINT, handler)


def until_interrupted(work: Callable[[S], T], items: Iterable[S]) -> tuple[list[T], bool]:
    """Return results, and whether Ctrl-C ended the work after the first of them."""
    results: list[T] = []
    try:
        for item in items:
            results.append(work(item))
    except KeyboardInterrupt:
        if not results:
            raise
        return results, True
    return results, False


def _makes_an_answer(frame: FrameType | None) -> bool:
    if frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) == RECORD:
        return True
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(OBJECTS):
            return True
        frame = frame.f_back
    return False


STATES_AT_ONCE = 200_000_000  # that a kernel goes through in one call


def legs(first: int, last: int, states: float) -> Iterator[tuple[int, int]]:
    """Split stages (up or down) into chunks; `states`: that a kernel goes through at a stage."""
    at_once = max(1, int(STATES_AT_ONCE / max(states, 1.0)))
    step = at_once if first <= last else -at_once
    for start in range(first, last, step):
        heed_interrupt()
        stop = start + step
        yield start, min(stop, last) if step > 0 else max(stop, last)
