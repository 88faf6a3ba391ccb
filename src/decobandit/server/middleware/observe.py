"""Every request is counted, gets an id, and can be logged: the outermost middleware."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import request_context
from ..metrics import Metrics
from .base import HttpMiddleware, at_start

log = logging.getLogger("decobandit.requests")
MAX_PATH = 200  # characters of it that are logged


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
            facts = {
                "method": scope["method"][:20],
                "route": route,
                "path": path,
                "status": status,
                "seconds": round(seconds, 6),
                "client": (scope.get("client") or [None])[0],
            }
            log.info(
                "%s %s %s in %.1f ms",
                facts["method"],
                path,
                status,
                1e3 * seconds,
                extra={"facts": facts},
            )
