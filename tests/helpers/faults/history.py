"""Histories: what clients asked of trials, what they were told, and when, by one clock.

A history is a file of JSON lines, to which all clients append: one line before a request is sent,
one after its answer has arrived. A client that is killed in between leaves the first line only. The
clock is CLOCK_MONOTONIC, which all processes of a machine share.
"""

import json
import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

WRITES = {"ask": "asked", "tell": "told", "cancel": "cancelled", "correct": "corrected"}
READS = ("status", "list", "export")
OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"
INTERNAL = "internal"  # code of an error that nobody expected


@dataclass(frozen=True)
class Request:
    """What a client wants; a second attempt has the same key."""

    kind: str  # a key of WRITES, or one of READS
    trial: str  # its name
    key: str | None = None
    allocation: str | None = None
    outcome: int | None = None


@dataclass(frozen=True)
class Answer:
    """What became of an attempt; `unknown` because of a fault: it may have happened or not."""

    outcome: str = UNKNOWN
    told: Any = None  # the answer, as JSON
    code: str = ""  # of a refusal, or of what went wrong


@dataclass(frozen=True)
class Operation:
    """One attempt at a request, with the times of its invocation and completion (ns)."""

    client: str
    request: Request
    began: int
    ended: int | None = None  # None: never
    answer: Answer = field(default=Answer())


class Recorder:
    """Appends to a history; for all threads of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._count = 0

    def begin(self, client: str, request: Request) -> str:
        """Before the request is sent; the name of the attempt."""
        with self._lock:
            self._count += 1
            name = f"{os.getpid()}.{self._count}"
        self._write(began=name, client=client, at=time.monotonic_ns(), request=request.__dict__)
        return name

    def end(self, name: str, answer: Answer) -> None:
        """After the answer has arrived."""
        self._write(ended=name, at=time.monotonic_ns(), answer=answer.__dict__)

    def _write(self, **line: Any) -> None:
        # one write: appended whole or not at all, even by a process that dies
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read_history(path: Path) -> list[Operation]:
    """All attempts, by the time at which they began."""
    found: dict[str, Operation] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "began" in line:
            request = Request(**line["request"])
            found[line["began"]] = Operation(line["client"], request, line["at"])
        else:
            begun, answer = found[line["ended"]], Answer(**line["answer"])
            found[line["ended"]] = replace(begun, ended=line["at"], answer=answer)
    return sorted(found.values(), key=lambda operation: operation.began)
