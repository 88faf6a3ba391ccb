"""A process that computes for the server: it can be ended, and cannot take the server down.

It stays for the next computation, with what is compiled and cached. It runs at low priority, so
that requests come first. It cannot take more memory than is available when a computation begins,
and where memory runs out all the same, the system ends it and not the server. It ends with the
server: its standard input does.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, cast

import psutil

from ..policies import allow_policy, allowed_policies
from ..support import available_bytes

NICENESS = 10
MAX_IDLE = 1  # processes that are kept without work
MAX_IDLE_BYTES = 700_000_000  # of one of them: caches may have grown


class WorkerDied(Exception):
    """The process ended in the middle of a computation."""


class Worker:
    """The server's end of such a process."""

    def __init__(self) -> None:
        self._running = False
        start = f"from {__name__} import run_jobs; run_jobs({allowed_policies()!r})"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the server
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(
        self, work: Callable[..., object], args: Sequence[object], named: Mapping[str, object]
    ) -> object:
        """Return the result of work(*args, **named) in the other process, or raise its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._running = True
        try:
            pickle.dump((work, args, named), self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self._close()
            raise WorkerDied from None
        self._running = False
        if error is not None:
            raise cast("BaseException", error)
        return result

    def used_bytes(self) -> int:
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if not self._running:  # else the thread that waits for an answer closes them
            self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent any more
                if pipe is not None:
                    pipe.close()


_idle: list[Worker] = []
_lock = threading.Lock()


def take() -> Worker:
    """Return an idle process, or a new one."""
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.alive:
                return worker
    return Worker()


def give_back(worker: Worker) -> None:
    """Its computation has ended."""
    with _lock:
        if len(_idle) < MAX_IDLE and worker.used_bytes() < MAX_IDLE_BYTES:
            _idle.append(worker)
            return
    worker.kill()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().kill()


# -- in the process -------------------------------------------------------------------------------


def run_jobs(allowed: Sequence[str]) -> None:
    """Compute what the server sends, until it goes; `allowed`: policies of other modules."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    _step_back()
    for policy in allowed:
        allow_policy(policy)
    jobs: queue.SimpleQueue[tuple[Callable[..., object], Any, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=[sys.stdin.buffer, jobs], daemon=True).start()
    while True:
        work, args, named = jobs.get()
        _limit_memory()
        answer: tuple[object, BaseException | None]
        try:
            answer = work(*args, **named), None
        except Exception as error:
            answer = None, error
        try:
            message = pickle.dumps(answer)
        except MemoryError:
            message = pickle.dumps((None, MemoryError()))
        except Exception as error:  # not everything can be sent
            kinds = f"{type(answer[0]).__name__}, {type(answer[1]).__name__}"
            message = pickle.dumps((None, RuntimeError(f"cannot be sent: {kinds}: {error}")))
        answers.write(message)
        answers.flush()


def _read(sent: BinaryIO, jobs: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            jobs.put(pickle.load(sent))
        except EOFError:
            os._exit(0)  # the server has gone


def _step_back() -> None:
    """Behind the server: for processors, and where memory is short."""
    try:
        os.nice(NICENESS)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("800")
    except (AttributeError, OSError):
        pass  # not Linux: the system decides


def _limit_memory() -> None:
    """From now on, no more than is available: within control groups, too."""
    try:
        import resource

        # of Linux, which counts what can be written; elsewhere the limit has little effect
        used = psutil.Process().memory_info().data
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (used + available_bytes(), hard))
    except (AttributeError, ImportError, OSError, ValueError):
        pass
