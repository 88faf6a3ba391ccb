"""A process that computes for the server: it can be ended, and cannot take the server down.

It stays for the next computation, with its compiled code and caches. It runs at low priority, so
that requests come first. It cannot take more memory than is available when a computation begins; if
memory still runs out, the system ends this process and not the server. It ends with the server,
which closes its standard input.
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

MAX_IDLE_BYTES = 700_000_000  # of the process that is kept without work: caches may have grown


class WorkerDied(Exception):
    """The process ended in the middle of a computation."""


class Worker:
    """The server's end of a process."""

    def __init__(self) -> None:
        self._running = False
        start = f"from {__name__} import run_jobs; run_jobs({allowed_policies()!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the server
        )

    def run(
        self, work: Callable[..., object], args: Sequence[object], named: Mapping[str, object]
    ) -> tuple[object, BaseException | None]:
        """Return the result of work(*args, **named) in the other process, and its error."""
        stdin, stdout = cast("BinaryIO", self.process.stdin), cast("BinaryIO", self.process.stdout)
        self._running = True
        try:
            pickle.dump((work, args, named), stdin)
            stdin.flush()
            answer: tuple[object, BaseException | None] = pickle.load(stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self._close()
            raise WorkerDied from None
        self._running = False
        return answer

    def used_bytes(self) -> int:
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if not self._running:  # else the thread that waits for an answer closes them
            self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was not sent any more
                cast("BinaryIO", pipe).close()


idle: list[Worker] = []  # at most one
_lock = threading.Lock()


def take_worker() -> Worker:
    """Return the idle process, or a new one."""
    with _lock:
        worker = idle.pop() if idle else None
    return worker if worker is not None and worker.process.poll() is None else Worker()


def give_back(worker: Worker, *, is_free: bool) -> None:
    """Keep a process whose computation has ended, if there is no other; end it otherwise."""
    with _lock:
        if is_free and not idle and worker.used_bytes() < MAX_IDLE_BYTES:
            idle.append(worker)
            return
    worker.kill()


@atexit.register
def end_idle() -> None:
    """End the process that is kept without work."""
    while idle:
        idle.pop().kill()


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
    with suppress(AttributeError, OSError):  # not Linux: the system decides
        os.nice(10)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("800")


def _limit_memory() -> None:
    """From now on, no more than is available: within control groups, too."""
    with suppress(AttributeError, ImportError, OSError, ValueError):
        import resource

        # of Linux, which counts what can be written; elsewhere the limit has little effect
        used = psutil.Process().memory_info().data
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (used + available_bytes(), hard))
