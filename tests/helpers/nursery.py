"""Lives of `trial_worker.py`: begun in a process of its own, followed line by line, and killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.program import PATIENCE

WORKER = Path(__file__).with_name("trial_worker.py")


@dataclass
class Life:
    """What one life said before it was killed."""

    about: dict[str, dict[str, Any]] = field(default_factory=dict)  # requests sent, by key
    done: dict[str, dict[str, Any]] = field(default_factory=dict)  # and acknowledged
    code: int = 0
    seconds_to_first: float = 0.0  # from its beginning to the first acknowledgement


class Nursery:
    """Where lives begin."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def life(self, *job: object, acks: int, delay: float) -> Life:
        """Run a job; kill it `delay` seconds after so many acknowledgements."""
        began, life, pid, killed = time.monotonic(), Life(), 0, False
        for said in self._lines([job]):
            pid = said.get("pid", pid)
            if "about" in said:
                life.about[said["about"]] = said
            if "done" in said:
                life.done[said["done"]] = said
                life.seconds_to_first = life.seconds_to_first or time.monotonic() - began
            life.code = said.get("ended", life.code)
            if len(life.done) >= acks and pid and not killed:
                time.sleep(delay)
                os.kill(pid, signal.SIGKILL)
                killed = True
        return life

    def side_by_side(
        self, jobs: Sequence[Sequence[object]], patience: float = PATIENCE
    ) -> list[dict[str, Any]]:
        """Run jobs to their ends; all that they said."""
        return list(self._lines(jobs, patience))

    def _lines(
        self, jobs: Sequence[Sequence[object]], patience: float = PATIENCE
    ) -> Iterator[dict[str, Any]]:
        """What jobs say until all have ended; a nursery that hangs is killed, and so ends too."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(jobs) + "\n")
        self.process.stdin.flush()
        alive = len(jobs)
        watch = threading.Timer(patience, self.process.kill)
        watch.start()
        try:
            while alive:
                line = self.process.stdout.readline()
                assert line, "the nursery is gone"
                said = json.loads(line)
                alive -= "ended" in said
                yield said
        finally:
            watch.cancel()


@contextmanager
def open_nursery() -> Iterator[Nursery]:
    """A nursery for as long as the block lasts."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, WORKER], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()
