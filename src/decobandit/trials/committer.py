"""A thread that commits for those who wait without one."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Job = TypeVar("Job")


class Committer(Generic[Job]):
    """Calls `commit` for one job after the other; a call may do the jobs after it as well.

    A daemon: a process that has to end does not wait for a database that stalls.
    """

    def __init__(self, commit: Callable[[Job], None]) -> None:
        self._commit = commit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        Thread(target=self._run, name="committer", daemon=True).start()

    def put(self, job: Job) -> None:
        """One more job."""
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread when the jobs before are done."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._commit(job)
