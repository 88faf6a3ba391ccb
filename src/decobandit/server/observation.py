"""Observability: the server's log, and metrics for Prometheus at `/metrics`.

`Observe`, the outermost middleware, counts and logs every request, and gives it an id. Labels of
metrics have few values: routes by their template, methods and statuses that are known, kinds of
events. No name of a trial, an arm or a person is among them.
"""

from __future__ import annotations

import json
import logging
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from .._version import __version__
from ..trials.database import Counts, Store
from ..trials.events import KINDS
from .api.routing import ApiRoute
from .auth import allow
from .errors import METHODS
from .long_work import LongWork
from .request_context import (
    HEADER,
    HttpMiddleware,
    at_start,
    current,
    id_of,
    new_request_id,
    person_of,
)

# -- the log --------------------------------------------------------------------------------------

LogFormat = Literal["plain", "json"]
MAX_MESSAGE = 2000  # characters
MAX_TRACE = 8000
MAX_PATH = 200
_SECRET = re.compile(r"deco_[A-Za-z0-9_-]{20,}|(?<=://)[^/@\s]+:[^/@\s]+(?=@)")
log = logging.getLogger("decobandit.requests")


def redacted(text: str, most: int = MAX_MESSAGE) -> str:
    """Return a text without tokens and passwords, cut if it is long."""
    clean = _SECRET.sub("[secret]", text)
    return clean if len(clean) <= most else f"{clean[:most]}... ({len(clean)} characters)"


def _trace(text: str) -> str:
    """Return the end of a traceback, where the error is."""
    clean = _SECRET.sub("[secret]", text)
    return clean if len(clean) <= MAX_TRACE else f"...{clean[-MAX_TRACE:]}"


class PlainLines(logging.Formatter):
    """Plain-text formatter; replaces control characters, so that no client can forge a line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        about = [id_of(current.get()), person_of(current.get())]
        text = redacted(record.getMessage())
        record.message = "".join(sign if sign.isprintable() else "?" for sign in text)
        record.message += "".join(f" [{part}]" for part in about if part is not None)
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
        if record.exc_info:
            tree["exception"] = _trace(self.formatException(record.exc_info))
        return json.dumps(tree)


def set_up_log(form: LogFormat, *, verbose: bool = False) -> None:
    """Write the log to standard error; every request where it is JSON, or `verbose`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    if form == "json":
        log.setLevel(logging.INFO)


# -- metrics --------------------------------------------------------------------------------------

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _StoreCollector(Collector):
    """Counters that the store keeps."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        written, failed = self._counts.events, self._counts.errors
        yield _by_kind("deco_events", "Events written by this process.", KINDS, written)
        kinds = ("damaged", "unavailable")
        yield _by_kind("deco_database_errors", "Errors of the database.", kinds, failed)


def _by_kind(name: str, text: str, kinds: Iterable[str], counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["kind"])
    for kind in kinds:
        family.add_metric([kind], counts.get(kind, 0))
    return family


class Metrics:
    """The metrics of one application."""

    def __init__(self, store: Store, long_work: LongWork) -> None:
        self.registry = registry = CollectorRegistry()
        Gauge("deco_build_info", "Versions.", ["version", "python"], registry=registry).labels(
            __version__, platform.python_version()
        ).set(1)
        self._requests = Counter(
            "deco_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "deco_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ["method", "route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.under_way = Gauge("deco_requests_under_way", "Requests under way.", registry=registry)
        self._connections = Gauge("deco_connections", "Open connections.", registry=registry)
        solves = Gauge("deco_solves", "Long computations.", ["state"], registry=registry)
        solves.labels("running").set_function(lambda: long_work.load[0])
        solves.labels("waiting").set_function(lambda: long_work.load[1])
        registry.register(_StoreCollector(store.counts))
        ProcessCollector(registry=registry)

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request; status 0: the client was gone before the answer."""
        shown = method if method in METHODS else "other"
        self._requests.labels(shown, route or "none", str(status)).inc()
        self._seconds.labels(shown, route or "none").observe(seconds)

    def watch_connections(self, count: Callable[[], int]) -> None:
        self._connections.set_function(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)


@dataclass(eq=False)
class Observe(HttpMiddleware):
    """Measures and logs requests, and answers with their id in X-Request-ID."""

    metrics: Metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = new_request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        def note(start: Message) -> None:
            nonlocal status
            status = start["status"]
            MutableHeaders(scope=start)[HEADER] = request_id

        before = current.set(scope)
        began = time.perf_counter()
        self.metrics.under_way.inc()
        try:
            await self.app(scope, receive, at_start(send, note))
        finally:
            self.metrics.under_way.dec()
            self._record(scope, status, time.perf_counter() - began)
            current.reset(before)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None)
        self.metrics.answered(scope["method"], route, status, seconds)
        if log.isEnabledFor(logging.INFO):
            facts = {
                "method": scope["method"][:20],
                "route": route,
                "path": scope["path"][:MAX_PATH],  # no query: it may hold secrets
                "status": status,
                "seconds": round(seconds, 6),
                "client": (scope.get("client") or [None])[0],
            }
            text = f"{facts['method']} {facts['path']} {status} in {1e3 * seconds:.1f} ms"
            log.info("%s", text, extra={"facts": facts})


router = APIRouter(route_class=ApiRoute, include_in_schema=False)


@router.get("/metrics")
@allow("admin", "viewer", all_trials=True)
def metrics(request: Request) -> Response:
    """For Prometheus. Not for operators: the numbers of events would tell how far a trial is."""
    registry: Metrics = request.app.state.metrics
    return Response(registry.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
