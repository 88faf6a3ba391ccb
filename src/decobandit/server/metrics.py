"""Metrics of the server in the text format of Prometheus: `/metrics`; the log of requests.

`Observe`, the outermost middleware, counts and logs every request, and gives it an id. Labels
have few values: routes by their template, methods and statuses that are known, kinds of
events. No name of a trial, an arm or a person is among them.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterable, Mapping

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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .._version import __version__
from ..trials.database import Counts, Store
from ..trials.events import KINDS
from . import request_context
from .api.routing import ApiRoute
from .auth import allow
from .errors import METHODS
from .long_work import LongWork
from .request_context import HttpMiddleware, at_start

log = logging.getLogger("decobandit.requests")
MAX_PATH = 200  # characters of it that are logged
NO_ROUTE = "none"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _StoreCollector(Collector):
    """Counters that the store keeps."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        written, failed = self._counts.events(), self._counts.errors()
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
        self.registry = CollectorRegistry()
        registry = self.registry
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
        self._connections = Gauge(
            "deco_connections", "Connections that are open.", registry=registry
        )
        solves = Gauge("deco_solves", "Long computations.", ["state"], registry=registry)
        solves.labels("running").set_function(lambda: long_work.load[0])
        solves.labels("waiting").set_function(lambda: long_work.load[1])
        self.log_lines_dropped = Counter(
            "deco_log_lines_dropped", "Lines over the quota of the log.", registry=registry
        )
        self.registry.register(_StoreCollector(store.counts))
        ProcessCollector(registry=self.registry)

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request; status 0: the client was gone before the answer."""
        shown = method if method in METHODS else "other"
        place = route or NO_ROUTE
        self._requests.labels(shown, place, str(status)).inc()
        self._seconds.labels(shown, place).observe(seconds)

    def watch_connections(self, count: Callable[[], int]) -> None:
        self._connections.set_function(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Observe(HttpMiddleware):
    """Measures requests, and answers with their id in X-Request-ID."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        super().__init__(app)
        self.metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = request_context.request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        def note(start: Message) -> None:
            nonlocal status
            status = start["status"]
            MutableHeaders(scope=start)[request_context.HEADER] = request_id

        before = request_context.current.set(scope)
        began = time.perf_counter()
        self.metrics.under_way.inc()
        try:
            await self.app(scope, receive, at_start(send, note))
        finally:
            self.metrics.under_way.dec()
            self._record(scope, status, time.perf_counter() - began)
            request_context.current.reset(before)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None)
        self.metrics.answered(scope["method"], route, status, seconds)
        if log.isEnabledFor(logging.INFO):
            # no query: it may hold secrets
            path = scope["path"][:MAX_PATH]
            method = scope["method"][:20]
            facts = {
                "method": method,
                "route": route,
                "path": path,
                "status": status,
                "seconds": round(seconds, 6),
                "client": (scope.get("client") or [None])[0],
            }
            text = f"{method} {path} {status} in {1e3 * seconds:.1f} ms"
            log.info("%s", text, extra={"facts": facts})


router = APIRouter(route_class=ApiRoute, include_in_schema=False)


@router.get("/metrics")
@allow("admin", "viewer", all_trials=True)
def metrics(request: Request) -> Response:
    """For Prometheus. Not for operators: the numbers of events would tell how far a trial is."""
    registry: Metrics = request.app.state.metrics
    return Response(registry.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
