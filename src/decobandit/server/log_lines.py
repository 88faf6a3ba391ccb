"""The log of the server: plain lines or JSON, without secrets, within quotas.

Strangers share one quota: whoever sends requests without a token cannot fill the disk. The same
line is written a few times per minute; how many were dropped is said by the next one.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from ..support import Cache
from .limits import Buckets
from .request_context import current, id_of, person_of

LogFormat = Literal["plain", "json"]
MAX_MESSAGE = 2000  # characters
MAX_TRACE = 8000
_SECRET = re.compile(r"deco_[A-Za-z0-9_-]{20,}|(?<=://)[^/@\s]+:[^/@\s]+(?=@)")
_PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True)
class LogLimits:
    """How much may be written."""

    rate: float = 100.0  # lines per second about one person, or about none
    burst: int = 2000
    stranger_rate: float = 1.0  # lines per second about all requests without a valid token
    stranger_burst: int = 200
    same: int = 5  # lines with the same text in one window
    window: float = 60.0  # seconds
    clock: Callable[[], float] = time.monotonic


class LogQuota(logging.Filter):
    """Drops lines over the quota; a line that is written says how many of its kind were dropped."""

    def __init__(
        self, limits: LogLimits | None = None, dropped: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__()
        self.limits = limits or LogLimits()
        self.dropped = dropped
        most, clock = self.limits.same * 1000, self.limits.clock
        self._known = Buckets(self.limits.rate, self.limits.burst, most=most, clock=clock)
        self._strangers = Buckets(
            self.limits.stranger_rate, self.limits.stranger_burst, most=1, clock=clock
        )
        self._texts = Cache[str, tuple[float, int]](1000)  # when its window began, lines in it
        self._missing = Cache[str, int](1000)  # dropped lines, not yet reported

    def filter(self, record: logging.LogRecord) -> bool:
        scope = current.get()
        person = person_of(scope)
        who = "stranger" if scope is not None and person is None else f"person {person}"
        bucket = self._strangers if who == "stranger" else self._known
        if bucket.take(who) > 0.0 or self._repeated(record):
            self._missing.update(who, lambda before: (before or 0) + 1)
            self.dropped()
            return False
        record.dropped = self._missing.get(who) or 0
        self._missing.drop(who)
        return True

    def _repeated(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "facts"):  # requests differ in their ids
            return False
        now = self.limits.clock()

        def count(before: tuple[float, int] | None) -> tuple[float, int]:
            began, lines = before or (now, 0)
            return (began, lines + 1) if now - began < self.limits.window else (now, 1)

        text = f"{record.name} {record.levelno} {record.getMessage()[:MAX_MESSAGE]}"
        return self._texts.update(text, count)[1] > self.limits.same


def redacted(text: str, most: int = MAX_MESSAGE) -> str:
    """Return a text without tokens and passwords, cut if it is long."""
    clean = _SECRET.sub("[secret]", text)
    return clean if len(clean) <= most else f"{clean[:most]}... ({len(clean)} characters)"


class PlainLines(logging.Formatter):
    """Lines for people. What a client sent cannot begin a line."""

    def __init__(self) -> None:
        super().__init__(_PLAIN)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        about = [id_of(current.get()), person_of(current.get())]
        text = redacted(record.getMessage())
        record.message = "".join(sign if sign.isprintable() else "?" for sign in text)
        record.message += "".join(f" [{part}]" for part in about if part is not None)
        if dropped := getattr(record, "dropped", 0):
            record.message += f" ({dropped} lines were dropped before)"
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return _trace(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One JSON object per line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        scope = current.get()
        tree: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            "request_id": id_of(scope),
            "person": person_of(scope),
        }
        for key, value in getattr(record, "facts", {}).items():
            tree[key] = redacted(value) if isinstance(value, str) else value
        if dropped := getattr(record, "dropped", 0):
            tree["dropped"] = dropped
        if record.exc_info:
            tree["exception"] = _trace(self.formatException(record.exc_info))
        return json.dumps(tree)


def _trace(text: str) -> str:
    """Return the end of a traceback, where the error is."""
    clean = _SECRET.sub("[secret]", text)
    return clean if len(clean) <= MAX_TRACE else f"...{clean[-MAX_TRACE:]}"


def set_up_log(
    form: LogFormat, *, verbose: bool = False, dropped: Callable[[], object] = lambda: None
) -> logging.Handler:
    """Write the log to standard error; every request where it is JSON, or `verbose`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    handler.addFilter(LogQuota(dropped=dropped))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    if form == "json":
        logging.getLogger("decobandit.requests").setLevel(logging.INFO)
    return handler
